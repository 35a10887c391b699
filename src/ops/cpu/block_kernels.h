// What the kernels of products with weights in blocks are given (ops/block_layout.h).
// Plain types, as in gemm_kernels.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/block_layout.h"

namespace prefix::ops {

// Rows of activations in whole numbers, with a scale for each group of 32. Row r, at data + r * ld:
//
//   | codes, int8 [k] | scales [k/32] | scale x sum of codes [k/32] | sums of codes, int32 [k/16] |
//
// A group that holds a number that is not finite has the codes 0 and the scale NaN.
struct BlockRows {
  std::byte* data = nullptr;
  int64_t ld = 0;  // bytes
  int64_t k = 0;   // a multiple of 32

  static constexpr int64_t bytes_of(int64_t k) { return k + k / kGroupK * 16; }
  int64_t groups() const { return k / kGroupK; }
  std::byte* row(int64_t r) const { return data + r * ld; }
  int8_t* codes(int64_t r) const { return reinterpret_cast<int8_t*>(row(r)); }
  float* scales(int64_t r) const { return reinterpret_cast<float*>(row(r) + k); }
  float* scaled_sums(int64_t r) const { return scales(r) + groups(); }
  int32_t* sums(int64_t r) const { return reinterpret_cast<int32_t*>(row(r) + k + groups() * 8); }
};

// Fills a row of `out` from x [k], f32 or bf16.
struct QuantiseGroupsArgs {
  const void* x = nullptr;
  bool bf16 = false;
  int64_t row = 0;
  BlockRows out;
  float* rest = nullptr;  // [k]: x without what `out` has of it; null: not wanted
};

// C[rows x 32] = x W^T of one panel, over all k. Each element is one chain over ascending groups:
//
//   c = fma(float(sum of the products of 32 codes), scale of x * scale of w, c)    exact sum
//   c = fma(scale of x * sum of the codes of x, minimum of w, c)                    where it has minima
//
// (Q6_K: the first line for each half of a group.) So it depends on nothing but its row and its
// column, and has the same bits at every level.
struct BlockTileArgs {
  const std::byte* panel = nullptr;  // 64-byte aligned
  BlockType type = BlockType::kQ8_0;
  BlockRows x;
  int64_t first_row = 0;
  int64_t rows = 0;
  float* c = nullptr;
  int64_t ldc = 0;
};

}  // namespace prefix::ops
