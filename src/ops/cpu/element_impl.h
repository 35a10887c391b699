// Register blocks of the neon level, whose multiply-adds take one of the four lanes of a vector of A:
// one load for four steps, and no broadcast.
//
//   A, row i   [ step 0 | step 1 | step 2 | step 3 ]  x[i]
//                  |
//   B, step 0  b[j] --> acc[i][j] += x[i].step0 * b[j]        6 x 4 accumulators and 6 vectors of A leave
//                                                             2 registers of 32: B's vectors come singly
//
// A policy M has: A, B (element types), Vec, kLanes (columns per vector, 4), kVectorK (k of a vector of
// A), kStep (k of a vector of B), kVecElements (of B, from one vector of columns to the next), load_a(p),
// load_b(p), kPhases (lanes of A that a vector of B meets), columns<phase>(b), mac<lane>(c, a, columns).
#pragma once

#include <cstdint>

#include "ops/cpu/gemm_impl.h"
#include "ops/cpu/gemm_kernels.h"
#include "ops/cpu/register_rows.h"
#include "ops/cpu/simd.h"
#include "ops/cpu/unroll.h"

namespace prefix::ops {
namespace {

// fn.operator()<i>() of i < kCount: instructions have the lane as a constant.
template <int kCount, int kFirst = 0, class Fn>
[[gnu::always_inline]] inline void each_constant(const Fn& fn) {
  fn.template operator()<kFirst>();
  if constexpr (kFirst + 1 < kCount) each_constant<kCount, kFirst + 1>(fn);
}

// What one vector of A of each row takes.
template <class M, int MR, int NV>
[[gnu::always_inline]] inline void add_steps(const typename M::A* a, int64_t lda,
                                             const typename M::B* b,
                                             typename M::Vec (&acc)[MR][NV]) {
  decltype(M::load_a(a)) x[MR];
  PREFIX_UNROLL
  for (int i = 0; i < MR; ++i) x[i] = M::load_a(a + i * lda);
  each_constant<M::kVectorK / M::kStep>([&]<int kAt>() __attribute__((always_inline)) {
    PREFIX_UNROLL
    for (int j = 0; j < NV; ++j) {
      const auto stored = M::load_b(b + kAt * M::kStep * kPanelColumns + j * M::kVecElements);
      each_constant<M::kPhases>([&]<int kPhase>() __attribute__((always_inline)) {
        const auto columns = M::template columns<kPhase>(stored);
        PREFIX_UNROLL
        for (int i = 0; i < MR; ++i)
          acc[i][j] = M::template mac<kAt * M::kPhases + kPhase>(acc[i][j], x[i], columns);
      });
    }
  });
}

// Rows [row, row + MR), vectors [vec, vec + NV) of the 64 columns, all of one panel.
template <class M, int MR, int NV>
[[gnu::noinline]] void multiply_element_block(const TileArgs& t, int64_t row, int vec) {
  constexpr int kVecsPerPanel = kPanelColumns / M::kLanes;
  static_assert(kVecsPerPanel % NV == 0);
  float* const c = t.c + row * t.ldc + vec * M::kLanes;
  typename M::Vec acc[MR][NV];
  PREFIX_UNROLL
  for (int i = 0; i < MR; ++i) {
    PREFIX_UNROLL
    for (int j = 0; j < NV; ++j)
      acc[i][j] = t.accumulate ? M::load_c(c + i * t.ldc + j * M::kLanes) : M::zero();
  }
  const int64_t lda = t.lda;
  const void* const* const panels = vec < kVecsPerPanel ? t.b0 : t.b1;
  Prefetching<M, MR> prefetching(t, row, vec);
  for (int64_t chunk = 0; chunk < t.chunks; ++chunk) {
    const auto* a = static_cast<const typename M::A*>(t.a) + chunk * t.a_chunk + row * lda;
    const auto* const end = a + t.kc;
    const auto* b =
        static_cast<const typename M::B*>(panels[chunk]) + vec % kVecsPerPanel * M::kVecElements;
    for (; a != end; a += M::kVectorK, b += M::kVectorK * kPanelColumns) {
      add_steps<M, MR, NV>(a, lda, b, acc);
      PREFIX_UNROLL
      for (int step = 0; step < M::kVectorK / M::kStep; ++step) prefetching.step(step);
    }
  }
  PREFIX_UNROLL
  for (int i = 0; i < MR; ++i) {
    PREFIX_UNROLL
    for (int j = 0; j < NV; ++j) M::store_c(c + i * t.ldc + j * M::kLanes, acc[i][j]);
  }
}

// Vectors of columns beside each other: of few rows a whole panel, or the latency of the multiply-add
// shows.
template <class M, int MR>
constexpr int element_vecs() {
  int vecs = kPanelColumns / M::kLanes;
  while (MR * vecs > M::kAccumulators) vecs /= 2;
  return vecs;
}

template <class M>
void multiply_element_tile(const TileArgs& t) {
  const int vecs = (t.b1 == nullptr ? 1 : 2) * kPanelColumns / M::kLanes;
  each_row_block(t.rows, [&]<int MR>(int64_t row) {
    constexpr int NV = element_vecs<M, MR>();
    for (int vec = 0; vec < vecs; vec += NV) multiply_element_block<M, MR, NV>(t, row, vec);
  });
}

struct ElementLanes {
  using A = float;
  using Vec = LevelSimd::F;
  static constexpr int kLanes = LevelSimd::kLanes;
  static constexpr int kVectorK = 4;
  static constexpr int kAccumulators = 24;
  static Vec zero() { return LevelSimd::zero(); }
  static Vec load_c(const float* p) { return LevelSimd::load(p); }
  static void store_c(float* p, Vec v) { LevelSimd::store(p, v); }
  static Vec load_a(const float* p) { return LevelSimd::load(p); }
  template <int kAt>
  static Vec mac(Vec c, Vec a, Vec b) {
    return vfmaq_laneq_f32(c, b, a, kAt);
  }
};

struct F32ByElement : ElementLanes {
  using B = float;
  static constexpr int kStep = 1;
  static constexpr int kPhases = 1;
  static constexpr int kVecElements = kLanes;
  static Vec load_b(const float* p) { return LevelSimd::load(p); }
  template <int>
  static Vec columns(Vec b) {
    return b;
  }
};

// Weights of bf16, a pair of k in a lane. A mask for the odd ones would take a register that the
// accumulators need.
struct Bf16ByElement : ElementLanes {
  using B = uint16_t;
  static constexpr int kStep = 2;
  static constexpr int kPhases = 2;
  static constexpr int kVecElements = 2 * kLanes;
  static uint32x4_t load_b(const uint16_t* p) { return load_vector<uint32x4_t>(p); }
  template <int kPhase>
  static Vec columns(uint32x4_t pairs) {
    if constexpr (kPhase == 0) return vreinterpretq_f32_u32(vshlq_n_u32(pairs, 16));
    return vreinterpretq_f32_u32(vshll_n_u16(vshrn_n_u32(pairs, 16), 16));
  }
};

// The table of the level; `S` has the order of its sums.
template <class S>
GemmKernels element_gemm_kernels() {
  return f32_gemm_kernels<S, LevelSimd>(multiply_element_tile<Bf16ByElement>,
                                        multiply_element_tile<F32ByElement>);
}

}  // namespace
}  // namespace prefix::ops
