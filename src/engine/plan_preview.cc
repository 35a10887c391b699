#include "engine/plan_preview.h"

#include <algorithm>
#include <map>
#include <span>
#include <tuple>

#include "base/json_text.h"
#include "tree/tree.h"

namespace prefix {
namespace {

constexpr size_t kFirstTokens = 8;

class Preview {
 public:
  void add(const RequestSpec& request, const std::string& name_space) {
    if (request.tokens.empty()) return;
    const auto [at, is_new] =
        roots_.try_emplace({name_space, request.name_space, request.adapter}, kNoNode);
    if (is_new) at->second = tree_.add_root();
    tokens_given_ += static_cast<int64_t>(request.tokens.size());
    if (request.task != Task::kChoices) {
      add_path(at->second, request.tokens, request.scores_last());
      return;
    }
    for (const std::vector<int32_t>& choice : request.choices) {
      std::vector<int32_t> path = request.tokens;
      path.insert(path.end(), choice.begin(), choice.end());
      tokens_given_ += static_cast<int64_t>(choice.size());
      add_path(at->second, path, request.scores_last() && !choice.empty());
    }
  }

  std::string json(size_t requests) const {
    const std::vector<NodeId> order = depth_first();
    const std::vector<int64_t> below = requests_below(order);
    std::vector<int64_t> number(static_cast<size_t>(tree_.node_limit()), -1);
    JsonText json;
    json.open('{').field("requests", requests).field("tokens_given", tokens_given_);
    json.field("tokens_distinct", tree_.token_count());
    json.field("tokens_scored", tokens_scored_).key("nodes").open('[');
    int64_t count = 0;
    for (NodeId id : order) {
      const Node& n = tree_.node(id);
      if (n.length == 0) continue;  // a root has no tokens
      number[static_cast<size_t>(id)] = count++;
      json.open('{').field("parent", number[static_cast<size_t>(n.parent)]);
      json.field("start", n.start).field("tokens", n.length);
      json.field("requests", ends_at(id));
      json.field("below", below[static_cast<size_t>(id)]);
      std::vector<int32_t> first = tree_.tokens(n);
      first.resize(std::min(first.size(), kFirstTokens));
      json.list("first", first);
      json.close('}');
    }
    return json.close(']').close('}').text();
  }

 private:
  void add_path(NodeId root, std::span<const int32_t> tokens, bool scores_last) {
    if (scores_last) {
      ++tokens_scored_;
      tokens = tokens.first(tokens.size() - 1);
    }
    if (tokens.empty()) return;  // a text of one token, which the engine refuses to score
    const Match match = tree_.match(root, tokens);
    // A request ends where a node ends, so that each is seen in a picture.
    const NodeId node =
        tree_.end_at(tree_.attach(match, tokens, {}), static_cast<int32_t>(tokens.size()));
    ends_.resize(std::max(ends_.size(), static_cast<size_t>(tree_.node_limit())), 0);
    ++ends_[static_cast<size_t>(node)];
  }

  int64_t ends_at(NodeId id) const {
    return static_cast<size_t>(id) < ends_.size() ? ends_[static_cast<size_t>(id)] : 0;
  }

  // All nodes, parents before their children.
  std::vector<NodeId> depth_first() const {
    std::vector<NodeId> order;
    for (const auto& [name, root] : roots_) {
      std::vector<NodeId> stack{root};
      while (!stack.empty()) {
        const NodeId id = stack.back();
        stack.pop_back();
        order.push_back(id);
        const auto first = static_cast<ptrdiff_t>(stack.size());
        for (NodeId c = tree_.node(id).first_child; c != kNoNode; c = tree_.node(c).next)
          stack.push_back(c);
        std::reverse(stack.begin() + first, stack.end());
      }
    }
    return order;
  }

  // Of each node: the requests that end there or below.
  std::vector<int64_t> requests_below(const std::vector<NodeId>& order) const {
    std::vector<int64_t> below = ends_;
    below.resize(static_cast<size_t>(tree_.node_limit()), 0);
    for (auto id = order.rbegin(); id != order.rend(); ++id)
      if (tree_.node(*id).parent != kNoNode)
        below[static_cast<size_t>(tree_.node(*id).parent)] += below[static_cast<size_t>(*id)];
    return below;
  }

  PagePool pages_{1 << 30};  // numbers only: nothing is stored
  Tree tree_{pages_};
  // By the namespace's name, or its number; and by adapter.
  std::map<std::tuple<std::string, int32_t, std::string>, NodeId> roots_;
  int64_t tokens_given_ = 0;
  int64_t tokens_scored_ = 0;  // each the last of a path, and none of the tree
  std::vector<int64_t> ends_;  // requests that end at a node, up to the last one that has any
};

}  // namespace

std::string plan_preview(const std::vector<RequestSpec>& requests,
                         const std::vector<std::string>& namespaces) {
  Preview preview;
  for (size_t i = 0; i < requests.size(); ++i) preview.add(requests[i], namespaces[i]);
  return preview.json(requests.size());
}

}  // namespace prefix
