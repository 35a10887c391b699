#include "cache/snapshot.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/page.h"
#include "base/status.h"
#include "cache/page_install.h"

namespace prefix {
namespace {

// Bytes that are copied at once, while the engine waits.
constexpr size_t kTurnBytes = size_t{64} << 20;

size_t pages_per_turn(const SnapshotCache& cache) {
  return std::max<size_t>(1, kTurnBytes / cache.shape.page_bytes);
}

// What will be written.
struct Plan {
  SnapshotIndex index;
  std::shared_ptr<PagesToSave> pages = std::make_shared<PagesToSave>();  // of all nodes, in order
  int64_t tokens = 0;
  int64_t states = 0;
};

class Planner {
 public:
  explicit Planner(const SnapshotCache& cache) : cache_(cache), tree_(cache.tree) {}

  Plan run(std::vector<int32_t> namespaces) {
    if (namespaces.empty()) namespaces = cache_.namespaces.numbers();
    std::sort(namespaces.begin(), namespaces.end());
    namespaces.erase(std::unique(namespaces.begin(), namespaces.end()), namespaces.end());
    std::vector<NodeId> nodes;
    for (const int32_t name_space : namespaces) {
      cache_.namespaces.require(name_space);
      spaces_[name_space] = static_cast<uint32_t>(plan_.index.namespaces.size());
      plan_.index.namespaces.push_back(cache_.namespaces.parts(name_space));
      for (const NodeId root : cache_.roots(name_space)) collect(root, nodes);
    }
    std::stable_sort(nodes.begin(), nodes.end(), [&](NodeId a, NodeId b) {
      return tree_.node(a).last_use > tree_.node(b).last_use;
    });
    for (const NodeId id : nodes) add_path(id);
    cache_.watch(plan_.pages);
    return std::move(plan_);
  }

 private:
  void collect(NodeId root, std::vector<NodeId>& nodes) const {
    std::vector<NodeId> open{root};
    while (!open.empty()) {
      const NodeId id = open.back();
      open.pop_back();
      if (tree_.has_expiry(id)) continue;  // nor does anything below it stay longer
      const int32_t lasting = tree_.lasting(tree_.node(id));
      if (lasting > 0) nodes.push_back(id);
      if (lasting < tree_.node(id).length) continue;
      for (NodeId c = tree_.node(id).first_child; c != kNoNode; c = tree_.node(c).next)
        if (tree_.node(c).computed > 0) open.push_back(c);
    }
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
    out.name_space = spaces_.at(tree_.name_space(n));
    out.long_regime = tree_.rope_offset(n) > 0;
    out.start = n.start;
    out.uses = n.uses;
    out.priority = n.priority;
    out.tokens = tree_.tokens(n);
    // What is behind a page without keys and values could not be gone on from.
    const int32_t lasting = tree_.lasting(n);
    out.tokens.resize(static_cast<size_t>(lasting));
    plan_.tokens += lasting;
    int32_t position = n.start;
    tree_.for_each_piece(n, 0, lasting, [&](int32_t page, int32_t, int32_t count) {
      plan_.pages->add({page, numbers_[id], position, position + count});
      position += count;
    });
    out.state = tree_.has_state(id) && tree_.state_is_kept(id);
    if (!out.state) return;
    out.state_uses = tree_.state_uses(id);
    out.asked = tree_.state_is_exempt(id);
    ++plan_.states;
    for (const int32_t page : tree_.state_pages(id))
      plan_.pages->add({page, numbers_[id], n.end(), n.end()});
  }

