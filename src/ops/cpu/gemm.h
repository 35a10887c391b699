// y = x W^T on all threads: cuts the product into tasks and tiles, finishes the tiles.
//
//   task = row block x panel range       rows of x  [ block 0 ]  x  [ panel range 0 | 1 | 2 ... ]
//                                                   [ block 1 ]
//
// Inside a task the row block of x stays in L2 and the panels of W stream past it, 64 columns at a
// time, or one panel of 32 after the other (GemmKernels::panel_rows); k is cut so that both fit.
// How the work is cut never changes a result bit: an element is one sum in ascending k (TileArgs),
// whoever computes it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>

#include "ops/cpu/context.h"
#include "ops/op.h"
#include "ops/round_up.h"

namespace prefix::ops {

// Of k a tile takes a multiple, whatever the format.
inline constexpr int64_t kStepK = 64;

// What happens to a finished 64-column tile of x W^T.
struct GemmOutput {
  // Plain: y = sum + bias, or y += sum + bias with `add`.
  float* y = nullptr;
  int64_t ldy = 0;
  bool add = false;
  const float* bias = nullptr;
  // Gated (gated_out != null): panels alternate gate and up, `columns` outputs.
  void* gated_out = nullptr;
  int64_t ldg = 0;
  const float* bias_gate = nullptr;
  const float* bias_up = nullptr;
  ActivationFn fn = ActivationFn::kSilu;
  // Columns of y (<= w.n) or of gated_out (<= w.n / 2).
  int64_t columns = 0;
  // What comes on top for some rows before that: thin_x B^T. Its columns behind the rank are set to
  // zero as those of x are.
  std::span<const LowRankRows> thin;
  ActivationBuffer thin_x;
};

inline ActivationBuffer from_row(ActivationBuffer x, int64_t row, size_t act_bytes) {
  return {x.data + static_cast<size_t>(row * x.ld) * act_bytes, x.ld};
}

// The longest part of k that a pass takes, of products with k up to `widest`.
inline int64_t max_k_block(const GemmKernels& gemm, size_t operand_bytes, int64_t widest) {
  return round_up(std::min(gemm.k_block_bytes / static_cast<int64_t>(operand_bytes), widest),
                  kStepK);
}

// x: [rows, w.k] activations with ld >= w.k_padded. The columns between w.k and w.k_padded are set
// to zero here, so nobody else has to keep them clean (a NaN there would reach the result).
void gemm(const CpuContext& context, const PackedWeights& w, ActivationBuffer x, int64_t rows,
          const GemmOutput& output);

// The same on one thread, a slice of the columns after the other: each(first, count) finds columns
// [first, first + count) at the beginning of the rows of y, where the next slice takes their place.
// Every slice has `slice` columns, a multiple of 64, or those that are left.
void gemm_in_slices(const CpuContext& context, const PackedWeights& w, ActivationBuffer x,
                    int64_t rows, const GemmOutput& output, int64_t slice,
                    const std::function<void(int64_t first, int64_t count)>& each);

struct GemmProduct {
  const PackedWeights* w = nullptr;
  ActivationBuffer x;
  int64_t rows = 0;
  GemmOutput output;
};

// All of these products, on all threads together: many small ones keep them busy, too. Allocates a
// list of them.
void gemm(const CpuContext& context, std::span<const GemmProduct> products);

}  // namespace prefix::ops
