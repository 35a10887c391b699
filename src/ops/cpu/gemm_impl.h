// The matrix kernels of a level, written once over a multiplication policy and a vector type.
//
// A register block holds MR rows x NV vectors of C. Per k step it loads NV vectors of B once,
// broadcasts one A element (or pair) per row and does MR * NV multiply-adds:
//
//            B   b0  b1  b2  b3        MR * NV accumulators + NV of B + 1 broadcast must fit the
//      a0 ->     .   .   .   .         register file: 6 x 4 of 32 zmm, 6 x 2 of 16 ymm.
//      a1 ->     .   .   .   .
//
// A policy M has: A, B (element types), Vec, kLanes (columns per vector), kStep (k per step),
// kPhases (multiply-adds per step), load_b(p, phase), broadcast_a(p, phase), mac(c, a, b). Where
// loading B takes work, it may have kTall, 12 rows:
// 12 x 2 do half of that work, with more broadcasts.
//
// A block has something to do beside its multiply-adds, which leave room for loads and stores:
// Prefetching or Widening.
#pragma once

#include <cstdint>

#include "ops/cpu/finish_impl.h"
#include "ops/cpu/gemm_kernels.h"
#include "ops/cpu/peak_impl.h"
#include "ops/cpu/register_rows.h"
#include "ops/cpu/simd.h"
#include "ops/cpu/unroll.h"
#include "ops/cpu/vecmath.h"

namespace prefix::ops {
namespace {

// Asks for one panel of the next tile, by turns:
// of blocks of both panels, or of one panel and twice the rows.
template <class M, int MR>
class Prefetching {
 public:
  Prefetching(const TileArgs& t, int64_t row, int vec) {
    constexpr int kVecsPerPanel = kPanelColumns / M::kLanes;
    const int64_t ahead = MR > kBlockRows ? vec / kVecsPerPanel : row / kBlockRows % 2;
    at_ = static_cast<const char*>(t.prefetch[ahead]);
    if (at_ == nullptr) {
      at_ = static_cast<const char*>(t.b0[0]);
    } else {
      at_ += row / kPrefetchRows * t.kc * t.prefetch_step;
      step_ = M::kStep * t.prefetch_step;
    }
  }
  int64_t begin(int64_t, int64_t kc) { return kc; }
  void step(int) {
    __builtin_prefetch(at_, 0, 2);  // into L2
    at_ += step_;
  }

 private:
  const char* at_;
  int64_t step_ = 0;
};

// Widens half a panel of each chunk: a vector of pairs, 2 k of 16 columns,
// while the block takes 2 k.
//
//   panel     k 0, 1: columns 0..15 | columns 16..31   k 2, 3: ...       bf16, pairs side by side
//   wide      k 0: columns 0..31   k 1: columns 0..31   k 2: ...         f32
template <class S>
class Widening {
  static_assert(2 * S::kLanes == kPanelColumns);

 public:
  Widening(const TileArgs& t, int64_t row, int)
      : t_(t), side_(row / kBlockRows / 2), half_(row / kBlockRows % 2) {}
  // Of a chunk; returns how many k of it have something beside them.
  int64_t begin(int64_t chunk, int64_t kc) {
    const int64_t k = kc < t_.widen_kc ? kc : t_.widen_kc;
    const auto* const panel =
        static_cast<const uint16_t*>(side_ == 0 ? t_.widen0[chunk] : t_.widen1[chunk]);
    from_ = panel + half_ * (k / 2) * kPanelColumns;
    to_ = t_.wide + ((2 * chunk + side_) * t_.widen_kc + half_ * (k / 2)) * kPanelColumns;
    return k;
  }
  // Of four that are unrolled.
  void step(int step) {
    if (step % 2 != 0) return;
    S::widen_pairs(from_, to_, to_ + kPanelColumns);
    __builtin_prefetch(from_ + kFar, 0, 2);  // into L2
    from_ += 2 * S::kLanes;
    to_ += step == 0 ? S::kLanes : 2 * kPanelColumns - S::kLanes;
  }

 private:
  // How far ahead a line is asked for, which may have to come from memory: some 700 cycles.
  static constexpr int64_t kFar = 1024;