  const SnapshotCache& cache_;
  Tree& tree_;
  Plan plan_;
  std::unordered_map<int32_t, uint32_t> spaces_;
  std::unordered_map<NodeId, int32_t> numbers_;
};

void write_pages(const SnapshotCache& cache, const PagesToSave& pages, SnapshotWriter& file,
                 SnapshotResult& result) {
  const size_t bytes = cache.shape.page_bytes;
  const size_t all = pages.entries().size();
  const size_t most = std::min(pages_per_turn(cache), all);
  std::vector<std::byte> buffer(most * bytes);
  std::vector<bool> there(most);
  int32_t last_lost = -1, last_lost_state = -1;
  for (size_t at = 0; at < all; at += most) {
    const size_t count = std::min(most, all - at);
    cache.run_exclusive([&] {
      std::vector<KvMemory::Read> wanted;
      for (size_t i = 0; i < count; ++i) {
        const int32_t page = pages.entries()[at + i].page;
        there[i] = page >= 0;
        if (there[i]) wanted.push_back({cache.pages.frame(page), buffer.data() + i * bytes});
      }
      cache.kv.read(wanted);
    });
    for (size_t i = 0; i < count; ++i) {
      if (there[i]) {
        file.add_page(std::span(buffer).subspan(i * bytes, bytes));
        continue;
      }
      file.add_lost_page();
      const PagesToSave::Entry& lost = pages.entries()[at + i];
      if (lost.begin == lost.end) {
        result.states -= std::exchange(last_lost_state, lost.node) != lost.node;
        continue;
      }
      result.tokens -= lost.end - lost.begin;
      result.nodes -= std::exchange(last_lost, lost.node) != lost.node;
    }
  }
}

}  // namespace

SnapshotResult save_snapshot(const SnapshotCache& cache, const std::string& path,
                             std::vector<int32_t> namespaces) {
  Plan plan;
  cache.run_exclusive([&] { plan = Planner(cache).run(std::move(namespaces)); });
  SnapshotResult result;
  result.namespaces = static_cast<int64_t>(plan.index.namespaces.size());
  result.nodes = static_cast<int64_t>(plan.index.nodes.size());
  result.tokens = plan.tokens;
  result.states = plan.states;
  SnapshotWriter file(path, cache.shape, plan.index);
  write_pages(cache, *plan.pages, file, result);
  result.bytes = file.finish();
  return result;
}

namespace {

class Loader {
 public:
  Loader(const SnapshotCache& cache, const std::string& path)
      : cache_(cache),
        file_(path, cache.shape),
        nodes_(file_.index().nodes),
        progress_(nodes_.size()),
        max_pages_(std::max(std::min(pages_per_turn(cache), page_count(nodes_)), state_pages())),
        buffer_(max_pages_ * cache.shape.page_bytes) {}

  SnapshotResult run() {
    const SnapshotIndex& index = file_.index();
    cache_.run_exclusive([&] {
      for (const NamespaceParts& parts : index.namespaces)
        spaces_.push_back(cache_.namespaces.open(parts));
    });
    for (size_t i = 0; i < nodes_.size() && !full_; ++i) read(i);
    install_read();
    touch_all();
    result_.namespaces = static_cast<int64_t>(index.namespaces.size());
    return result_;
  }

 private:
  // Pages of one node that lie in the buffer, or all those of its state.
  struct Piece {
    size_t node;
    int32_t block;  // of its path, of the first page; -1: of the state
    int32_t pages;
    size_t at;  // in the buffer, in pages
  };
  struct Progress {
    int32_t end = 0;    // of what of the path is in the tree
    bool lost = false;  // the rest of it will not be
  };

