// Weights times int8 values (ValueTileArgs), a policy for each width of vectors: unsigned bytes of
// P times signed ones of V, four keys in a lane. As in int8_lanes.h, without VNNI a quad is two
// pairs of 16 bits, and sums are exact.
//
//   6 rows of P   [ quad | quad | .. ]       V of a page  [ 8 quads of keys ][ 32 columns ][ 4 ]
//      x          sums over all pages in registers; then o <- o + p_scale * (sum as f32)
#pragma once

#include <cstdint>

#include "ops/cpu/attention_kernels.h"
#include "ops/cpu/quads.h"
#include "ops/cpu/register_rows.h"
#include "ops/cpu/simd.h"
#include "ops/cpu/unroll.h"

namespace prefix::ops {
namespace {

#if defined(__AVX512BW__)

struct ValueLanes {
  using B = int8_t;
  using Vec = __m512i;
  static constexpr int kLanes = 16;
  static constexpr int kVecs = 4;  // of columns at a time, where there are so many
  static Vec zero() { return _mm512_setzero_si512(); }
};

struct ValuesByPairs : ValueLanes {
  using A = int16_t;
  static constexpr int kPhases = 2;
  static Vec load_b(const int8_t* p, int phase) {
    const Vec quads = _mm512_loadu_si512(p);
    return _mm512_srai_epi16(phase == 0 ? _mm512_slli_epi16(quads, 8) : quads, 8);
  }
  static Vec broadcast_a(const int16_t* p, int phase) {
    return _mm512_set1_epi32(quad_of(p + 2 * phase));
  }
  static Vec mac(Vec c, Vec a, Vec b) {
    return in_order(_mm512_add_epi32(c, _mm512_madd_epi16(a, b)));
  }
};

#if defined(__AVX512VNNI__)
struct ValuesByVnni : ValueLanes {
  using A = uint8_t;
  static constexpr int kPhases = 1;
  static Vec load_b(const int8_t* p, int) { return _mm512_loadu_si512(p); }
  static Vec broadcast_a(const uint8_t* p, int) { return _mm512_set1_epi32(quad_of(p)); }
  static Vec mac(Vec c, Vec a, Vec b) { return in_order(_mm512_dpbusd_epi32(c, a, b)); }
};
#endif

#elif defined(__AVX2__)

struct ValueLanes {
  using B = int8_t;
  using Vec = __m256i;
  static constexpr int kLanes = 8;
  static constexpr int kVecs = 1;
  static Vec zero() { return _mm256_setzero_si256(); }
};

struct ValuesByPairs : ValueLanes {
  using A = int16_t;
  static constexpr int kPhases = 2;
  static Vec load_b(const int8_t* p, int phase) {
    const Vec quads = _mm256_loadu_si256(reinterpret_cast<const Vec*>(p));
    return _mm256_srai_epi16(phase == 0 ? _mm256_slli_epi16(quads, 8) : quads, 8);
  }
  static Vec broadcast_a(const int16_t* p, int phase) {
    return _mm256_set1_epi32(quad_of(p + 2 * phase));
  }
  static Vec mac(Vec c, Vec a, Vec b) {
    return in_order(_mm256_add_epi32(c, _mm256_madd_epi16(a, b)));
  }
};

#if defined(__AVXVNNI__)
struct ValuesByVnni : ValueLanes {
  using A = uint8_t;
  static constexpr int kPhases = 1;
  static Vec load_b(const int8_t* p, int) {
    return _mm256_loadu_si256(reinterpret_cast<const Vec*>(p));
  }
  static Vec broadcast_a(const uint8_t* p, int) { return _mm256_set1_epi32(quad_of(p)); }
  static Vec mac(Vec c, Vec a, Vec b) { return in_order(_mm256_dpbusd_avx_epi32(c, a, b)); }
};
#endif

#elif !defined(PREFIX_NEON)  // which has int8_neon.h

struct ValuesByPairs {
  using A = uint8_t;
  using B = int8_t;
  using Vec = LevelSimd::I;
  static constexpr int kLanes = 4;
  static constexpr int kVecs = 1;
  static constexpr int kPhases = 2;
  static Vec zero() { return Vec{0, 0, 0, 0}; }
  static Pairs load_b(const int8_t* p, int phase) {
    Pairs v;
    __builtin_memcpy(&v, p, sizeof v);
    return phase == 0 ? (v << 8) >> 8 : v >> 8;
  }
  static Pairs broadcast_a(const uint8_t* p, int phase) { return pair(p[phase], p[phase + 2]); }
  static Vec mac(Vec c, Pairs a, Pairs b) { return add_products(c, a, b); }
};

#endif

// The weights of the rows of a block, as a policy wants them.
template <class A>
struct WeightRows {
  const A* p;
  int64_t stride;
};

// Rows [row, row + MR), NV vectors of columns from `column` on:
// of a part of a panel, or of whole ones.
template <class M, int MR, int NV>
inline void value_block(const ValueTileArgs& t, WeightRows<typename M::A> weights, int64_t row,
                        int64_t column) {
  using S = LevelSimd;
  constexpr int64_t kQuadStride = 32 * 4;  // bytes of a quad of keys in a panel
  constexpr int kPanelVecs = 32 / M::kLanes;
  static_assert(S::kLanes == M::kLanes && (NV < kPanelVecs || NV % kPanelVecs == 0));
  using B = typename M::B;
  const int64_t at = value_column(column);
  float* const o = t.o + row * t.ldo + column;
  const typename M::A* p = weights.p;
  const int64_t ldp = weights.stride;
  typename M::Vec sum[MR][NV];
  PREFIX_UNROLL
  for (int i = 0; i < MR; ++i) {
    PREFIX_UNROLL
    for (int j = 0; j < NV; ++j) sum[i][j] = M::zero();
  }
  for (int64_t page = 0; page < t.pages; ++page) {
    const B* v = reinterpret_cast<const B*>(t.blocks[page]) + at;
    const auto* const end = v + 8 * kQuadStride;
    for (; v != end; v += kQuadStride, p += 4) {
      PREFIX_UNROLL
      for (int phase = 0; phase < M::kPhases; ++phase) {
        decltype(M::load_b(v, 0)) b[NV];
        PREFIX_UNROLL
        for (int j = 0; j < NV; ++j) b[j] = M::load_b(v + value_column(j * M::kLanes), phase);
        PREFIX_UNROLL
        for (int i = 0; i < MR; ++i) {
          const auto a = M::broadcast_a(p + i * ldp, phase);
          PREFIX_UNROLL
          for (int j = 0; j < NV; ++j) sum[i][j] = M::mac(sum[i][j], a, b[j]);
        }
      }
    }
  }
  PREFIX_UNROLL
  for (int i = 0; i < MR; ++i) {
    const S::F scale = S::set1(t.p_scales[(row + i) * kBlockSpans]);
    PREFIX_UNROLL
    for (int j = 0; j < NV; ++j) {
      float* const to = o + i * t.ldo + j * M::kLanes;
      S::store(to, S::fma(S::from_i32(sum[i][j]), scale, S::load(to)));
    }
  }
}

// Columns [begin, end).
template <class M, int MR, int NV>
inline void value_rows(const ValueTileArgs& t, int64_t row, int64_t begin, int64_t end) {
  const auto columns = [&](WeightRows<typename M::A> weights) {
    for (int64_t column = begin; column < end; column += NV * M::kLanes)
      value_block<M, MR, NV>(t, weights, row, column);
  };
  const uint8_t* const p = t.p + row * t.ldp;
  if constexpr (sizeof(typename M::A) == 1) {
    columns({p, t.ldp});
  } else {
    alignas(64) typename M::A wide[MR][kSpanPages * 32];
    for (int i = 0; i < MR; ++i) widen_quads<false>(p + i * t.ldp, t.pages * 32, wide[i]);
    columns({wide[0], kSpanPages * 32});
  }
}

// A panel of columns after the other, or two:
// the pages' parts of them stay in the L1 cache over all rows.
template <class M>
void multiply_value_tile(const ValueTileArgs& t) {
  constexpr int64_t kStep = M::kVecs * M::kLanes < 32 ? 32 : M::kVecs * M::kLanes;
  int64_t column = 0;
  for (; column + kStep <= t.d; column += kStep) {
    each_row_block(t.rows, [&]<int MR>(int64_t row) {
      value_rows<M, MR, M::kVecs>(t, row, column, column + kStep);
    });
  }
  if constexpr (kStep > 32) {
    if (column == t.d) return;
    each_row_block(t.rows, [&]<int MR>(int64_t row) {
      value_rows<M, MR, 32 / M::kLanes>(t, row, column, t.d);
    });
  }
}

}  // namespace
}  // namespace prefix::ops
