// Tile products of whole numbers for many rows where bytes have no products of 32 bits of their own
// (avx2): Winograd's inner product ("A New Algorithm for Inner Product", IEEE Transactions on
// Computers C-17, 1968), one multiplication for two numbers of each factor.
//
//   (a0 + b1) (a1 + b0)  =  a0 b0 + a1 b1  +  a0 a1  +  b0 b1
//                           of the product    of a row  of a column
//
// A quad of k takes three additions and one vpmaddwd so, in place of two and two. Of vpmaddwd two
// end in a cycle, of additions four (Zen 3). What is of a row or of a column is summed once for all
// columns or rows and taken away at the end. All of it is exact modulo 2^32, so the bits are those
// of every other variant.
#pragma once

#include <cstdint>

#include "ops/cpu/attention_kernels.h"
#include "ops/cpu/gemm_impl.h"
#include "ops/cpu/gemm_kernels.h"
#include "ops/cpu/int8_lanes.h"
#include "ops/cpu/quads.h"
#include "ops/cpu/register_rows.h"
#include "ops/cpu/simd.h"
#include "ops/cpu/unroll.h"
#include "ops/cpu/values_impl.h"

namespace prefix::ops {
namespace {

#if defined(__AVX2__) && !defined(__AVX512BW__)

// The numbers of a quad in 16 bits: 0 and 2, 1 and 3.
struct WinogradQuads {
  __m256i even, odd;
};
inline void hide_from_compiler(WinogradQuads& quads) {
  hide_from_compiler(quads.even);
  hide_from_compiler(quads.odd);
}

// What a block does all the time, and register_peak, which measures it.
struct Int8ByWinograd : Int8Lanes {
  using A = int16_t;
  using B = int16_t;
  using BVec = WinogradQuads;
  static constexpr int kPhases = 1;
  static constexpr int kChains = 8;
  static BVec load_b(const int16_t* p, int) { return {load_whole(p), load_whole(p + 16)}; }
  static BVec broadcast_a(const int16_t* p, int) {
    return {_mm256_set1_epi32(quad_of(p)), _mm256_set1_epi32(quad_of(p + 2))};
  }
  static Vec mac(Vec c, BVec a, BVec b) {
    const Vec first = _mm256_add_epi16(a.even, b.odd);
    const Vec second = _mm256_add_epi16(a.odd, b.even);
    return in_order(_mm256_add_epi32(c, _mm256_madd_epi16(first, second)));
  }
};

// From so many rows on B is taken apart once for all of them, not in each register block.
inline constexpr int64_t kLeastWinogradRows = 32;

// Columns of a block, with four rows: what the registers hold. k that are taken apart together, of
// such columns: they stay in L1 while all rows meet them.
inline constexpr int kWinogradVecs = 2;
inline constexpr int64_t kWinogradColumns = 16, kWinogradK = 256;

// The columns of a block, in 16 bits, and what is of each.
//
//   k 0..3   [ 0 and 2 of columns 0..7 ][ 1 and 3 of them ][ the same of columns 8..15 ]   k 4..7   ...
class WinogradColumns {
 public:
  void clear() {
    k_ = 0;
    __builtin_memset(sums_, 0, sizeof sums_);
  }
  // `k` more numbers of each, `from` their first quads in a panel of M::B.
  template <class M>
  void add(const typename M::B* from, int64_t k) {
    __m256i sum[kWinogradVecs];
    PREFIX_UNROLL
    for (int j = 0; j < kWinogradVecs; ++j) sum[j] = column_terms(j);
    int16_t* to = quads_ + k_ * kWinogradColumns;
    k_ += k;
    for (int64_t i = 0; i < k; i += 4, from += 4 * kPanelColumns) {
      PREFIX_UNROLL
      for (int j = 0; j < kWinogradVecs; ++j, to += 32) {
        const __m256i even = M::load_b(from + 32 * j, 0);
        const __m256i odd = M::load_b(from + 32 * j, 1);
        sum[j] = _mm256_add_epi32(sum[j], _mm256_madd_epi16(even, odd));
        _mm256_store_si256(reinterpret_cast<__m256i*>(to), even);
        _mm256_store_si256(reinterpret_cast<__m256i*>(to + 16), odd);
      }
    }
    PREFIX_UNROLL
    for (int j = 0; j < kWinogradVecs; ++j)
      _mm256_store_si256(reinterpret_cast<__m256i*>(sums_ + 8 * j), sum[j]);
  }
  __m256i column_terms(int vec) const { return load_whole(sums_ + 8 * vec); }

