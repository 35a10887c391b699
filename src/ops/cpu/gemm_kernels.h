// The matrix kernels of one CPU level: the tile product that GEMM and attention share, and the
// loops that finish a tile of GEMM results.
//
// Included by the per-level translation units, so only plain types here: an inline function of the
// standard library instantiated under -mavx512f could be the copy that the linker keeps for all.
#pragma once

#include <cstdint>

#include "ops/activation.h"
#include "ops/cpu/attention_kernels.h"
#include "ops/cpu/block_kernels.h"
#include "ops/cpu/register_rows.h"
#include "ops/panel.h"

namespace prefix::ops {

// C[rows x 64] = (C or 0) + sum over chunks c of A_c[rows x kc] * B_c[kc x 64].
//
//   A_c: row-major at a + c * a_chunk, rows lda elements apart: bf16 or f32, or whole numbers in bytes
//        or words, see GemmKernels.
//   B_c: two packed panels of 32 columns (PackedWeights of weights.h, KvLayout): b0[c] holds columns
//        0..31, b1[c] columns 32..63. With b1 == nullptr only C columns 0..31 are computed.
//   C:   f32, or whole numbers of 32 bits in its place, row-major, rows ldc apart; overwritten, or added
//        to if `accumulate`.
//
// kc is a multiple of 32; all kc columns of A are read, so padding must hold finite numbers (zero
// where B's padding is zero). A and C need no alignment, but 64-byte aligned rows are faster; B is
// 64-byte aligned. The chunks, B and C are not written by anyone else meanwhile.
//
// Every element of C is summed in ascending k over ascending chunks, one rounding per k step of
// the level (one k for f32 FMA, two for vdpbf16ps, 32 for AMX), starting from C or 0. The result
// therefore does not depend on `rows`, on the row or column inside the tile, or on how a caller
// cuts k into chunks and calls at multiples of 32.
struct TileArgs {
  const void* a = nullptr;
  int64_t lda = 0;      // elements
  int64_t a_chunk = 0;  // elements
  const void* const* b0 = nullptr;
  const void* const* b1 = nullptr;
  int64_t chunks = 0;
  int64_t kc = 0;
  float* c = nullptr;
  int64_t ldc = 0;   // elements
  int64_t rows = 0;  // any count; best in multiples of GemmKernels::row_step
  bool accumulate = false;

  // What the next tile will want, prefetched on the way: for each k and kPrefetchRows of this one
  // `prefetch_step` bytes of each panel. May be null; only speed depends on it.
  const void* prefetch[2] = {};
  int64_t prefetch_step = 0;

  // Of GemmKernels::tile_wide, for a later tile with as many chunks: both panels in bf16 of each
  // chunk, with `widen_kc` k, become f32 in `wide`, of each chunk the left panel, then the right
  // one: 64-byte aligned, the last 16 bits of its numbers 0 before, and a line longer. All or the
  // first kc of their k; needs kWideningRows and b1.
  const void* const* widen0 = nullptr;
  const void* const* widen1 = nullptr;
  int64_t widen_kc = 0;
  float* wide = nullptr;
};

// Two register blocks, one for each panel.
inline constexpr int64_t kPrefetchRows = 2 * kBlockRows;
// Of a tile that widens panels: each of its first blocks half of one.
inline constexpr int64_t kWideningRows = 4 * kBlockRows;

using TileFn = void (*)(const TileArgs& args);

// Of int8, A is signed bytes or what GemmKernels::widen_quads makes of them, B has each number +
// 128 as an unsigned one, and C holds whole numbers of 32 bits, exact modulo 2^32: what is too much
// by 128 x the sum of a row of A goes here.
//   (c - corrections[row]) * (row_scales[row] * column_scales[column]), as f32
struct WholeSums {
  const int32_t* corrections = nullptr;
  const float* row_scales = nullptr;
  const float* column_scales = nullptr;  // in whole panels
};

struct ScaleSumsArgs {
  float* c = nullptr;
  int64_t ldc = 0;
  int64_t rows = 0;
  int64_t columns = 0;  // a multiple of 32
  WholeSums whole;
};

// Finishes rows of a GEMM: y = c + bias, or y += c + bias with `add`. bias may be null.
struct StoreArgs {
  const float* c = nullptr;  // in whole panels
  int64_t ldc = 0;
  const WholeSums* whole = nullptr;  // of c; null: c is f32
  const float* bias = nullptr;
  float* y = nullptr;
  int64_t ldy = 0;
  int64_t rows = 0;
  int64_t columns = 0;  // 1..64
  bool add = false;
};

// Finishes rows of a gated GEMM: out = fn(c[0..31] + bias_gate, c[32..63] + bias_up).
struct GatedArgs {
  const float* c = nullptr;
  int64_t ldc = 0;
  const WholeSums* whole = nullptr;  // of c; null: c is f32
  const float* bias_gate = nullptr;
  const float* bias_up = nullptr;
  void* out = nullptr;
  int64_t ldo = 0;
  int64_t rows = 0;
  int64_t columns = 0;  // 1..32
  ActivationFn fn = ActivationFn::kSilu;
};

// About how many rows are finished at once, while their sums are still in L1:
// those of a tile in the last pass over k.
inline constexpr int64_t kFinishRows = 24;
static_assert(kFinishRows % kPrefetchRows == 0 && kFinishRows % 2 == 0);

// Largest GemmKernels::row_block.
inline constexpr int64_t kMaxRowBlock = 192;

struct GemmKernels {
  // Bracket the tile calls of a thread (AMX: load the tile configuration, release it).
  void (*begin)() = nullptr;
  void (*end)() = nullptr;

