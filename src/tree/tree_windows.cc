// Paths whose front pages are hollow, in models all of whose layers have a window.
//
//   window 64, path of 180 tokens      page  0    1    2    3    4    5
//                                           [ - ][ - ][ x ][ x ][ x ][ x ]     x: with a frame
//
//   continued behind 180 tokens      the next one sees 117 .. 180: pages 3, 4, 5      yes
//   continued behind 130             the next one sees  67 .. 130: pages 2, 3, 4      yes
//   continued behind 120             the next one sees  57 .. 120: page 1 is hollow   no
//
// A token more than the window counts, so that the last token of the path can be computed once more
// where its result is read. What comes behind the last place where a path can be continued is of
// no use: a leaf that is not held ends at such a place (Tree::prune), so that every node leads to
// one.
//
// Pages become hollow in bands alone: a page that counts for the pool keeps its frame until it is
// evicted. So a pin, a snapshot and a request that does not slide need to know of nothing but how
// far pages of the pool go (`lasting`, pages_to_own).
#include <algorithm>
#include <utility>

#include "base/page.h"
#include "base/status.h"
#include "tree/tree.h"

namespace prefix {

// The page of a position of the node.
int32_t Tree::page_at(const Node& n, int32_t position) const {
  int32_t page = n.last_page;
  for (int32_t b = (n.end() - 1) / kPageTokens; b > position / kPageTokens; --b)
    page = pages_.previous(page);
  return page;
}

// The page of a block is that of the node which has the last of its positions: a branch in mid-page
// has copied what is before it.
template <typename F>
void Tree::walk_back(NodeId id, int32_t end, const F& f) const {
  if (end == 0) return;
  id = node_at(id, end - 1);
  int32_t page = page_at(nodes_[id], end - 1);
  for (int32_t block = (end - 1) / kPageTokens; f(page, block) && block > 0;) {
    const int32_t last = block-- * kPageTokens - 1;
    const NodeId above = node_at(id, last);
    page = above == id ? pages_.previous(page) : page_at(nodes_[above], last);
    id = above;
  }
}

int32_t Tree::computed_end(NodeId id, int32_t length) const {
  id = node_at(id, length - 1);
  while (nodes_[id].length > 0 && nodes_[id].computed == 0) id = nodes_[id].parent;
  return std::min(length, nodes_[id].start + nodes_[id].computed);
}

bool Tree::is_whole(NodeId id, int32_t from, int32_t end) const {
  if (pages_.hollow_pages() == 0 || from >= end) return true;
  bool whole = true;
  walk_back(id, end, [&](int32_t page, int32_t block) {
    whole = !pages_.hollow(page);
    return whole && block * kPageTokens > from;
  });
  return whole;
}

bool Tree::has_rows(NodeId id, int32_t from, int32_t end) const {
  if (pages_.hollow_pages() == 0 || from >= end) return true;
  bool all = true;
  for (id = node_at(id, end - 1); all && nodes_[id].end() > from; id = nodes_[id].parent) {
    const Node& n = nodes_[id];
    for_each_piece(n, std::max(0, from - n.start), std::min(n.end(), end) - n.start,
                   [&](int32_t page, int32_t, int32_t) { all = all && !pages_.hollow(page); });
  }
  return all;
}

int32_t Tree::whole_until(NodeId id, int32_t end) const {
  if (pages_.hollow_pages() == 0) return end;
  int32_t until = end;
  walk_back(id, end, [&](int32_t page, int32_t block) {
    if (pages_.hollow(page)) until = block * kPageTokens;
    return true;
  });
  return until;
}

int32_t Tree::resumable(NodeId id, int32_t length, bool lasting) const {
  if (whole_) {
    const NodeId at = state_at(id, length);
    return at != kNoNode && nodes_[at].end() == length ? length : 0;
  }
  if (pages_.hollow_pages() == 0 && (!lasting || pages_.sliding_pages() == 0)) return length;
  int32_t end = length;
  walk_back(id, length, [&](int32_t page, int32_t block) {
    if (pages_.hollow(page) || (lasting && pages_.slides(page))) {
      end = block * kPageTokens;
      return true;
    }
    return block * kPageTokens > end - window_;
  });
  return end;
}

// Of the first `length` tokens of the node's own.
int32_t Tree::resumable_in(NodeId id, int32_t length) const {
  const int32_t start = nodes_[id].start;
  return std::max(0, resumable(id, start + length) - start);
}

int32_t Tree::lasting(const Node& n) const {
  if (pages_.hollow_pages() == 0 && pages_.sliding_pages() == 0) return n.computed;
  int32_t tokens = 0;
  bool lasts = true;
  for_each_piece(n, 0, n.computed, [&](int32_t page, int32_t, int32_t count) {
    lasts = lasts && !pages_.hollow(page) && !pages_.slides(page);
    if (lasts) tokens += count;
  });
  return tokens;
}

int32_t Tree::kept_pages(const Node& n) const {
  if (pages_.hollow_pages() == 0) return page_count(n);
  int32_t kept = 0;
  for_each_piece(n, 0, n.length,
                 [&](int32_t page, int32_t, int32_t) { kept += pages_.hollow(page) ? 0 : 1; });
  return kept;
}

int32_t Tree::fill_sliding(NodeId id, int32_t from, int32_t end) {
  if (from >= end) return end;
  offer_changes(space_of(nodes_[id]));
  std::vector<NodeId> path;  // deepest first
  for (id = node_at(id, end - 1); nodes_[id].end() > from; id = nodes_[id].parent)
    path.push_back(id);
  int32_t filled = from;
  for (bool room = true; room && !path.empty(); path.pop_back()) {
    const Node& n = nodes_[path.back()];
    for_each_piece(n, std::max(0, from - n.start), std::min(n.length, end - n.start),
                   [&](int32_t page, int32_t, int32_t count) {
                     room = room && (!pages_.hollow(page) || pages_.bands_have_room());
                     if (!room) return;
                     if (pages_.hollow(page)) pages_.fill_sliding(page);
                     filled += count;
                   });
  }
  return filled;
}

// Makes the page one with a frame of the pool. Returns how many pages of the pool that takes.
int32_t Tree::own_page(int32_t page) {
  const bool hollow = pages_.hollow(page);
  if (!hollow && !pages_.slides(page)) return 0;
  if (hollow) {
    pages_.fill(page);
  } else {
    pages_.settle(page);
  }
  return 1;
}

// The pages of positions [from, end) that have no frame of the pool: those in bands, and the hollow
// ones whose tokens are not computed yet. One before `computed` was given back, and has nothing to
// read.
std::vector<int32_t> Tree::pages_to_own(NodeId id, int32_t from, int32_t computed,
                                        int32_t end) const {
  std::vector<int32_t> found;
  if (from >= end || (pages_.hollow_pages() == 0 && pages_.sliding_pages() == 0)) return found;
  for (id = node_at(id, end - 1); nodes_[id].end() > from; id = nodes_[id].parent) {
    const Node& n = nodes_[id];
    const auto below = static_cast<ptrdiff_t>(found.size());
    int32_t position = n.start;
    for_each_piece(
        n, 0, std::min(n.length, end - n.start), [&](int32_t page, int32_t, int32_t count) {
          position += count;
          const bool wanted = pages_.hollow(page) ? position > computed : pages_.slides(page);
          if (wanted && position > from) found.push_back(page);
        });
    // The page of a split belongs to both nodes: the first one below, the last one here.
    if (below > 0 && std::ssize(found) > below) {
      const auto again = std::find(found.begin(), found.begin() + below, found.back());
      if (again != found.begin() + below) found.pop_back();
    }
  }
  return found;
}

// Parents before children, in one pass: what goes with a leaf are nodes that have no other one below
// them, so the next one of the pass stays.
void Tree::prune_behind(NodeId id, int32_t from, int32_t end) {
  offer_changes(space_of(nodes_[id]));
  const NodeId top = node_at(id, from);
  for (NodeId at = top, next; at != kNoNode; at = next) {
    const Node& n = nodes_[at];
    // What comes below where the window ends does not see them.
    next = n.end() >= end + window_ ? kNoNode : n.first_child;
    for (NodeId up = at; next == kNoNode && up != top; up = nodes_[up].parent)
      next = nodes_[up].next;
    if (may_go(n) && resumable(at, n.end()) < n.end()) prune(at, true);
  }
}

bool Tree::make_way(NodeId* from, int32_t length, int32_t token) {
  if (pages_.hollow_pages() == 0) return true;
  NodeId at = node_at(*from, std::min(length, nodes_[*from].end() - 1));
  NodeId next = at;
  if (length == nodes_[at].end()) {
    next = child(at, token);
  } else if (this->token(nodes_[at], length - nodes_[at].start) != token) {
    return true;
  }
  if (next == kNoNode || length - nodes_[next].start >= nodes_[next].computed ||
      !pages_.hollow(page_at(nodes_[next], length)))
    return true;
  at = end_at(*from, length);
  if (at != *from) {
    lock(at);
    unlock_quietly(std::exchange(*from, at));
  }
  if (const NodeId there = child(at, token); there != kNoNode)
    drop_after({there, 0, length, length}, EvictReason::kCapacity);
  return child(at, token) == kNoNode;
}

int32_t Tree::common(NodeId a, NodeId b) const {
  while (a != b) {
    const bool up_a = nodes_[a].start >= nodes_[b].start;
    const bool up_b = nodes_[b].start >= nodes_[a].start;
    if (up_a) a = nodes_[a].parent;
    if (up_b) b = nodes_[b].parent;
    if (a == kNoNode || b == kNoNode) return 0;
  }
  return nodes_[a].end();
}

}  // namespace prefix
