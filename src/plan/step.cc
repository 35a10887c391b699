#include "plan/step.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <span>

#include "base/status.h"

namespace prefix {

// Rows for tokens [begin, end) of a node's edge. Whole pieces at a time: planning must cost a few
// nanoseconds per token.
void StepBuilder::append_rows(const Node& n, int32_t begin, int32_t end, StepPlan& plan) const {
  const size_t row = plan.tokens.size();
  const auto count = static_cast<size_t>(end - begin);
  plan.tokens.resize(row + count);
  plan.positions.resize(row + count);
  std::iota(plan.positions.begin() + static_cast<ptrdiff_t>(row), plan.positions.end(),
            n.start + begin);
  plan.slots.resize(row + count);
  int32_t* tokens = plan.tokens.data() + row;
  KvSlot* slots = plan.slots.data() + row;
  tree_.for_each_piece(n, begin, end, [&](int32_t page, int32_t slot, int32_t pieces) {
    std::copy_n(tree_.page_tokens(page) + slot, pieces, tokens);
    tokens += pieces;
    const int32_t frame = tree_.frame(page);
    PREFIX_CHECK(frame >= 0);
    for (int32_t i = 0; i < pieces; ++i) *slots++ = {frame, slot + i};
  });
}

void StepBuilder::begin() {
  ++step_;
  roots_.clear();
  extras_.clear();
  extra_keys_.clear();
  order_.clear();
  starts_.clear();
  state_numbers_.clear();
  const auto nodes = static_cast<size_t>(tree_.node_limit());
  if (marks_.size() < nodes) marks_.resize(nodes + nodes / 2 + 64);
}

// Marks the node and its ancestors, linking each below its parent. Leaves chain_ as it is.
void StepBuilder::touch(NodeId id) {
  const size_t kept = chain_.size();
  for (NodeId up = id; up != kNoNode && !marked(up); up = tree_.node(up).parent) {
    PREFIX_CHECK(static_cast<size_t>(up) < marks_.size());  // no node is made since begin()
    marks_[up] = Mark{};
    marks_[up].step = step_;
    chain_.push_back(up);
  }
  for (; chain_.size() > kept; chain_.pop_back()) {
    const NodeId child = chain_.back();
    const NodeId parent = tree_.node(child).parent;
    if (parent == kNoNode) {
      roots_.push_back(child);
      continue;
    }
    Mark& p = marks_[parent];
    (p.last_child != kNoNode ? marks_[p.last_child].next : p.first_child) = child;
    p.last_child = child;
  }
}

int32_t StepBuilder::take(NodeId node, int32_t length, int32_t limit) {
  chain_.clear();
  for (NodeId id = tree_.node_at(node, length - 1); tree_.node(id).length > 0;) {
    const Node& n = tree_.node(id);
    const int32_t wanted = std::min(length, n.end()) - n.start;
    const int32_t done = marked(id) ? std::max(n.computed, marks_[id].take_end) : n.computed;
    if (done < wanted) chain_.push_back(id);
    if (done > 0) break;  // then all its ancestors are done
    id = n.parent;
  }
  int32_t taken = 0;
  while (!chain_.empty() && taken < limit) {
    const NodeId id = chain_.back();
    chain_.pop_back();
    touch(id);
    const Node& n = tree_.node(id);
    Mark& m = marks_[id];
    if (m.take_end == 0) m.take_begin = m.take_end = n.computed;
    const int32_t wanted = std::min(length, n.end()) - n.start;
    const int32_t added = std::min(limit - taken, wanted - m.take_end);
    m.take_end += added;
    taken += added;
  }
  return taken;
}

int32_t StepBuilder::recompute(NodeId node, int32_t position) {
  const NodeId id = tree_.node_at(node, position);
  const int32_t offset = position - tree_.node(id).start;
  PREFIX_CHECK(offset < tree_.node(id).computed);
  if (!extra_keys_.insert(key_of(id, offset)).second) return 0;
  touch(id);
  extras_.emplace_back(id, offset);
  return 1;
}

void StepBuilder::place_rows(NodeId id, StepPlan& plan) {
  const Node& n = tree_.node(id);
  Mark& m = marks_[id];
  m.row_begin = static_cast<int32_t>(plan.tokens.size());
  for (int32_t i = m.extra_begin; i < m.extra_end; ++i) {
    const int32_t offset = extras_[static_cast<size_t>(i)].second;
    plan.tokens.push_back(tree_.token(n, offset));
    plan.positions.push_back(n.start + offset);
    plan.slots.push_back({-1, 0});
  }
  if (m.take_end > m.take_begin) {
    plan.commits.push_back({id, m.take_end, static_cast<int32_t>(plan.tokens.size())});
    if (m.take_begin == 0 && n.start % kPageTokens != 0) {
      const int32_t from = tree_.node(n.parent).last_page;
      // A hollow page is behind the window of this branch already.
      if (from != n.first_page && tree_.frame(from) >= 0)
        plan.copies.push_back(
            {tree_.frame(from), tree_.frame(n.first_page), n.start % kPageTokens});
    }
    append_rows(n, m.take_begin, m.take_end, plan);
  }
  m.own_end = static_cast<int32_t>(plan.tokens.size());
  if (shape_.bidirectional && m.own_end > m.row_begin) {
    PREFIX_CHECK(n.start == 0 && m.own_end - m.row_begin == n.length);
    ends_.resize(plan.tokens.size(), n.end() - 1);
  }
  if (shape_.state_pages > 0) place_segments(id, plan);
  const int32_t rope_offset = tree_.rope_offset(n);
  plan.rope_rows.resize(plan.tokens.size());
  for (auto row = static_cast<size_t>(m.row_begin); row < plan.tokens.size(); ++row)
    plan.rope_rows[row] = plan.positions[row] + rope_offset;
  list_pages(n, m);
}

// The frames of a node's pages, from the first one that has any to the last: those before it and
// behind it are hollow, and no run has them.
void StepBuilder::list_pages(const Node& n, Mark& m) {
  const auto begin = static_cast<int32_t>(pages_.size());
  int32_t before = 0;
  size_t kept = pages_.size();
  tree_.for_each_piece(n, 0, n.length, [&](int32_t page, int32_t, int32_t) {
    const int32_t frame = tree_.frame(page);
    if (frame < 0 && pages_.size() == static_cast<size_t>(begin)) {
      ++before;
      return;
    }
    pages_.push_back(frame);
    if (frame >= 0) kept = pages_.size();
  });
  pages_.resize(kept);
  m.list_begin = begin;
  m.list_end = static_cast<int32_t>(kept);
  m.page_begin = begin - before;
}

// The rows from `begin` on are of a root with this adapter.
void StepBuilder::add_adapter_rows(int32_t adapter, int32_t begin, StepPlan& plan) {
  const auto end = static_cast<int32_t>(plan.tokens.size());
  if (adapter == 0 || begin == end) return;
  if (!plan.adapters.empty() && plan.adapters.back().adapter == adapter)
    plan.adapters.back().end = end;
  else
    plan.adapters.push_back({adapter, begin, end});
}

// The rows that attention is planned for: all of the step, or some of them, which are counted from
// 0 then.
struct StepBuilder::PlannedRows {
  std::span<const int32_t> positions;
  std::span<const int32_t> kept;  // rows of the step; empty: all

