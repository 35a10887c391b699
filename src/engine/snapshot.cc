#include "engine/snapshot.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/page_install.h"
#include "tree/page_math.h"

namespace prefix {
namespace {

// Bytes that are copied at once, while the engine waits.
constexpr size_t kTurnBytes = size_t{64} << 20;

size_t pages_per_turn(const SnapshotCache& cache) {
  return std::max<size_t>(1, kTurnBytes / cache.kv.layout().page_bytes());
}

// What will be written, with locks that keep its pages as they are.
struct Plan {
  SnapshotIndex index;
  std::vector<int32_t> pages;  // of all nodes, in order
  std::vector<NodeId> locked;
  int64_t tokens = 0;
};

class Planner {
 public:
  explicit Planner(const SnapshotCache& cache) : cache_(cache), tree_(cache.tree) {}

  Plan run(std::span<const int32_t> namespaces) {
    std::vector<NodeId> nodes;
    for (const int32_t name_space : namespaces) {
      spaces_[name_space] = static_cast<uint32_t>(plan_.index.namespaces.size());
      plan_.index.namespaces.push_back(cache_.namespaces.parts(name_space));
      for (const NodeId root : cache_.roots(name_space)) collect(root, nodes);
    }
    std::stable_sort(nodes.begin(), nodes.end(), [&](NodeId a, NodeId b) {
      return tree_.node(a).last_use > tree_.node(b).last_use;
    });
    for (const NodeId id : nodes) add_path(id);
    for (const NodeId id : nodes) {
      if (has_saved_child(id)) continue;
      tree_.lock(id);
      plan_.locked.push_back(id);
    }
    return std::move(plan_);
  }

 private:
  void collect(NodeId root, std::vector<NodeId>& nodes) const {
    std::vector<NodeId> open{root};
    while (!open.empty()) {
      const NodeId id = open.back();
      open.pop_back();
      if (tree_.node(id).computed > 0) nodes.push_back(id);
      for (NodeId c = tree_.node(id).first_child; c != kNoNode; c = tree_.node(c).next)
        if (tree_.node(c).computed > 0) open.push_back(c);
    }
  }
  bool has_saved_child(NodeId id) const {
    for (NodeId c = tree_.node(id).first_child; c != kNoNode; c = tree_.node(c).next)
      if (tree_.node(c).computed > 0) return true;
    return false;
  }
  // Parents first, although they were used at least as recently as their children.
  void add_path(NodeId id) {
    std::vector<NodeId> path;
    for (; tree_.node(id).length > 0 && !numbers_.contains(id); id = tree_.node(id).parent)
      path.push_back(id);
    for (; !path.empty(); path.pop_back()) add(path.back());
  }
  void add(NodeId id) {
    const Node& n = tree_.node(id);
    numbers_[id] = static_cast<int32_t>(plan_.index.nodes.size());
    SnapshotNode& out = plan_.index.nodes.emplace_back();
    const bool first = tree_.node(n.parent).length == 0;
    out.parent = first ? -1 : numbers_.at(n.parent);
    out.name_space = spaces_.at(tree_.space(n));
    out.long_regime = tree_.rope_offset(n) > 0;
    out.start = n.start;
    out.uses = n.uses;
    out.priority = n.priority;
    out.tokens = tree_.tokens(n);
    out.tokens.resize(static_cast<size_t>(n.computed));
    plan_.tokens += n.computed;
    tree_.for_each_piece(n, 0, n.computed,
                         [&](int32_t page, int32_t, int32_t) { plan_.pages.push_back(page); });
  }

  const SnapshotCache& cache_;
  Tree& tree_;
  Plan plan_;
  std::unordered_map<int32_t, uint32_t> spaces_;
  std::unordered_map<NodeId, int32_t> numbers_;
};

void write_pages(const SnapshotCache& cache, const Plan& plan, SnapshotWriter& file) {
  const size_t bytes = cache.kv.layout().page_bytes();
  const size_t most = pages_per_turn(cache);
  std::vector<std::byte> buffer(std::min(most, plan.pages.size()) * bytes);
  for (size_t at = 0; at < plan.pages.size(); at += most) {
    const size_t count = std::min(most, plan.pages.size() - at);
    cache.between_steps([&] {
      for (size_t i = 0; i < count; ++i)
        cache.kv.read(plan.pages[at + i], buffer.data() + i * bytes);
    });
    for (size_t i = 0; i < count; ++i) file.add_page(std::span(buffer).subspan(i * bytes, bytes));
  }
}

}  // namespace

SnapshotResult save_snapshot(const SnapshotCache& cache, const std::string& path,
                             std::span<const int32_t> namespaces) {
  Plan plan;
  const auto unlock = [&] {
    for (const NodeId id : std::exchange(plan.locked, {})) cache.tree.end_hold(id);
  };
  SnapshotResult result;
  cache.between_steps([&] { plan = Planner(cache).run(namespaces); });
  try {
    SnapshotWriter file(path, cache.shape, plan.index);
    write_pages(cache, plan, file);
    result.bytes = file.finish();
  } catch (...) {
    try {
      cache.between_steps(unlock);
    } catch (const Error&) {
      // The engine was closed meanwhile, and the tree is gone with its locks.
    }
    throw;
  }
  cache.between_steps(unlock);
  result.namespaces = static_cast<int64_t>(plan.index.namespaces.size());
  result.nodes = static_cast<int64_t>(plan.index.nodes.size());
  result.tokens = plan.tokens;
  return result;
}

namespace {

class Loader {
 public:
  Loader(const SnapshotCache& cache, const std::string& path)
      : cache_(cache), file_(path, cache.shape) {}

