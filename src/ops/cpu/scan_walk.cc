#include "ops/cpu/scan_walk.h"

#include <algorithm>
#include <limits>

#include "base/status.h"

namespace prefix::ops {
namespace {

// Numbers that are in use; the lowest free one is taken.
class Slots {
 public:
  int32_t take() {
    const auto free = std::find(used_.begin(), used_.end(), false);
    const auto slot = static_cast<int32_t>(free - used_.begin());
    if (free == used_.end()) used_.push_back(false);
    used_[static_cast<size_t>(slot)] = true;
    return slot;
  }
  void free(int32_t slot) { used_[static_cast<size_t>(slot)] = false; }
  int32_t count() const { return static_cast<int32_t>(used_.size()); }

 private:
  std::vector<bool> used_;
};

// Which input lies `back` rows before the first row of segment `index`.
int32_t tap_before(const ScanPlan& plan, const std::vector<int32_t>& load_of, int32_t index,
                   int32_t back, int32_t width) {
  while (plan.segments[static_cast<size_t>(index)].parent >= 0) {
    index = plan.segments[static_cast<size_t>(index)].parent;
    const ScanSegment& above = plan.segments[static_cast<size_t>(index)];
    const int32_t rows = above.row_end - above.row_begin;
    if (back <= rows) return above.row_end - back;
    back -= rows;
  }
  const int32_t load = load_of[static_cast<size_t>(index)];
  if (load < 0) return ScanWalk::kZeroTap;
  return ScanWalk::loaded_tap(load, width - 1 - back, width);
}

void add_taps(const ScanPlan& plan, size_t states, int32_t width, ScanWalk& walk) {
  std::vector<int32_t> place(states, -1);  // of each state, in walk.loaded
  std::vector<int32_t> load_of;            // of each segment, the same
  for (const ScanSegment& segment : plan.segments) {
    load_of.push_back(-1);
    if (segment.parent >= 0 || segment.from < 0) continue;
    int32_t& of_state = place[static_cast<size_t>(segment.from)];
    if (of_state < 0) {
      of_state = static_cast<int32_t>(walk.loaded.size());
      walk.loaded.push_back(segment.from);
    }
    load_of.back() = of_state;
  }
  for (size_t i = 0; i < plan.segments.size(); ++i) {
    const ScanSegment& segment = plan.segments[i];
    for (int32_t row = segment.row_begin; row < segment.row_end; ++row) {
      for (int32_t back = width - 1; back > 0; --back) {
        const int32_t inside = row - segment.row_begin;
        walk.taps.push_back(back <= inside ? row - back
                                           : tap_before(plan, load_of, static_cast<int32_t>(i),
                                                        back - inside, width));
      }
    }
  }
}

}  // namespace

ScanWalk make_scan_walk(const ScanPlan& plan, int32_t conv_width) {
  const auto states =
      plan.state_pages > 0 ? plan.pages.size() / static_cast<size_t>(plan.state_pages) : 0;
  const auto known = [&](int32_t state) {
    return state >= 0 && static_cast<size_t>(state) < states;
  };
  std::vector<int32_t> first_write(states, std::numeric_limits<int32_t>::max());
  std::vector<size_t> last_write(states);
  for (size_t i = 0; i < plan.writes.size(); ++i) {
    const ScanWrite& write = plan.writes[i];
    PREFIX_CHECK(known(write.state));
    int32_t& first = first_write[static_cast<size_t>(write.state)];
    first = std::min(first, write.row);
    last_write[static_cast<size_t>(write.state)] = i;
  }

  ScanWalk walk;
  Slots slots;
  std::vector<int32_t> children(plan.segments.size(), 0);  // that are still to come
  std::vector<int32_t> early(plan.segments.size(), -1);    // slots
  int32_t rows = 0;
  for (size_t i = 0; i < plan.segments.size(); ++i) {
    const ScanSegment& segment = plan.segments[i];
    PREFIX_CHECK(segment.row_begin == rows && segment.row_end > rows);
    PREFIX_CHECK(segment.parent < static_cast<int32_t>(i));
    rows = segment.row_end;
    if (segment.parent >= 0) {
      ++children[static_cast<size_t>(segment.parent)];
    } else if (segment.from >= 0) {
      PREFIX_CHECK(known(segment.from));
      if (first_write[static_cast<size_t>(segment.from)] >= segment.row_begin) continue;
      early[i] = slots.take();
      walk.early.push_back({early[i], segment.from});
    }
  }

  size_t write = 0;
  for (size_t i = 0; i < plan.segments.size(); ++i) {
    const ScanSegment& segment = plan.segments[i];
    ScanWalk::Segment to{};
    if (segment.parent >= 0) {
      const auto parent = static_cast<size_t>(segment.parent);
      to.from = walk.segments[parent].slot;
      const bool last = --children[parent] == 0;
      to.begin = last ? ScanWalk::Begin::kThere : ScanWalk::Begin::kCopy;
      to.slot = last ? to.from : slots.take();
    } else if (early[i] >= 0) {
      to.begin = ScanWalk::Begin::kThere;
      to.slot = early[i];
    } else {
      to.begin = segment.from >= 0 ? ScanWalk::Begin::kLoad : ScanWalk::Begin::kZeros;
      to.from = segment.from;
      to.slot = slots.take();
    }
    if (children[i] == 0) slots.free(to.slot);
    to.write_begin = static_cast<int32_t>(walk.writes.size());
    for (; write < plan.writes.size() && plan.writes[write].row < segment.row_end; ++write) {
      const ScanWrite& one = plan.writes[write];
      PREFIX_CHECK(one.row >= segment.row_begin);
      if (last_write[static_cast<size_t>(one.state)] == write) walk.writes.push_back(one);
    }
    to.write_end = static_cast<int32_t>(walk.writes.size());
    to.step = to.begin == ScanWalk::Begin::kLoad && children[i] == 0 &&
              segment.row_end - segment.row_begin == 1 && to.write_end - to.write_begin == 1 &&
              walk.writes.back().state == segment.from;
    walk.segments.push_back(to);
  }
  PREFIX_CHECK(write == plan.writes.size());
  walk.slots = slots.count();
  add_taps(plan, states, conv_width, walk);
  return walk;
}

}  // namespace prefix::ops
