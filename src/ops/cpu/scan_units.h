// What the tasks of a scan have of the states of a layer (scan.cc has the drawing), and how that
// lies in their memory.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/round_up.h"

namespace prefix::ops {

// Columns that the kernels pass at a time, at most.
inline constexpr int64_t kUnitColumns = 32;

// What a unit has: columns [first, first + size) of `heads` heads; of several heads all.
struct Unit {
  int64_t head, heads;
  int64_t first, size;
};

// All heads, of `whole` columns each, cut into units for the threads. Parts of a head have a
// multiple of kUnitColumns. No unit has more than the first.
class Units {
 public:
  Units(int64_t heads, int64_t whole, int64_t threads) : heads_(heads), whole_(whole) {
    const int64_t wanted = kTasksPerThread * threads;
    unit_heads_ = std::max<int64_t>(1, heads / wanted);
    size_ = round_up(whole, kUnitColumns);
    while (size_ > kUnitColumns && count() < wanted) size_ = round_up(size_ / 2, kUnitColumns);
    size_ = std::min(size_, whole);
  }
  int64_t count() const { return ceil_div(heads_, unit_heads_) * parts(); }
  Unit operator[](int64_t i) const {
    const int64_t head = i / parts() * unit_heads_, first = i % parts() * size_;
    return {head, std::min(unit_heads_, heads_ - head), first, std::min(size_, whole_ - first)};
  }

 private:
  // Tasks for each thread where the work allows it: threads get done at the same time.
  static constexpr int64_t kTasksPerThread = 4;

  int64_t parts() const { return ceil_div(whole_, size_); }

  const int64_t heads_, whole_;
  int64_t unit_heads_, size_;
};

// Floats from one line of a unit with so many columns to the next, for vectors of `lanes` floats.
constexpr int64_t unit_line(int64_t columns, int64_t lanes) {
  const int64_t ld = round_up(columns, lanes);
  // Lines at a power of two apart would share few sets of the L1 cache.
  return ld > kUnitColumns && ld % (2 * kUnitColumns) == 0 ? ld + kUnitColumns : ld;
}

}  // namespace prefix::ops
