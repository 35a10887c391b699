// How the segments of a step are walked, the same for every layer and every part of a state.
//
// States that segments to come begin with wait in *slots*; the last child of a segment takes its
// slot over, the others copy it:
//
//   segments (depth first)       slot
//   0 ─┬─ 1 ─┬─ 2                0: 0    1: 1, a copy of 0    2: 2, a copy of 1    3: 1, taken over
//      │     └─ 3                4: 0, taken over
//      └─ 4                      slots: 3
//
// A stored state that is read after a segment before it in the walk has written it is brought into
// a slot of its own before the walk begins.
//
// A segment of one row that replaces the state it begins with, as decoding has them, is a *step*:
// it goes over the state where it is stored, without a way through a slot.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/scan_plan.h"

namespace prefix::ops {

struct ScanWalk {
  enum class Begin : int32_t { kThere, kCopy, kLoad, kZeros };
  struct Segment {
    int32_t slot;
    Begin begin;
    int32_t from;  // kCopy: a slot; kLoad: a stored state
    int32_t write_begin;
    int32_t write_end;
    bool step;
  };
  struct Load {
    int32_t slot;
    int32_t state;
  };
  std::vector<Segment> segments;  // as in the plan
  std::vector<ScanWrite> writes;  // those that no later one of the same state replaces
  std::vector<Load> early;        // before the walk
  int32_t slots = 0;

  // The convolution's view: for each row the `width - 1` inputs before it, the oldest first.
  std::vector<int32_t> taps;
  // Stored states that segments begin with, each once.
  std::vector<int32_t> loaded;

  // What a tap is: an input of a row, input i of the `width - 1` of loaded[n], or zeros.
  static constexpr int32_t kZeroTap = -1;
  static int32_t loaded_tap(int32_t n, int32_t i, int32_t width) {
    return -2 - (n * (width - 1) + i);
  }
  static int32_t loaded_index(int32_t tap) { return -2 - tap; }  // n * (width - 1) + i
};

ScanWalk make_scan_walk(const ScanPlan& plan, int32_t conv_width);

// Calls load(slot, state), copy(from slot, to slot), zero(slot), rows(slot, begin, end),
// store(slot, state) and step(slot, state, row) of `states` as the plan asks. step() may use the
// slot as it likes.
template <class States>
void walk_segments(const ScanPlan& plan, const ScanWalk& walk, States& states) {
  for (const ScanWalk::Load& load : walk.early) states.load(load.slot, load.state);
  for (size_t i = 0; i < plan.segments.size(); ++i) {
    const ScanWalk::Segment& segment = walk.segments[i];
    if (segment.step) {
      states.step(segment.slot, segment.from, plan.segments[i].row_begin);
      continue;
    }
    switch (segment.begin) {
      case ScanWalk::Begin::kThere:
        break;
      case ScanWalk::Begin::kCopy:
        states.copy(segment.from, segment.slot);
        break;
      case ScanWalk::Begin::kLoad:
        states.load(segment.slot, segment.from);
        break;
      case ScanWalk::Begin::kZeros:
        states.zero(segment.slot);
        break;
    }
    int32_t row = plan.segments[i].row_begin;
    for (int32_t w = segment.write_begin; w < segment.write_end; ++w) {
      const ScanWrite& write = walk.writes[static_cast<size_t>(w)];
      if (row <= write.row) states.rows(segment.slot, row, write.row + 1);
      row = write.row + 1;
      states.store(segment.slot, write.state);
    }
    if (row < plan.segments[i].row_end) states.rows(segment.slot, row, plan.segments[i].row_end);
  }
}

}  // namespace prefix::ops
