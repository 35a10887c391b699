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

}  // namespace

std::string plan_preview(const std::vector<RequestSpec>& requests,
                         const std::vector<std::string>& namespaces) {
  PagePool pages(1 << 30);  // numbers only: nothing is stored
  Tree tree(pages);
  // By the namespace's name, or its number; and by adapter.
  std::map<std::tuple<std::string, int32_t, std::string>, NodeId> roots;
  int64_t given = 0;
  std::vector<int64_t> ends;
  const auto add = [&](NodeId root, const std::vector<int32_t>& tokens) {
    const Match match = tree.match(root, tokens);
    // A request ends where a node ends, so that each is seen in a picture.
    const NodeId node =
        tree.end_at(tree.attach(match, tokens, {}), static_cast<int32_t>(tokens.size()));
    ends.resize(std::max(ends.size(), static_cast<size_t>(tree.node_limit())), 0);
    ++ends[static_cast<size_t>(node)];
  };
  for (size_t i = 0; i < requests.size(); ++i) {
    const RequestSpec& r = requests[i];
    if (r.tokens.empty()) continue;
    const auto [at, is_new] = roots.try_emplace({namespaces[i], r.name_space, r.adapter}, kNoNode);
    if (is_new) at->second = tree.add_root();
    given += static_cast<int64_t>(r.tokens.size());
    if (r.task != Task::kChoices) {
      add(at->second, r.tokens);
      continue;
    }
    for (const std::vector<int32_t>& choice : r.choices) {
      std::vector<int32_t> path = r.tokens;
      path.insert(path.end(), choice.begin(), choice.end());
      given += static_cast<int64_t>(choice.size());
      add(at->second, path);
    }
  }
  ends.resize(static_cast<size_t>(tree.node_limit()), 0);

  std::vector<int64_t> below = ends;
  std::vector<NodeId> order;  // depth first, parents before children
  for (const auto& [name, root] : roots) {
    std::vector<NodeId> stack{root};
    while (!stack.empty()) {
      const NodeId id = stack.back();
      stack.pop_back();
      order.push_back(id);
      const auto first = static_cast<ptrdiff_t>(stack.size());
      for (NodeId c = tree.node(id).first_child; c != kNoNode; c = tree.node(c).next)
        stack.push_back(c);
      std::reverse(stack.begin() + first, stack.end());
    }
  }
  for (auto id = order.rbegin(); id != order.rend(); ++id)
    if (tree.node(*id).parent != kNoNode)
      below[static_cast<size_t>(tree.node(*id).parent)] += below[static_cast<size_t>(*id)];
  std::vector<int64_t> number(static_cast<size_t>(tree.node_limit()), -1);
  JsonText json;
  json.open('{').field("requests", requests.size()).field("tokens_given", given);
  json.field("tokens_distinct", tree.token_count()).key("nodes").open('[');
  int64_t count = 0;
  for (NodeId id : order) {
    const Node& n = tree.node(id);
    if (n.length == 0) continue;  // a root has no tokens
    number[static_cast<size_t>(id)] = count++;
    json.open('{').field("parent", number[static_cast<size_t>(n.parent)]);
    json.field("start", n.start).field("tokens", n.length);
    json.field("requests", ends[static_cast<size_t>(id)]);
    json.field("below", below[static_cast<size_t>(id)]);
    std::vector<int32_t> first = tree.tokens(n);
    first.resize(std::min(first.size(), kFirstTokens));
    json.list("first", first);
    json.close('}');
  }
  return json.close(']').close('}').text();
}

}  // namespace prefix
