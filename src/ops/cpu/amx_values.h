// Weights times int8 values on AMX (ValueTileArgs): the sums of a page leave the tile register, and are
// scaled and added where o is, in vectors.
//
//   P of a page: 16 rows x 32 bytes  x  V: 8 quads of keys x 16 columns  ->  C: 16 x 16 whole numbers
//   o <- o + p_scale * (C as f32), in registers over all pages
//
// With the operations of values_impl.h on each number, so with its bits. T: the tile operations, S: the vectors
// (simd.h), parameters both, so that tests run it on models of them.
#pragma once

#include <cstdint>

#include "ops/cpu/amx_impl.h"
#include "ops/cpu/unroll.h"

namespace prefix::ops {
namespace {

constexpr int kRegisterColumns = 16;
constexpr int kPageK = 32;  // bytes of a row of P in a page

// The sums of a page, of rows as the registers are configured. Pages take A and B in turn: the next one is
// loaded while this one is multiplied.
template <class T, int kPage>
inline void multiply_page(const uint8_t* p, int64_t ldp, const std::byte* v) {
  constexpr int kA = 4 + kPage % 2, kB = 6 + kPage % 2;
  T::template zero<kPage>();
  T::template load<kA>(p, ldp);
  T::template load<kB>(v, kPanelStride);
  T::template multiply_uint8<kPage, kA, kB>();
}

// o of kRows rows, in registers.
template <class S, int kRows>
using Totals = typename S::F[kRows][kRegisterColumns / S::kLanes];

// total += the sums of a page, times the scale of each row.
template <class S, int kRows>
[[gnu::always_inline]] inline void add_page(const int32_t* sums, const float* scales,
                                            Totals<S, kRows>& total) {
  PREFIX_UNROLL
  for (int i = 0; i < kRows; ++i) {
    const typename S::F scale = S::set1(scales[i * kBlockPages]);
    PREFIX_UNROLL
    for (int j = 0; j < kRegisterColumns / S::kLanes; ++j) {
      const typename S::F sum = S::load_i32(sums + i * kRegisterColumns + j * S::kLanes, 0);
      total[i][j] = S::fma(sum, scale, total[i][j]);
    }
  }
}

// 16 columns of kRows rows.
template <class T, class S, int kRows>
inline void value_tile(const ValueTileArgs& t, int64_t row, int64_t column) {
  constexpr int kVecs = kRegisterColumns / S::kLanes;
  constexpr int64_t kSums = kTileRows * kRegisterColumns;
  const int64_t at = column / 32 * (kPanelTile / 2) + column % 32 * 4;
  const uint8_t* const p = t.p + row * t.ldp;
  float* const o = t.o + row * t.ldo + column;
  alignas(64) int32_t sums[4 * kSums];
  Totals<S, kRows> total;
  PREFIX_UNROLL
  for (int i = 0; i < kRows; ++i) {
    PREFIX_UNROLL
    for (int j = 0; j < kVecs; ++j) total[i][j] = S::load(o + i * t.ldo + j * S::kLanes);
  }
  const auto multiply = [&]<int kPage>(int64_t page) {
    if (page + kPage >= t.pages) return;
    multiply_page<T, kPage>(p + (page + kPage) * kPageK, t.ldp, t.blocks[page + kPage] + at);
  };
  const auto keep = [&]<int kPage>(int64_t page) {
    if (page + kPage < t.pages)
      T::template store<kPage>(sums + kPage * kSums, kRegisterColumns * 4);
  };
  for (int64_t first = 0; first < t.pages; first += 4) {
    multiply.template operator()<0>(first);
    multiply.template operator()<1>(first);
    multiply.template operator()<2>(first);
    multiply.template operator()<3>(first);
    keep.template operator()<0>(first);
    keep.template operator()<1>(first);
    keep.template operator()<2>(first);
    keep.template operator()<3>(first);
    const int64_t end = first + 4 < t.pages ? first + 4 : t.pages;
    for (int64_t page = first; page < end; ++page) {
      const float* const scales = t.p_scales + row * kBlockPages + page;
      add_page<S, kRows>(sums + (page - first) * kSums, scales, total);
    }
  }
  PREFIX_UNROLL
  for (int i = 0; i < kRows; ++i) {
    PREFIX_UNROLL
    for (int j = 0; j < kVecs; ++j) S::store(o + i * t.ldo + j * S::kLanes, total[i][j]);
  }
}

// kRows rows at a time from `row` on, as many as there are; returns the row behind them.
template <class T, class S, int kRows>
inline int64_t value_tiles(const ValueTileArgs& t, int64_t row) {
  const int64_t end = row + (t.rows - row) / kRows * kRows;
  if (row == end) return row;
  configure_tiles<T>(kRows, kPageK);
  for (int64_t column = 0; column < t.d; column += kRegisterColumns)
    for (int64_t r = row; r < end; r += kRows) value_tile<T, S, kRows>(t, r, column);
  return end;
}

template <class T, class S>
void multiply_value_tile_amx(const ValueTileArgs& t) {
  int64_t row = value_tiles<T, S, kTileRows>(t, 0);
  row = value_tiles<T, S, 8>(t, row);
  row = value_tiles<T, S, 4>(t, row);
  row = value_tiles<T, S, 2>(t, row);
  value_tiles<T, S, 1>(t, row);
}

}  // namespace
}  // namespace prefix::ops
