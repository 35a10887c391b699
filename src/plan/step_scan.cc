// The part of a plan that recurrent layers read: which rows follow one another, what they begin
// with, where states are stored.
#include <algorithm>

#include "base/status.h"
#include "plan/step.h"

namespace prefix {

// chain_ = the nodes that hold positions [from, length) of the path, deepest first.
void StepBuilder::list_chain(NodeId node, int32_t from, int32_t length) {
  chain_.clear();
  for (NodeId id = tree_.node_at(node, length - 1);; id = tree_.node(id).parent) {
    chain_.push_back(id);
    if (tree_.node(id).start <= from) return;
  }
}

StepBuilder::Scanned StepBuilder::scan(NodeId node, int32_t from, int32_t length, int32_t limit) {
  Scanned added;
  if (from >= length) return added;
  for (list_chain(node, from, length); !chain_.empty(); chain_.pop_back()) {
    const NodeId id = chain_.back();
    const Node& n = tree_.node(id);
    const int32_t begin = std::max(from - n.start, 0);
    const int32_t end = std::min(length, n.end()) - n.start;
    for (int32_t offset = begin; offset < std::min(end, n.computed); ++offset) {
      if (extra_keys_.contains(key_of(id, offset))) continue;
      if (added.rows() == limit) return added;
      added.recomputed += recompute(id, n.start + offset);
    }
    if (end <= n.computed) continue;
    if (added.rows() == limit && (!marked(id) || marks_[id].take_end < end)) return added;
    touch(id);
    Mark& m = marks_[id];
    if (m.take_end == 0) m.take_begin = m.take_end = n.computed;
    const int32_t more = std::clamp(end - m.take_end, 0, limit - added.rows());
    m.take_end += more;
    added.pending += more;
    if (m.take_end < end) return added;
  }
  return added;
}

void StepBuilder::start(NodeId node, int32_t position, const std::vector<int32_t>& state) {
  const NodeId id = tree_.node_at(node, position);
  starts_.try_emplace(key_of(id, position - tree_.node(id).start), &state);
}

int32_t StepBuilder::state_number(const std::vector<int32_t>& state, StepPlan& plan) {
  PREFIX_CHECK(static_cast<int32_t>(state.size()) == shape_.state_pages);
  const auto next = static_cast<int32_t>(state_numbers_.size());
  const auto [found, is_new] = state_numbers_.try_emplace(state.front(), next);
  if (is_new)
    for (const int32_t page : state) plan.scan.pages.push_back(tree_.frame(page));
  return found->second;
}

// The rows of a node, cut where a position is missing.
void StepBuilder::place_segments(NodeId id, StepPlan& plan) {
  const Node& n = tree_.node(id);
  Mark& m = marks_[id];
  const auto position = [&](int32_t row) { return plan.positions[static_cast<size_t>(row)]; };
  for (int32_t begin = m.row_begin; begin < m.own_end;) {
    int32_t end = begin + 1;
    while (end < m.own_end && position(end) == position(end - 1) + 1) ++end;
    ScanSegment segment{begin, end, -1, -1};
    const int32_t first = position(begin);
    if (first > 0) {
      const Mark* const above = first == n.start ? &marks_[n.parent] : nullptr;
      if (above && above->last_segment >= 0 && position(above->own_end - 1) == first - 1) {
        segment.parent = above->last_segment;
      } else {
        const auto state = starts_.find(key_of(id, first - n.start));
        PREFIX_CHECK(state != starts_.end());
        segment.from = state_number(*state->second, plan);
      }
    }
    m.last_segment = static_cast<int32_t>(plan.scan.segments.size());
    plan.scan.segments.push_back(segment);
    begin = end;
  }
}

int32_t StepBuilder::reach(NodeId node, int32_t from, int32_t length) {
  if (from >= length) return from;
  for (list_chain(node, from, length); !chain_.empty(); chain_.pop_back()) {
    const NodeId id = chain_.back();
    if (!marked(id)) return from;
    const Node& n = tree_.node(id);
    const Mark& m = marks_[id];
    int32_t offset = from - n.start;
    const auto end = extras_.begin() + m.extra_end;
    for (auto at = std::lower_bound(extras_.begin() + m.extra_begin, end, std::pair(id, offset));
         at != end && at->second == offset; ++at)
      ++offset;
    if (offset >= m.take_begin && offset < m.take_end) offset = m.take_end;
    from = std::min(length, n.start + offset);
    if (from < std::min(length, n.end())) return from;
  }
  return from;
}

void StepBuilder::store(NodeId node, int32_t position, const std::vector<int32_t>& state,
                        StepPlan& plan) {
  const int32_t row = row_of(node, position);
  PREFIX_CHECK(row >= 0);
  std::vector<ScanWrite>& writes = plan.scan.writes;
  const auto at = std::upper_bound(writes.begin(), writes.end(), row,
                                   [](int32_t r, const ScanWrite& w) { return r < w.row; });
  writes.insert(at, {row, state_number(state, plan)});
}

}  // namespace prefix