  size_t state_pages() const { return static_cast<size_t>(cache_.shape.state_pages); }
  size_t page_count(const std::vector<SnapshotNode>& nodes) const {
    size_t pages = 0;
    for (const SnapshotNode& n : nodes)
      pages += static_cast<size_t>(pages_between(n.start, n.end())) + (n.state ? state_pages() : 0);
    return pages;
  }
  bool is_open(const SnapshotNode& n) const { return cache_.namespaces.has(spaces_[n.name_space]); }
  NodeId root_of(const SnapshotNode& n) const {
    return cache_.root(spaces_[n.name_space], n.long_regime);
  }
  int32_t space_below(NodeId root) const { return cache_.tree.name_space(cache_.tree.node(root)); }
  int64_t reserved_below(NodeId root) const {
    if (!cache_.reserved_tokens) return 0;
    return std::min<int64_t>(cache_.reserved_tokens(space_below(root)), INT32_MAX / 2);
  }
  // The first `end` tokens of the path to a node.
  std::vector<int32_t> path(const SnapshotNode& node, int32_t end) const {
    std::vector<int32_t> tokens(static_cast<size_t>(node.end()));
    for (const SnapshotNode* n = &node;; n = &nodes_[static_cast<size_t>(n->parent)]) {
      std::copy(n->tokens.begin(), n->tokens.end(), tokens.begin() + n->start);
      if (n->parent < 0) break;
    }
    tokens.resize(static_cast<size_t>(end));
    return tokens;
  }
  std::span<std::byte> buffered(size_t page) {
    return std::span(buffer_).subspan(page * cache_.shape.page_bytes, cache_.shape.page_bytes);
  }

  // Reads the pages of a node, and puts what was read into the tree whenever the buffer is full.
  void read(size_t number) {
    const SnapshotNode& n = nodes_[number];
    Progress& state = progress_[number];
    state.end = n.start;
    state.lost = n.parent >= 0 && progress_[static_cast<size_t>(n.parent)].lost;
    const int32_t pages = pages_between(n.start, n.end());
    for (int32_t done = 0; !state.lost && done < pages;) {
      const auto room = static_cast<int32_t>(std::min<size_t>(max_pages_ - read_, INT32_MAX));
      const int32_t wanted = std::min(room, pages - done);
      int32_t got = 0;
      const auto next = [&] { return buffered(read_ + static_cast<size_t>(got)); };
      while (got < wanted && file_.read_page(number, done + got, next()) &&
             ops::page_is_finite(next().data(), cache_.layout))
        ++got;
      if (got > 0) pieces_.push_back({number, n.start / kPageTokens + done, got, read_});
      read_ += static_cast<size_t>(got);
      done += got;
      if (read_ == max_pages_) install_read();
      state.lost = state.lost || got < wanted;
    }
    if (n.state && !state.lost) read_state(number, pages);
  }

  // One that is damaged is left out, and nothing else with it.
  void read_state(size_t number, int32_t first) {
    const size_t pages = state_pages();
    if (max_pages_ - read_ < pages) install_read();
    if (pages == 0 || full_) return;
    for (size_t i = 0; i < pages; ++i) {
      const std::span<std::byte> page = buffered(read_ + i);
      if (!file_.read_page(number, first + static_cast<int32_t>(i), page) ||
          !ops::all_finite(page.data(), page.size(), ops::KvType::kF32))
        return;
    }
    pieces_.push_back({number, -1, cache_.shape.state_pages, read_});
    read_ += pages;
    if (read_ == max_pages_) install_read();
  }

  void install_read() {
    if (pieces_.empty()) return;
    cache_.run_exclusive([&] {
      for (const Piece& piece : pieces_) install(piece);
      full_ = cache_.pages.available() <= 0;
    });
    pieces_.clear();
    read_ = 0;
  }