  int32_t count() const { return static_cast<int32_t>(positions.size()); }
  // The first of them that is not before this row of the step.
  int32_t from(int32_t row) const {
    if (kept.empty()) return row;
    return static_cast<int32_t>(std::ranges::lower_bound(kept, row) - kept.begin());
  }
  // The smallest position that rows [begin, end) see.
  int32_t first_key(int32_t window, int32_t begin, int32_t end) const {
    if (window == 0) return 0;
    const auto some =
        positions.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    return std::max(0, *std::ranges::min_element(some) - window + 1);
  }
  // The largest position that a row sees.
  int32_t last_key(const AttentionPlan& attention, int32_t row) const {
    const auto r = static_cast<size_t>(row);
    return seen_keys(attention, r, positions[r]).last;
  }
};

void StepBuilder::clear(StepPlan& plan) const {
  plan.tokens.clear();
  plan.positions.clear();
  plan.rope_rows.clear();
  plan.slots.clear();
  plan.clear.clear();
  plan.copies.clear();
  plan.reads.clear();
  plan.commits.clear();
  plan.adapters.clear();
  plan.scan.segments.clear();
  plan.scan.writes.clear();
  plan.scan.pages.clear();
  plan.scan.state_pages = shape_.state_pages;
  plan.kept.on = false;
}

// Gives each node its part of extras_.
void StepBuilder::sort_extras() {
  std::sort(extras_.begin(), extras_.end());
  for (size_t i = 0; i < extras_.size(); ++i) {
    Mark& m = marks_[extras_[i].first];
    if (m.extra_end == 0) m.extra_begin = static_cast<int32_t>(i);
    m.extra_end = static_cast<int32_t>(i) + 1;
  }
}

// Depth first over what is marked below a root, without recursion: a path may be very deep.
void StepBuilder::place_below(NodeId root, StepPlan& plan) {
  NodeId id = root;
  for (;;) {
    order_.push_back(id);
    place_rows(id, plan);
    if (marks_[id].first_child != kNoNode) {
      id = marks_[id].first_child;
      continue;
    }
    for (;; id = tree_.node(id).parent) {
      marks_[id].subtree_end = static_cast<int32_t>(plan.tokens.size());
      if (id == root) return;
      if (marks_[id].next != kNoNode) break;
    }
    id = marks_[id].next;
  }
}

void StepBuilder::build(StepPlan& plan) {
  clear(plan);
  pages_.clear();
  ends_.clear();
  sort_extras();
  const auto adapter_of = [&](NodeId root) { return tree_.adapter(tree_.node(root)); };
  std::ranges::stable_sort(roots_, {}, adapter_of);
  for (const NodeId root : roots_) {
    const auto first_row = static_cast<int32_t>(plan.tokens.size());
    place_below(root, plan);
    add_adapter_rows(adapter_of(root), first_row, plan);
  }
  plan.attention.resize(shape_.windows.size());
  for (size_t i = 0; i < shape_.windows.size(); ++i) {
    plan.attention[i].window = shape_.windows[i];
    plan_attention({plan.positions, {}}, plan.attention[i]);
  }
}

// Where three of four rows go on, moving them would take about as long as it saves.
void StepBuilder::keep_reads(StepPlan& plan) const {
  StepPlan::Kept& kept = plan.kept;
  kept.on = shape_.keeps_reads && 4 * std::ssize(plan.reads) <= 3 * plan.rows();
  if (!kept.on) return;
  kept.positions.clear();
  for (const int32_t row : plan.reads)
    kept.positions.push_back(plan.positions[static_cast<size_t>(row)]);
  kept.attention.resize(shape_.windows.size());
  if (shape_.last_attention < 0) return;
  const auto last = static_cast<size_t>(shape_.last_attention);
  kept.attention[last].window = shape_.windows[last];
  plan_attention({kept.positions, plan.reads}, kept.attention[last]);
}

// The runs by which the rows [row_begin, row_end) of a tile read the pages of one node. Rows below
// the node read its whole pages (a partly filled last page was copied to their branch); its own
// rows read up to the page of the last position that they see. Pages that are behind the windows of
// all of a run's rows are not in it.
void StepBuilder::add_runs(NodeId id, int32_t row_begin, int32_t row_end, const PlannedRows& rows,
                           AttentionPlan& attention) const {
  const Node& n = tree_.node(id);
  if (n.length == 0) return;
  const Mark& m = marks_[id];
  int32_t own_begin = std::max(row_begin, rows.from(m.row_begin));
  const int32_t own_end = std::min(row_end, rows.from(m.own_end));
  const int32_t below_begin = std::max(row_begin, rows.from(m.own_end));
  const int32_t below_end = std::min(row_end, rows.from(m.subtree_end));
  const int32_t first_block = n.start / kPageTokens;
  const int32_t whole = below_begin < below_end ? n.end() / kPageTokens - first_block : 0;
  const int32_t own = own_begin < own_end
                          ? rows.last_key(attention, own_end - 1) / kPageTokens - first_block + 1
                          : 0;
  const auto add = [&](int32_t from, int32_t to, int32_t begin, int32_t end) {
    if (from >= to || begin >= end) return;
    const int32_t seen = rows.first_key(attention.window, begin, end) / kPageTokens - first_block;
    from = std::max(from, seen);
    if (from >= to) return;
    if (tree_.window() > 0) {
      PREFIX_CHECK(m.page_begin + from >= m.list_begin && m.page_begin + to <= m.list_end);
      for (int32_t i = from; i < to; ++i)
        PREFIX_CHECK(pages_[static_cast<size_t>(m.page_begin + i)] >= 0);
    }
    attention.runs.push_back({m.page_begin + from, first_block + from, to - from, begin, end});
  };
  // A row that is computed once more may lie far before the next one, and pages that neither of
  // them sees may be hollow: no run goes over them.
  const int32_t extras_end = rows.from(m.row_begin + m.extra_end - m.extra_begin);
  for (int32_t row = own_begin; tree_.window() > 0 && row < std::min(extras_end, own_end - 1);
       ++row) {
    const int32_t end = rows.last_key(attention, row) / kPageTokens + 1;
    if (rows.first_key(attention.window, row + 1, row + 2) / kPageTokens <= end) continue;
    add(0, end - first_block, own_begin, row + 1);
    own_begin = row + 1;
  }
  const int32_t common = std::min(whole, own);
  add(0, common, own_begin, below_end);
  add(common, own, own_begin, own_end);
  add(common, whole, below_begin, below_end);
}

void StepBuilder::plan_attention(const PlannedRows& rows, AttentionPlan& attention) const {
  attention.pages = pages_;
  attention.ends = ends_;
  if (!rows.kept.empty() && !ends_.empty()) {
    attention.ends.clear();
    for (const int32_t row : rows.kept) attention.ends.push_back(ends_[static_cast<size_t>(row)]);
  }
  attention.runs.clear();
  attention.tiles.clear();
  attention.items.clear();
  attention.partial_slots = 0;
  const int32_t tile_rows = std::max(1, shape_.tile_rows / (shape_.heads / shape_.kv_heads));
  size_t at = 0;  // order_[at] holds the first row of the tile
  for (int32_t begin = 0; begin < rows.count(); begin += tile_rows) {
    const int32_t end = std::min(rows.count(), begin + tile_rows);
    const auto in_tile = [&](size_t i) {
      return i < order_.size() && rows.from(marks_[order_[i]].row_begin) < end;
    };
    while (rows.from(marks_[order_[at]].own_end) <= begin) ++at;
    AttentionTile tile{begin, end, static_cast<int32_t>(attention.runs.size()), 0, 0};
    tile.first_key = rows.first_key(attention.window, begin, end);
    for (NodeId id = order_[at]; id != kNoNode && tree_.node(id).end() > tile.first_key;
         id = tree_.node(id).parent)
      add_runs(id, begin, end, rows, attention);
    for (size_t i = at + 1; in_tile(i); ++i) add_runs(order_[i], begin, end, rows, attention);
    tile.run_end = static_cast<int32_t>(attention.runs.size());
    std::sort(attention.runs.begin() + tile.run_begin, attention.runs.end(),
              [](const AttentionRun& a, const AttentionRun& b) {
                return a.block_begin != b.block_begin ? a.block_begin < b.block_begin
                                                      : a.row_begin < b.row_begin;
              });
    // Positions ascend inside a node, so the last own row of each node in the tile decides.
    for (size_t i = at; in_tile(i); ++i) {
      const Mark& m = marks_[order_[i]];
      const int32_t own_begin = rows.from(m.row_begin);
      const int32_t own_end = std::min(end, rows.from(m.own_end));
      if (own_end > own_begin)
        tile.last_position = std::max(tile.last_position, rows.last_key(attention, own_end - 1));
    }
    attention.tiles.push_back(tile);
  }
  split_tiles(attention);
}

void StepBuilder::split_tiles(AttentionPlan& attention) const {
  const bool split = static_cast<int64_t>(attention.tiles.size()) <=
                     max_split_tiles(shape_.kv_heads, shape_.threads);
  for (int32_t t = 0; t < static_cast<int32_t>(attention.tiles.size()); ++t) {
    const AttentionTile& tile = attention.tiles[static_cast<size_t>(t)];
    const int32_t first = tile.first_key / kKeyChunk, last = tile.last_position / kKeyChunk;
    if (!split || first == last) {
      attention.items.push_back({t, -1, -1});
      continue;
    }
    for (int32_t c = first; c <= last; ++c)
      attention.items.push_back({t, c, attention.partial_slots++});
  }
}

int32_t StepBuilder::row_of(NodeId node, int32_t position) const {
  const NodeId id = tree_.node_at(node, position);
  if (!marked(id)) return -1;
  const Mark& m = marks_[id];
  const int32_t offset = position - tree_.node(id).start;
  if (offset >= m.take_begin && offset < m.take_end)
    return m.row_begin + (m.extra_end - m.extra_begin) + offset - m.take_begin;
  const auto begin = extras_.begin() + m.extra_begin;
  const auto end = extras_.begin() + m.extra_end;
  const auto found = std::lower_bound(begin, end, std::pair(id, offset));
  if (found == end || found->second != offset) return -1;
  return m.row_begin + static_cast<int32_t>(found - begin);
}

}  // namespace prefix