  // Adds the products with MR rows of words to their sums, what is of rows and columns with them.
  template <int MR>
  [[gnu::always_inline]] void multiply(const int16_t* a, int64_t lda,
                                       __m256i (&sum)[MR][kWinogradVecs]) const {
    using M = Int8ByWinograd;
    const int16_t* b = quads_;
    for (const int16_t* const end = a + k_; a != end; a += 8, b += 2 * 64) {
      PREFIX_UNROLL
      for (int step = 0; step < 2; ++step) {
        WinogradQuads two[kWinogradVecs];
        PREFIX_UNROLL
        for (int j = 0; j < kWinogradVecs; ++j) two[j] = M::load_b(b + 64 * step + 32 * j, 0);
        PREFIX_UNROLL
        for (int i = 0; i < MR; ++i) {
          const WinogradQuads x = M::broadcast_a(a + i * lda + 4 * step, 0);
          PREFIX_UNROLL
          for (int j = 0; j < kWinogradVecs; ++j) sum[i][j] = M::mac(sum[i][j], x, two[j]);
        }
      }
    }
  }

 private:
  alignas(64) int16_t quads_[kWinogradK * kWinogradColumns];  // 8 KB
  alignas(64) int32_t sums_[kWinogradColumns];
  int64_t k_ = 0;
};

// MR rows of t over these columns.
template <int MR>
inline void multiply_winograd_block(const TileArgs& t, const WinogradColumns& columns, int64_t row,
                                    int64_t column) {
  float* const c = t.c + row * t.ldc + column;
  __m256i sum[MR][kWinogradVecs];
  PREFIX_UNROLL
  for (int i = 0; i < MR; ++i) {
    PREFIX_UNROLL
    for (int j = 0; j < kWinogradVecs; ++j) {
      const __m256i before =
          t.accumulate ? Int8Lanes::load_c(c + i * t.ldc + 8 * j) : Int8Lanes::zero();
      sum[i][j] = _mm256_sub_epi32(before, columns.column_terms(j));
    }
  }
  columns.multiply(static_cast<const int16_t*>(t.a) + row * t.lda, t.lda, sum);
  PREFIX_UNROLL
  for (int i = 0; i < MR; ++i) {
    PREFIX_UNROLL
    for (int j = 0; j < kWinogradVecs; ++j) Int8Lanes::store_c(c + i * t.ldc + 8 * j, sum[i][j]);
  }
}

// What is of a row, of k numbers: in each lane a part of the sum.
inline __m256i winograd_row(const int16_t* a, int64_t k) {
  __m256i sum = _mm256_setzero_si256();
  for (int64_t i = 0; i < k; i += 32) {
    const __m256 left = _mm256_castsi256_ps(load_whole(a + i));
    const __m256 right = _mm256_castsi256_ps(load_whole(a + i + 16));
    const __m256i even = _mm256_castps_si256(_mm256_shuffle_ps(left, right, 0x88));
    const __m256i odd = _mm256_castps_si256(_mm256_shuffle_ps(left, right, 0xdd));
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(even, odd));
  }
  return sum;
}

inline __m256i sum_in_all_lanes(__m256i x) {
  x = _mm256_add_epi32(x, _mm256_permute2x128_si256(x, x, 0x01));
  x = _mm256_add_epi32(x, _mm256_shuffle_epi32(x, 0x4e));
  return _mm256_add_epi32(x, _mm256_shuffle_epi32(x, 0xb1));
}

// With two vectors of columns they fill the registers.
inline constexpr int kWinogradRows = 4;

// Asks for what the next tile wants (TileArgs::prefetch_step), a few lines with each block of this
// one: more at a time would wait for each other.
class WinogradPrefetch {
 public:
  WinogradPrefetch(const TileArgs& t, int64_t blocks) {
    const int64_t turns = (t.rows + kPrefetchRows - 1) / kPrefetchRows;
    const int64_t lines = (turns * t.kc * t.prefetch_step + 63) / 64;
    lines_ = (lines + blocks - 1) / blocks;
    for (int i = 0; i < 2; ++i) {
      at_[i] = static_cast<const char*>(t.prefetch[i]);
      end_[i] = at_[i] == nullptr ? nullptr : at_[i] + lines * 64;
    }
  }
  void step() {
    for (int i = 0; i < 2; ++i)
      for (int64_t line = 0; line < lines_ && at_[i] != end_[i]; ++line, at_[i] += 64)
        __builtin_prefetch(at_[i], 0, 2);  // into L2
  }