  const TileArgs& t_;
  const int64_t side_, half_;
  const uint16_t* from_ = nullptr;
  float* to_ = nullptr;
};

// Steps of k in a turn of the loop.
template <class M>
constexpr int unrolled_steps() {
  if constexpr (requires { M::kUnroll; }) return M::kUnroll;
  return 1;
}

// Rows [row, row + MR), vectors [vec, vec + NV) of the 64 columns.
template <class M, int MR, int NV, class Beside = Prefetching<M, MR>>
inline void multiply_block(const TileArgs& t, int64_t row, int vec) {
  using Vec = typename M::Vec;
  using A = typename M::A;
  using B = typename M::B;
  constexpr int kVecsPerPanel = kPanelColumns / M::kLanes;
  constexpr int64_t kStepElements = int64_t{kPanelColumns} * M::kStep;  // of one panel
  constexpr int kVecElements = M::kLanes * M::kStep;
  constexpr int kUnroll = unrolled_steps<M>();
  float* const c = t.c + row * t.ldc + vec * M::kLanes;

  Vec acc[MR][NV];
  PREFIX_UNROLL
  for (int i = 0; i < MR; ++i) {
    PREFIX_UNROLL
    for (int j = 0; j < NV; ++j) {
      acc[i][j] = t.accumulate ? M::load_c(c + i * t.ldc + j * M::kLanes) : M::zero();
    }
  }
  const int64_t lda = t.lda;
  Beside beside(t, row, vec);
  for (int64_t chunk = 0; chunk < t.chunks; ++chunk) {
    const A* a = static_cast<const A*>(t.a) + chunk * t.a_chunk + row * lda;
    const B* const b_left = static_cast<const B*>(t.b0[chunk]);
    const B* const b_right = t.b1 == nullptr ? b_left : static_cast<const B*>(t.b1[chunk]);
    // The block's vectors lie in one panel, or fill both panels from vector 0.
    const B* b_first = vec < kVecsPerPanel ? b_left + vec * kVecElements
                                           : b_right + (vec - kVecsPerPanel) * kVecElements;
    const B* b_second = b_right;
    const auto multiply = [&](int64_t step) {
      PREFIX_UNROLL
      for (int phase = 0; phase < M::kPhases; ++phase) {
        typename M::BVec b[NV];
        PREFIX_UNROLL
        for (int j = 0; j < NV; ++j) {
          const B* const panel = j < kVecsPerPanel ? b_first + j * kVecElements
                                                   : b_second + (j - kVecsPerPanel) * kVecElements;
          b[j] = M::load_b(panel + step * kStepElements, phase);
        }
        PREFIX_UNROLL
        for (int i = 0; i < MR; ++i) {
          const auto x = M::broadcast_a(a + i * lda + step * M::kStep, phase);
          PREFIX_UNROLL
          for (int j = 0; j < NV; ++j) acc[i][j] = M::mac(acc[i][j], x, b[j]);
        }
      }
    };
    const auto advance = [&] {
      a += kUnroll * M::kStep;
      b_first += kUnroll * kStepElements;
      b_second += kUnroll * kStepElements;
    };
    const int64_t busy = beside.begin(chunk, t.kc);
    int64_t k = 0;
    for (; k < busy; k += kUnroll * M::kStep, advance()) {
      PREFIX_UNROLL
      for (int step = 0; step < kUnroll; ++step) {
        multiply(step);
        beside.step(step);
      }
    }
    for (; k < t.kc; k += kUnroll * M::kStep, advance()) {
      PREFIX_UNROLL
      for (int step = 0; step < kUnroll; ++step) multiply(step);
    }
  }
  PREFIX_UNROLL
  for (int i = 0; i < MR; ++i) {
    PREFIX_UNROLL
    for (int j = 0; j < NV; ++j) M::store_c(c + i * t.ldc + j * M::kLanes, acc[i][j]);
  }
}

// All vectors of the tile for MR rows, NV at a time.
template <class M, int MR, int NV>
inline void multiply_rows(const TileArgs& t, int64_t row) {
  constexpr int kVecsPerPanel = kPanelColumns / M::kLanes;
  if constexpr (NV > kVecsPerPanel) {
    static_assert(NV == 2 * kVecsPerPanel);
    if (t.b1 == nullptr) {
      multiply_block<M, MR, kVecsPerPanel>(t, row, 0);
    } else {
      multiply_block<M, MR, NV>(t, row, 0);
    }
  } else {
    const int vecs = t.b1 == nullptr ? kVecsPerPanel : 2 * kVecsPerPanel;
    for (int vec = 0; vec < vecs; vec += NV) multiply_block<M, MR, NV>(t, row, vec);
  }
}

// The widest block that MR rows leave registers for: few rows need many columns, or the latency of
// the multiply-add shows.
template <class M, int MR>
constexpr int block_vecs() {
  constexpr int kAll = 2 * kPanelColumns / M::kLanes;
  int vecs = kAll;
  while (vecs > 1 && MR * vecs > M::kAccumulators) vecs /= 2;
  return vecs;
}

template <class M>
constexpr int tall_rows() {
  if constexpr (requires { M::kTall; }) return M::kTall;
  return 0;
}

template <class M>
void multiply_tile(const TileArgs& t) {
  each_row_block<tall_rows<M>()>(
      t.rows, [&]<int MR>(int64_t row) { multiply_rows<M, MR, block_vecs<M, MR>()>(t, row); });
}

// f32 multiply-add over packed f32 weights: one k per step.
template <class S>
struct F32ByF32 {
  using A = float;
  using B = float;
  using Vec = typename S::F;
  using BVec = typename S::F;
  static constexpr int kLanes = S::kLanes;
  static constexpr int kStep = 1;
  static constexpr int kPhases = 1;
  static constexpr int kUnroll = S::kLanes == 16 ? 4 : 1;
  static constexpr int kAccumulators = S::kLanes == 16 ? 24 : 12;
  static Vec zero() { return S::zero(); }
  static Vec load_c(const float* p) { return S::load(p); }
  static void store_c(float* p, Vec v) { S::store(p, v); }
  static BVec load_b(const float* p, int) { return S::load(p); }
  static Vec broadcast_a(const float* p, int) { return S::set1(*p); }
  static Vec mac(Vec c, Vec a, BVec b) { return S::fma(a, b, c); }
};

// f32 multiply-add over packed bf16 weights: a step is a pair of k, even first. A pair of bf16
// lies in one 32-bit lane, so a shift or a mask widens it.
template <class S>
struct F32ByBf16 {
  using A = float;
  using B = uint16_t;
  using Vec = typename S::F;
  using BVec = typename S::F;
  static constexpr int kLanes = S::kLanes;
  static constexpr int kStep = 2;
  static constexpr int kPhases = 2;
  static constexpr int kAccumulators = S::kLanes == 16 ? 24 : 12;
  static constexpr int kTall = S::kLanes == 16 ? 2 * kBlockRows : 0;
  static Vec zero() { return S::zero(); }
  static Vec load_c(const float* p) { return S::load(p); }
  static void store_c(float* p, Vec v) { S::store(p, v); }
  static BVec load_b(const uint16_t* p, int phase) {
    return phase == 0 ? S::pair_even(p) : S::pair_odd(p);
  }
  static Vec broadcast_a(const float* p, int phase) { return S::set1(p[phase]); }
  static Vec mac(Vec c, Vec a, BVec b) { return S::fma(a, b, c); }
};

// The first blocks widen panels for the next tile (TileArgs::widen0),
// the others prefetch those of the one behind it.
template <class S>
void multiply_wide_tile(const TileArgs& t) {
  using M = F32ByF32<S>;
  static_assert(M::kUnroll == 4);
  constexpr int kAll = 2 * kPanelColumns / S::kLanes;
  if (t.widen0 == nullptr) return multiply_tile<M>(t);
  for (int64_t row = 0; row < kWideningRows; row += kBlockRows)
    multiply_block<M, kBlockRows, kAll, Widening<S>>(t, row, 0);
  TileArgs rest = t;
  rest.a = static_cast<const float*>(t.a) + kWideningRows * t.lda;
  rest.c += kWideningRows * t.ldc;
  rest.rows -= kWideningRows;
  multiply_tile<M>(rest);
}

template <class S>
void widen_panel_k(const void* panel, int64_t begin, int64_t end, float* wide) {
  const auto* from = static_cast<const uint16_t*>(panel) + begin * kPanelColumns;
  float* even = wide + begin * kPanelColumns;
  for (int64_t k = begin; k < end; k += 2, even += 2 * kPanelColumns) {
    for (int j = 0; j < kPanelColumns; j += S::kLanes, from += 2 * S::kLanes) {
      S::store(even + j, S::pair_even(from));
      S::store(even + kPanelColumns + j, S::pair_odd(from));
    }
  }
}

inline void do_nothing() {}

// The table of an f32 level. Tiles, whose lanes never meet, may be over vectors of their own.
template <class S, class Tile = S>
GemmKernels f32_gemm_kernels(TileFn tile_bf16 = multiply_tile<F32ByBf16<Tile>>,
                             TileFn tile_f32 = multiply_tile<F32ByF32<Tile>>) {
  GemmKernels g;
  g.begin = do_nothing;
  g.end = do_nothing;
  g.tile_bf16 = tile_bf16;
  g.act_is_bf16 = false;
  g.row_step = kBlockRows;
  g.tile_f32 = tile_f32;
  if constexpr (requires { &Tile::widen_pairs; }) {
    g.tile_wide = multiply_wide_tile<Tile>;
    g.widen = widen_panel_k<Tile>;
  }
  g.store = store_rows<S>;
  g.gated_bf16 = gated_rows<S, true>;
  g.gated_f32 = gated_rows<S, false>;
  g.peak_bf16 = register_peak<F32ByBf16<Tile>>;
  g.peak_f32 = register_peak<F32ByF32<Tile>>;
  return g;
}

}  // namespace
}  // namespace prefix::ops