  // bf16 weights. A is bf16 if act_is_bf16 (the level multiplies bf16), else f32.
  TileFn tile_bf16 = nullptr;
  bool act_is_bf16 = false;
  int64_t row_step = 0;  // rows of the register block of tile_bf16
  // With fewer rows nothing is prefetched: the hardware brings panels as fast as they are wanted.
  int64_t least_prefetch_rows = 24;
  // How GEMM blocks for the L2 cache: rows of x per task (at most kMaxRowBlock) and bytes of one
  // row of x per pass over k. 96 x 5 KB of x and 64 columns of W (320 KB in bf16) fit 1 MB.
  int64_t row_block = 96;
  int64_t k_block_bytes = 5120;
  // From so many rows on all of them take a panel's part of a pass before the next one comes,
  // not a few rows both panels.
  int64_t panel_rows = INT64_MAX;
  // Rows that the products of a layer are worth being read for by one thread
  // (CpuSizes::block_rows). Their queries, keys, values and what the feed-forward block brings
  // down, 16 + 12 KB a row of 1,024, then stay close to its L2.
  int64_t layer_rows = 48;
  // Packed rows of attention that take all steps of a key block before the next ones do: their
  // scores, 4 bytes a key and row, are still near when they are read. A block of int8 keys and
  // values is 64 KB.
  int64_t attention_rows = 48;
  // f32 weights, f32 A.
  TileFn tile_f32 = nullptr;
  // As tile_f32, with panels of bf16 that become f32 beside it (TileArgs::widen0, WidePanels); and
  // k [begin, end) of one with nothing beside it. Null where widening costs less than reading
  // twice the bytes.
  TileFn tile_wide = nullptr;
  void (*widen)(const void* panel, int64_t begin, int64_t end, float* wide) = nullptr;
  // int8 weights, int8 A; kc is a multiple of 64.
  TileFn tile_int8 = nullptr;
  // Where bytes have no products with sums of 32 bits, tile_int8 reads A in 16 bits, of each quad
  // of k in the order 0, 2, 1, 3. `count` is a multiple of 32; `from` may be the second half of the
  // memory at `to`. Null: A is bytes.
  void (*widen_quads)(const void* from, int64_t count, int16_t* to) = nullptr;
  int64_t int8_operand_bytes() const { return widen_quads == nullptr ? 1 : 2; }
  // In place of kFinishRows; a multiple of it.
  int64_t int8_finish_rows = kFinishRows;
  void (*scale_sums)(const ScaleSumsArgs& args) = nullptr;
  // Weights in blocks.
  void (*tile_blocks)(const BlockTileArgs& args) = nullptr;
  void (*tile_values)(const ValueTileArgs& args) = nullptr;

  void (*store)(const StoreArgs& args) = nullptr;
  void (*gated_bf16)(const GatedArgs& args) = nullptr;  // out is bf16
  void (*gated_f32)(const GatedArgs& args) = nullptr;   // out is f32

  // Multiply-adds in registers only, `iterations` times; returns the FLOP done by the instructions
  // of tile_bf16, tile_f32 or, of many rows, tile_int8. The benchmark's yardstick.
  double (*peak_bf16)(int64_t iterations) = nullptr;
  double (*peak_f32)(int64_t iterations) = nullptr;
  double (*peak_int8)(int64_t iterations) = nullptr;
};

}  // namespace prefix::ops
