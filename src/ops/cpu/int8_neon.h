// Products of whole numbers of the neon level, in the register blocks of element_impl.h: a step is four
// k, a quad of bytes in every lane, by sdot and udot of processors that have them, and else by products
// of bytes that become 16 bits.
//
// Both take two signed or two unsigned factors. Weights, which are stored as number + 128, become
// signed by their top bit: each row of A is then missing 128 x its sum, which C gets before. Values,
// which are signed, become unsigned, and 128 x the sum of a row of weights is taken away.
//
//   sum of (w + 128) x  =  sum of w x  +  128 x sum of x           sum of p v  =  sum of p (v + 128)  -  128 x sum of p
//
// All of it is exact modulo 2^32, so the bits are those of every other variant.
#pragma once

#include <cstdint>

#include "ops/cpu/attention_kernels.h"
#include "ops/cpu/element_impl.h"
#include "ops/cpu/gemm_kernels.h"
#include "ops/cpu/quads.h"
#include "ops/cpu/register_rows.h"
#include "ops/cpu/simd.h"
#include "ops/cpu/unroll.h"

namespace prefix::ops {
namespace {

struct QuadLanes {
  static constexpr int kLanes = 4;
  static constexpr int kStep = 4;
  static constexpr int kPhases = 1;
  static constexpr int kVectorK = 16;
  static constexpr int kVecElements = 4 * kLanes;
  static constexpr int kAccumulators = kDotProducts ? 24 : 12;
};

struct Int8Quads : QuadLanes {
  using A = int8_t;
  using B = uint8_t;
  using Vec = int32x4_t;
  static Vec zero() { return vdupq_n_s32(0); }
  static Vec load_c(const float* p) { return load_vector<Vec>(p); }
  static void store_c(float* p, Vec v) { __builtin_memcpy(p, &v, sizeof v); }
  static int8x16_t load_a(const int8_t* p) { return vld1q_s8(p); }
  static int8x16_t load_b(const uint8_t* p) {
    return vreinterpretq_s8_u8(veorq_u8(vld1q_u8(p), vdupq_n_u8(0x80)));
  }
  template <int>
  static int8x16_t columns(int8x16_t b) {
    return b;
  }
  template <int kAt>
  static Vec mac(Vec c, int8x16_t a, int8x16_t b) {
#if defined(__ARM_FEATURE_DOTPROD)
    return vdotq_laneq_s32(c, b, a, kAt);
#else
    return dot_quads(c, b, vreinterpretq_s8_s32(vdupq_laneq_s32(vreinterpretq_s32_s8(a), kAt)));
#endif
  }
  // Of register_peak.
  static int8x16_t load_b(const uint8_t* p, int) { return load_b(p); }
  static int8x16_t broadcast_a(const int8_t* p, int) { return broadcast_quad(p); }
  static Vec mac(Vec c, int8x16_t a, int8x16_t b) { return dot_quads(c, b, a); }
};

// 128 x the sum of each row, onto C or in its place: what the tile then adds to.
inline void begin_with_row_sums(const TileArgs& t) {
  const int columns = t.b1 == nullptr ? kPanelColumns : 2 * kPanelColumns;
  for (int64_t row = 0; row < t.rows; ++row) {
    const int8_t* a = static_cast<const int8_t*>(t.a) + row * t.lda;
    uint32_t sum = 0;
    for (int64_t chunk = 0; chunk < t.chunks; ++chunk, a += t.a_chunk)
      sum += static_cast<uint32_t>(LevelSimd::sum_i8(a, t.kc));
    const int32x4_t first = vreinterpretq_s32_u32(vdupq_n_u32(128 * sum));
    float* const c = t.c + row * t.ldc;
    for (int j = 0; j < columns; j += Int8Quads::kLanes)
      Int8Quads::store_c(c + j, t.accumulate ? vaddq_s32(Int8Quads::load_c(c + j), first) : first);
  }
}

inline void multiply_int8_tile(const TileArgs& t) {
  begin_with_row_sums(t);
  TileArgs onto = t;
  onto.accumulate = true;
  multiply_element_tile<Int8Quads>(onto);
}

struct ValueQuads : QuadLanes {
  using A = uint8_t;
  using B = uint8_t;
  using Vec = uint32x4_t;
  static uint8x16_t load_a(const uint8_t* p) { return vld1q_u8(p); }
  static uint8x16_t load_b(const uint8_t* p) { return veorq_u8(vld1q_u8(p), vdupq_n_u8(0x80)); }
  template <int>
  static uint8x16_t columns(uint8x16_t b) {
    return b;
  }
  template <int kAt>
  static Vec mac(Vec c, uint8x16_t a, uint8x16_t b) {
#if defined(__ARM_FEATURE_DOTPROD)
    return vdotq_laneq_u32(c, b, a, kAt);
#else
    // Two products of 16 bits do not fit 16.
    const uint8x16_t quads = vreinterpretq_u8_u32(vdupq_laneq_u32(vreinterpretq_u32_u8(a), kAt));
    const uint16x8_t left = vmull_u8(vget_low_u8(b), vget_low_u8(quads));
    const uint16x8_t right = vmull_high_u8(b, quads);
    return vaddq_u32(c, vpaddq_u32(vpaddlq_u16(left), vpaddlq_u16(right)));
#endif
  }
};

inline uint32_t sum_of_bytes(const uint8_t* p, int64_t n) {
  uint32x4_t sum = vdupq_n_u32(0);
  for (int64_t i = 0; i < n; i += 16) sum = vpadalq_u16(sum, vpaddlq_u8(vld1q_u8(p + i)));
  return vaddvq_u32(sum);
}

// Rows [row, row + MR), the 32 columns of a panel from `column` on.
template <int MR>
inline void value_rows_by_element(const ValueTileArgs& t, int64_t row, int64_t column) {
  using M = ValueQuads;
  constexpr int NV = element_vecs<M, MR>();
  const uint8_t* const weights = t.p + row * t.ldp;
  M::Vec first[MR];
  PREFIX_UNROLL
  for (int i = 0; i < MR; ++i)
    first[i] = vdupq_n_u32(0u - 128 * sum_of_bytes(weights + i * t.ldp, t.pages * 32));
  for (int vec = 0; vec < kPanelColumns / M::kLanes; vec += NV) {
    M::Vec sum[MR][NV];
    PREFIX_UNROLL
    for (int i = 0; i < MR; ++i) {
      PREFIX_UNROLL
      for (int j = 0; j < NV; ++j) sum[i][j] = first[i];
    }
    const int64_t at = value_column(column) + vec * M::kVecElements;
    const uint8_t* p = weights;
    for (int64_t page = 0; page < t.pages; ++page) {
      const auto* v = reinterpret_cast<const uint8_t*>(t.blocks[page]) + at;
      for (const auto* const end = v + kValuePanel; v != end;
           v += M::kVectorK * kPanelColumns, p += M::kVectorK)
        add_steps<M, MR, NV>(p, t.ldp, v, sum);
    }
    float* const o = t.o + row * t.ldo + column + vec * M::kLanes;
    PREFIX_UNROLL
    for (int i = 0; i < MR; ++i) {
      const LevelSimd::F scale = LevelSimd::set1(t.p_scales[(row + i) * kBlockSpans]);
      PREFIX_UNROLL
      for (int j = 0; j < NV; ++j) {
        float* const to = o + i * t.ldo + j * M::kLanes;
        const LevelSimd::F whole = LevelSimd::from_i32(vreinterpretq_s32_u32(sum[i][j]));
        LevelSimd::store(to, LevelSimd::fma(whole, scale, LevelSimd::load(to)));
      }
    }
  }
}

// A panel of columns after the other: the pages' parts of it stay in the L1 cache over all rows.
inline void multiply_value_tile_by_element(const ValueTileArgs& t) {
  for (int64_t column = 0; column < t.d; column += kPanelColumns) {
    each_row_block(t.rows, [&]<int MR>(int64_t row) { value_rows_by_element<MR>(t, row, column); });
  }
}

}  // namespace
}  // namespace prefix::ops