  SnapshotResult run() {
    const SnapshotIndex& index = file_.index();
    cache_.between_steps([&] {
      for (const NamespaceParts& parts : index.namespaces)
        spaces_.push_back(cache_.namespaces.open(parts));
    });
    loaded_.resize(index.nodes.size());
    for (size_t i = 0; i < index.nodes.size(); ++i) load(i);
    cache_.between_steps([&] { touch(); });
    result_.namespaces = static_cast<int64_t>(index.namespaces.size());
    return result_;
  }

 private:
  NodeId root_of(const SnapshotNode& n) const {
    return cache_.root(spaces_[n.name_space], n.long_regime);
  }
  // The first `end` tokens of the path to a node.
  std::vector<int32_t> path(const SnapshotNode& node, int32_t end) const {
    std::vector<int32_t> tokens(static_cast<size_t>(node.end()));
    for (const SnapshotNode* n = &node;; n = &file_.index().nodes[static_cast<size_t>(n->parent)]) {
      std::copy(n->tokens.begin(), n->tokens.end(), tokens.begin() + n->start);
      if (n->parent < 0) break;
    }
    tokens.resize(static_cast<size_t>(end));
    return tokens;
  }

  void load(size_t number) {
    const SnapshotNode& n = file_.index().nodes[number];
    const size_t bytes = cache_.kv.layout().page_bytes();
    const auto most = static_cast<int32_t>(pages_per_turn(cache_));
    const int32_t first_block = n.start / kPageTokens;
    const int32_t pages = pages_between(n.start, n.end());
    int32_t& end = loaded_[number];  // positions of the path that are in the tree
    end = n.start;
    bool more = n.parent < 0 || loaded_[static_cast<size_t>(n.parent)] == n.start;
    for (int32_t done = 0; more && done < pages;) {
      const int32_t wanted = std::min(most, pages - done);
      buffer_.resize(static_cast<size_t>(wanted) * bytes);
      int32_t got = 0;
      while (got < wanted &&
             file_.read_page(number, done + got,
                             std::span(buffer_).subspan(static_cast<size_t>(got) * bytes, bytes)))
        ++got;
      more = got == wanted && more;
      if (got == 0) break;
      const int32_t until = std::min(n.end(), (first_block + done + got) * kPageTokens);
      bool fits = false;
      cache_.between_steps([&] { fits = install(n, until, first_block + done); });
      if (!fits) break;
      end = until;
      done += got;
    }
    result_.tokens += end - n.start;
    result_.skipped_tokens += n.end() - end;
    if (end == n.end()) ++result_.nodes;
  }

  // Tokens up to `until`, whose last pages are in the buffer, from `block` on.
  bool install(const SnapshotNode& n, int32_t until, int32_t block) {
    const std::vector<int32_t> tokens = path(n, until);
    const NodeId root = root_of(n);
    const Match match = cache_.tree.match(root, tokens);
    if (match.computed < std::max(n.start, block * kPageTokens)) return false;  // evicted since
    if (cache_.tree.pages_needed(match, until) > cache_.pages.available()) return false;
    const size_t bytes = cache_.kv.layout().page_bytes();
    try {
      const NodeId id = install_pages(
          cache_.tree, cache_.pages, cache_.kv, root, tokens, {.priority = n.priority},
          [&](int32_t b) { return buffer_.data() + static_cast<size_t>(b - block) * bytes; });
      if (id == kNoNode) return false;
      if (match.matched < until) cache_.tree.set_uses(id, n.uses);
      cache_.tree.end_hold(id);
    } catch (const Error&) {
      return false;  // the namespace's quota
    }
    return true;
  }

  // Once more in the order of use, the last one last: as it was when it was saved.
  void touch() {
    const std::vector<SnapshotNode>& nodes = file_.index().nodes;
    for (size_t i = nodes.size(); i-- > 0;) {
      if (loaded_[i] == nodes[i].start) continue;
      const Match match = cache_.tree.match(root_of(nodes[i]), path(nodes[i], loaded_[i]));
      if (match.node == kNoNode || match.matched < loaded_[i]) continue;
      cache_.tree.lock(match.node);
      cache_.tree.unlock(match.node, true);
    }
  }

  const SnapshotCache& cache_;
  SnapshotReader file_;
  std::vector<int32_t> spaces_;
  std::vector<int32_t> loaded_;  // by node: end of what of its path was loaded
  std::vector<std::byte> buffer_;
  SnapshotResult result_;
};

}  // namespace

SnapshotResult load_snapshot(const SnapshotCache& cache, const std::string& path) {
  return Loader(cache, path).run();
}

}  // namespace prefix