  // As much of a piece as there is room for.
  void install(const Piece& piece) {
    const SnapshotNode& n = nodes_[piece.node];
    Progress& state = progress_[piece.node];
    if (piece.block < 0) {
      if (state.end == n.end()) install_state(piece, n);
      return;
    }
    const bool on_parent = n.parent < 0 || progress_[static_cast<size_t>(n.parent)].end == n.start;
    const int32_t wanted = std::min(n.end(), (piece.block + piece.pages) * kPageTokens);
    state.end = on_parent ? install(piece, n, state.end, wanted) : state.end;
    if (state.end < wanted) state.lost = true;
  }
  // Returns where the path in the tree ends then.
  int32_t install(const Piece& piece, const SnapshotNode& n, int32_t end, int32_t wanted) {
    if (!is_open(n)) return end;
    const NodeId root = root_of(n);
    const Match match = cache_.tree.match(root, path(n, wanted));
    if (match.computed < std::max(end, piece.block * kPageTokens)) return end;  // evicted since
    if (match.computed == wanted) return wanted;
    if (match.computed < match.matched) return end;  // a request is computing the rest just now
    const int64_t by_pages = cache_.tree.reach(match, cache_.pages.available());
    const int64_t reserved = reserved_below(root);
    const int64_t by_quota = match.matched + cache_.tree.quota_left(space_below(root)) - reserved;
    const auto until = static_cast<int32_t>(std::min({int64_t{wanted}, by_pages, by_quota}));
    if (until <= match.matched) return end;
    const NodeId id =
        install_pages(cache_.tree, cache_.pages, cache_.kv, root, path(n, until),
                      {.priority = n.priority,
                       .reserve_tokens = static_cast<int32_t>(reserved),
                       .count_as_use = false},
                      [&](int32_t block) {
                        return buffered(piece.at + static_cast<size_t>(block - piece.block)).data();
                      });
    cache_.tree.set_uses(id, n.uses);
    cache_.tree.unlock_quietly(id);
    return until;
  }

  void install_state(const Piece& piece, const SnapshotNode& n) {
    if (!is_open(n)) return;
    const Match match = cache_.tree.match(root_of(n), path(n, n.end()));
    if (match.computed < n.end()) return;  // evicted since
    prefix::install_state(cache_.tree, cache_.pages, cache_.kv, match.node, n.end(), piece.pages,
                          reserved_below(root_of(n)), [&](int32_t i) {
                            return buffered(piece.at + static_cast<size_t>(i)).data();
                          });
  }

  // All that is there now is used once more in the order of use, the last one last: as it was when
  // it was saved, but for what requests use between the turns.
  void touch_all() {
    for (size_t left = nodes_.size(); left > 0;) {
      cache_.run_exclusive([&] {
        for (int64_t tokens = 0; left > 0 && tokens < cache_.turn_tokens;) {
          const SnapshotNode& n = nodes_[--left];
          touch(n);
          tokens += n.end();
        }
      });
    }
  }

  // What is in a file has no end, so a time to live that it has here ends.
  void touch(const SnapshotNode& n) {
    const std::vector<int32_t> tokens = path(n, n.end());
    const Match match = is_open(n) ? cache_.tree.match(root_of(n), tokens) : Match{};
    const int32_t there = std::max(0, match.computed - n.start);
    result_.tokens += there;
    result_.skipped_tokens += n.end() - n.start - there;
    result_.nodes += match.computed == n.end();
    if (there == 0) return;
    const NodeId id = cache_.tree.node_at(match.node, n.start + there - 1);
    cache_.tree.lock(id);
    cache_.tree.prolong(id, n.start + there, 0);
    cache_.tree.unlock(id, true);
    if (n.state && match.computed == n.end() && cache_.tree.node(id).end() == n.end() &&
        cache_.tree.has_state(id)) {
      cache_.tree.renew_state(id, n.state_uses);
      if (n.asked) cache_.tree.exempt_state(id);
      ++result_.states;
    }
  }

  const SnapshotCache& cache_;
  SnapshotReader file_;
  const std::vector<SnapshotNode>& nodes_;
  std::vector<int32_t> spaces_;
  std::vector<Progress> progress_;  // by node
  size_t max_pages_;                // pages that the buffer holds
  std::vector<std::byte> buffer_;
  std::vector<Piece> pieces_;
  size_t read_ = 0;  // pages in the buffer
  bool full_ = false;
  SnapshotResult result_;
};

}  // namespace

SnapshotResult load_snapshot(const SnapshotCache& cache, const std::string& path) {
  return Loader(cache, path).run();
}

}  // namespace prefix