 private:
  const char* at_[2];
  const char* end_[2];
  int64_t lines_;
};

// From `columns` columns of C what is of their rows.
inline void subtract_row_terms(const TileArgs& t, int64_t columns) {
  for (int64_t row = 0; row < t.rows; ++row) {
    __m256i row_term = _mm256_setzero_si256();
    const auto* const a = static_cast<const int16_t*>(t.a) + row * t.lda;
    for (int64_t chunk = 0; chunk < t.chunks; ++chunk)
      row_term = _mm256_add_epi32(row_term, winograd_row(a + chunk * t.a_chunk, t.kc));
    row_term = sum_in_all_lanes(row_term);
    float* const c = t.c + row * t.ldc;
    for (int64_t j = 0; j < columns; j += 8)
      Int8Lanes::store_c(c + j, _mm256_sub_epi32(Int8Lanes::load_c(c + j), row_term));
  }
}

inline void multiply_winograd_tile(const TileArgs& t) {
  if (t.rows < kLeastWinogradRows) return multiply_tile<Int8ByPairs>(t);
  WinogradColumns columns;
  const int64_t end_column = t.b1 == nullptr ? kPanelColumns : 2 * kPanelColumns;
  const int64_t parts = t.chunks * ((t.kc + kWinogradK - 1) / kWinogradK);
  WinogradPrefetch next(
      t, parts * (end_column / kWinogradColumns) * ((t.rows + kWinogradRows - 1) / kWinogradRows));
  TileArgs part = t;
  for (int64_t chunk = 0; chunk < t.chunks; ++chunk) {
    for (int64_t k = 0; k < t.kc; k += kWinogradK) {
      part.kc = t.kc - k < kWinogradK ? t.kc - k : kWinogradK;
      part.a = static_cast<const int16_t*>(t.a) + chunk * t.a_chunk + k;
      for (int64_t column = 0; column < end_column; column += kWinogradColumns) {
        const void* const panel = (column < kPanelColumns ? t.b0 : t.b1)[chunk];
        columns.clear();
        columns.add<Int8ByPairs>(
            static_cast<const uint8_t*>(panel) + k * kPanelColumns + column % kPanelColumns * 4,
            part.kc);
        each_row_block<0, kWinogradRows>(t.rows, [&]<int MR>(int64_t row) {
          next.step();
          multiply_winograd_block<MR>(part, columns, row, column);
        });
      }
      part.accumulate = true;
    }
  }
  subtract_row_terms(t, end_column);
}

// MR rows from `row` on, which are `weights` in 16 bits, over these columns of values.
template <int MR>
inline void multiply_winograd_values(const ValueTileArgs& t, const int16_t* weights, int64_t ldw,
                                     const int32_t* row_terms, const WinogradColumns& columns,
                                     int64_t row, int64_t column) {
  using S = LevelSimd;
  __m256i sum[MR][kWinogradVecs];
  PREFIX_UNROLL
  for (int i = 0; i < MR; ++i) {
    const __m256i row_term = _mm256_set1_epi32(-row_terms[i]);
    PREFIX_UNROLL
    for (int j = 0; j < kWinogradVecs; ++j)
      sum[i][j] = _mm256_sub_epi32(row_term, columns.column_terms(j));
  }
  columns.multiply(weights, ldw, sum);
  PREFIX_UNROLL
  for (int i = 0; i < MR; ++i) {
    const S::F scale = S::set1(t.p_scales[(row + i) * kBlockSpans]);
    PREFIX_UNROLL
    for (int j = 0; j < kWinogradVecs; ++j) {
      float* const to = t.o + (row + i) * t.ldo + column + 8 * j;
      S::store(to, S::fma(S::from_i32(sum[i][j]), scale, S::load(to)));
    }
  }
}

inline void multiply_winograd_value_tile(const ValueTileArgs& t) {
  if (t.rows < kLeastWinogradRows) return multiply_value_tile<ValuesByPairs>(t);
  constexpr int64_t kRows = 96, kKeys = kSpanPages * 32;
  static_assert(kKeys <= kWinogradK);
  alignas(64) int16_t weights[kRows][kKeys];  // 24 KB
  int32_t row_terms[kRows];
  WinogradColumns columns;
  for (int64_t begin = 0; begin < t.rows; begin += kRows) {
    const int64_t rows = t.rows - begin < kRows ? t.rows - begin : kRows;
    for (int64_t row = 0; row < rows; ++row) {
      widen_quads<false>(t.p + (begin + row) * t.ldp, t.pages * 32, weights[row]);
      row_terms[row] =
          _mm256_cvtsi256_si32(sum_in_all_lanes(winograd_row(weights[row], t.pages * 32)));
    }
    for (int64_t column = 0; column < t.d; column += kWinogradColumns) {
      columns.clear();
      for (int64_t page = 0; page < t.pages; ++page)
        columns.add<ValuesByPairs>(
            reinterpret_cast<const int8_t*>(t.blocks[page]) + value_column(column), 32);
      each_row_block<0, kWinogradRows>(rows, [&]<int MR>(int64_t row) {
        multiply_winograd_values<MR>(t, weights[row], kKeys, row_terms + row, columns, begin + row,
                                     column);
      });
    }
  }
}

#endif

}  // namespace
}  // namespace prefix::ops
