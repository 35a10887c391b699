// Tile products of whole numbers, a policy of gemm_impl.h for each width of vectors: A signed, B
// unsigned bytes, sums of 32 bits. A step is four k, a quad of bytes in every lane.
//
// Without VNNI, a quad is two pairs of 16 bits, which vpmaddwd multiplies and adds: numbers 0 and 2 in
// the first phase, 1 and 3 in the second. (vpmaddubsw would saturate.) Rows of A are taken apart once for all
// columns of a tile, panels of B once for many rows. Sums are exact, so all variants have the same bits.
#pragma once

#include <cstdint>

#include "ops/cpu/blocks_impl.h"
#include "ops/cpu/gemm_impl.h"
#include "ops/cpu/values_impl.h"

namespace prefix::ops {
namespace {

#if defined(__AVX512BW__)

struct Int8Lanes {
  using B = uint8_t;
  using Vec = __m512i;
  using BVec = __m512i;
  static constexpr int kLanes = 16;
  static constexpr int kStep = 4;
  static constexpr int kAccumulators = 24;
  static Vec zero() { return _mm512_setzero_si512(); }
  static Vec load_c(const float* p) { return _mm512_loadu_si512(p); }
  static void store_c(float* p, Vec v) { _mm512_storeu_si512(p, v); }
};

struct Int8ByPairs : Int8Lanes {
  using A = int16_t;
  static constexpr int kPhases = 2;
  static BVec load_b(const uint8_t* p, int phase) {
    const __m512i quads = _mm512_loadu_si512(p);
    return phase == 0 ? _mm512_and_si512(quads, _mm512_set1_epi16(0xff))
                      : _mm512_srli_epi16(quads, 8);
  }
  static Vec broadcast_a(const int16_t* p, int phase) {
    return _mm512_set1_epi32(quad_of(p + 2 * phase));
  }
  static Vec mac(Vec c, Vec a, BVec b) {
    return in_order(_mm512_add_epi32(c, _mm512_madd_epi16(b, a)));
  }
};

#if defined(__AVX512VNNI__)
struct Int8ByVnni : Int8Lanes {
  using A = int8_t;
  static constexpr int kPhases = 1;
  static BVec load_b(const uint8_t* p, int) { return _mm512_loadu_si512(p); }
  static Vec broadcast_a(const int8_t* p, int) { return _mm512_set1_epi32(quad_of(p)); }
  static Vec mac(Vec c, Vec a, BVec b) { return _mm512_dpbusd_epi32(c, b, a); }
};
#endif

#elif defined(__AVX2__)

struct Int8Lanes {
  using B = uint8_t;
  using Vec = __m256i;
  using BVec = __m256i;
  static constexpr int kLanes = 8;
  static constexpr int kStep = 4;
  static constexpr int kAccumulators = 12;
  static Vec zero() { return _mm256_setzero_si256(); }
  static Vec load_c(const float* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  static void store_c(float* p, Vec v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v); }
};

struct Int8ByPairs : Int8Lanes {
  using A = int16_t;
  static constexpr int kPhases = 2;
  static BVec load_b(const uint8_t* p, int phase) {
    const __m256i quads = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return phase == 0 ? _mm256_and_si256(quads, _mm256_set1_epi16(0xff))
                      : _mm256_srli_epi16(quads, 8);
  }
  static Vec broadcast_a(const int16_t* p, int phase) {
    return _mm256_set1_epi32(quad_of(p + 2 * phase));
  }
  static Vec mac(Vec c, Vec a, BVec b) {
    return in_order(_mm256_add_epi32(c, _mm256_madd_epi16(b, a)));
  }
};

#if defined(__AVXVNNI__)
struct Int8ByVnni : Int8Lanes {
  using A = int8_t;
  static constexpr int kPhases = 1;
  static BVec load_b(const uint8_t* p, int) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  static Vec broadcast_a(const int8_t* p, int) { return _mm256_set1_epi32(quad_of(p)); }
  static Vec mac(Vec c, Vec a, BVec b) { return _mm256_dpbusd_avx_epi32(c, b, a); }
};
#endif

#else

struct Int8ByPairs {
  using A = int8_t;
  using B = uint8_t;
  using Vec = LevelSimd::I;
  using BVec = Pairs;
  static constexpr int kLanes = 4;
  static constexpr int kStep = 4;
  static constexpr int kPhases = 2;
  static constexpr int kAccumulators = 12;
  static Vec zero() { return Vec{0, 0, 0, 0}; }
  static Vec load_c(const float* p) {
    Vec v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
  }
  static void store_c(float* p, Vec v) { __builtin_memcpy(p, &v, sizeof v); }
  static Pairs load_b(const uint8_t* p, int phase) {
    Pairs v;
    __builtin_memcpy(&v, p, sizeof v);
    return (phase == 0 ? v : v >> 8) & 255;
  }
  static Pairs broadcast_a(const int8_t* p, int phase) { return pair(p[phase], p[phase + 2]); }
  static Vec mac(Vec c, Pairs a, Pairs b) { return add_products(c, a, b); }
};

#endif

#if defined(__AVX2__)

// Columns that are taken apart at a time. Of A a register block has 3 KB of pairs; what they meet of two panels is 16 KB of
// bytes in L1, or 32 KB of pairs, which come from L2 as fast as they are wanted.
inline constexpr int64_t kPairsK = 256;

// Rows [row, row + MR) over columns [k, k + part.kc) of a chunk of A.
template <class M, int MR>
inline void multiply_paired_rows(const TileArgs& t, TileArgs part, int64_t row, const int8_t* a) {
  alignas(64) int16_t wide[MR][kPairsK];
  for (int i = 0; i < MR; ++i) widen_quads<true>(a + (row + i) * t.lda, part.kc, wide[i]);
  part.a = wide;
  part.c = t.c + row * t.ldc;
  const int64_t block = row / kBlockRows;
  const auto* const prefetch = static_cast<const char*>(part.prefetch[block % 2]);
  part.prefetch[0] = prefetch == nullptr ? nullptr : prefetch + block / 2 * t.kc * t.prefetch_step;
  multiply_rows<M, MR, block_vecs<M, MR>()>(part, 0);
}

// All rows over one or two panels of such columns.
template <class M>
inline void multiply_paired_panels(const TileArgs& t, TileArgs part, const int8_t* a,
                                   const typename M::B* left, const typename M::B* right) {
  const void* const b0 = left;
  const void* const b1 = right;
  part.b0 = &b0;
  part.b1 = right == nullptr ? nullptr : &b1;
  each_row_block(t.rows,
                 [&]<int MR>(int64_t row) { multiply_paired_rows<M, MR>(t, part, row, a); });
}

inline void multiply_paired_tile(const TileArgs& t) {
  alignas(64) int16_t wide[2][kPairsK * kPanelColumns];
  TileArgs part = t;
  part.lda = kPairsK;
  part.chunks = 1;
  for (int64_t chunk = 0; chunk < t.chunks; ++chunk) {
    for (int64_t k = 0; k < t.kc; k += kPairsK) {
      part.kc = t.kc - k < kPairsK ? t.kc - k : kPairsK;
      const auto* const left = static_cast<const uint8_t*>(t.b0[chunk]) + k * kPanelColumns;
      const uint8_t* const right =
          t.b1 == nullptr ? nullptr : static_cast<const uint8_t*>(t.b1[chunk]) + k * kPanelColumns;
      for (int i = 0; i < 2; ++i) {
        if (t.prefetch[i] != nullptr)
          part.prefetch[i] = static_cast<const char*>(t.prefetch[i]) + k * t.prefetch_step;
      }
      const auto* const a = static_cast<const int8_t*>(t.a) + chunk * t.a_chunk + k;
      if (!kWidensPanels || t.rows < kLeastWideRows) {
        multiply_paired_panels<Int8ByPairs>(t, part, a, left, right);
      } else {
        widen_panel<Int8ByPairs>(left, part.kc, wide[0]);
        if (right != nullptr) widen_panel<Int8ByPairs>(right, part.kc, wide[1]);
        multiply_paired_panels<Widened<Int8ByPairs>>(t, part, a, wide[0],
                                                     right == nullptr ? nullptr : wide[1]);
      }
      part.accumulate = true;
    }
  }
}

#endif

// c becomes f32 where it lies.
inline void scale_sums(const ScaleSumsArgs& args) {
  constexpr int kLanes = Simd::kLanes;
  const int64_t columns = args.columns;  // which a store may change as far as the compiler knows
  for (int64_t r = 0; r < args.rows; ++r) {
    float* const c = args.c + r * args.ldc;
    const TileSums<Simd, true> sums(&args.whole, c, r);
    for (int64_t j = 0; j < columns; j += kLanes) Simd::store(c + j, sums.at(j));
  }
}

// What every level has.
inline void add_int8_kernels(GemmKernels& g) {
  g.tile_blocks = multiply_block_tile<BlockLanes>;
  g.scale_sums = scale_sums;
  g.peak_int8 = register_peak<Int8ByPairs>;
#if defined(__AVX512BW__)
  g.tile_int8 = multiply_paired_tile;
  g.tile_values = multiply_value_tile<ValuesByPairs>;
#elif defined(__AVX2__)
  g.tile_int8 = multiply_paired_tile;
  g.tile_values = multiply_value_pairs;
  g.int8_finish_rows = 4 * kFinishRows;  // that share panels taken apart
#else
  g.tile_int8 = multiply_tile<Int8ByPairs>;
  g.tile_values = multiply_value_tile<ValuesByPairs>;
#endif
}

#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
// What processors with vpdpbusd have instead.
inline void add_vnni_kernels(GemmKernels& g) {
  g.tile_int8 = multiply_tile<Int8ByVnni>;
  g.int8_finish_rows = kFinishRows;
  g.tile_blocks = multiply_block_tile<BlockLanes>;
  g.tile_values = multiply_value_tile<ValuesByVnni>;
  g.peak_int8 = register_peak<Int8ByVnni>;
}
#endif

}  // namespace
}  // namespace prefix::ops
