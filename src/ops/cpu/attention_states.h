// Where the softmax states (attention_kernels.h) of the packed rows of a tile lie, and what memory
// those take that tasks leave for each other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "ops/attention_plan.h"
#include "ops/cpu/scratch.h"
#include "ops/device_sizes.h"
#include "ops/round_up.h"

namespace prefix::ops {

// (m, l, O) of packed rows.
struct SoftmaxState {
  float* m;
  float* l;
  float* o;
};

// O of all rows, then m of all, then l.
struct SoftmaxStates {
  int64_t rows = 0;  // packed rows of the largest tile
  int64_t ldo = 0;   // floats

  SoftmaxStates(int64_t packed_rows, int64_t d_padded) : rows(packed_rows), ldo(d_padded + 16) {}
  size_t bytes() const {
    return whole_lines(static_cast<size_t>(rows * (ldo + 2)) * sizeof(float));
  }
  SoftmaxState at(std::byte* memory) const {
    auto* const o = reinterpret_cast<float*>(memory);
    return {o + rows * ldo, o + rows * (ldo + 1), o};
  }
  // Of all partial slots of a plan, each with a state for every kv head.
  size_t partial_bytes(int64_t slots, int64_t kv_heads) const {
    return static_cast<size_t>(slots * kv_heads) * bytes();
  }
};

// Rows of the largest tiles of attention.
inline int64_t max_tile_rows(const ReserveShape& shape) {
  return std::max<int64_t>(1, kAttentionTileRows * shape.kv.kv_heads / shape.heads);
}

// Of the largest tile that steps up to this shape have.
inline SoftmaxStates largest_states(const ReserveShape& shape) {
  const int64_t group = shape.heads / shape.kv.kv_heads;
  return {std::min(shape.rows, max_tile_rows(shape)) * group, shape.kv.d_padded()};
}

// The most partial slots that they have: every tile that is cut has every chunk.
inline size_t max_partial_bytes(const ReserveShape& shape, int64_t threads) {
  const int64_t kv_heads = shape.kv.kv_heads;
  const int64_t positions = std::min(shape.positions, shape.pages * kPageTokens);
  if (kv_heads == 0 || positions <= kKeyChunk) return 0;
  const int64_t tiles =
      std::min(ceil_div(shape.rows, max_tile_rows(shape)), max_split_tiles(kv_heads, threads));
  return largest_states(shape).partial_bytes(tiles * ceil_div(positions, kKeyChunk), kv_heads);
}

}  // namespace prefix::ops
