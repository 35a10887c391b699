// Weights times int8 values on AMX (ValueTileArgs): sums of whole numbers over all pages in tile registers, which then
// are scaled and added to o in vectors.
//
//   32 rows:    A0 | C0 C1     a panel (32 columns) at a time     A: 16 rows of P x 32 bytes of a page
//               A1 | C2 C3                                        B: 8 quads of keys of V x 16 columns
//                    B0 B1
//
//   1..16 rows: A0 | C0 C1 C2 C3   two panels at once: four sums in flight hide the latency
//                    B0 B1 B0 B1
//
// With the operations of values_impl.h on each number, so with its bits. T: the tile operations, S: the vectors
// (simd.h), parameters both, so that tests run it on models of them.
#pragma once

#include <cstdint>

#include "ops/cpu/amx_impl.h"

namespace prefix::ops {
namespace {

constexpr int kPageK = 32;             // bytes of a row of P in a page
constexpr int64_t kValuePanel = 1024;  // bytes of a panel of a page

// Sums of `rows` rows as tile registers leave them, added to o.
template <class S>
inline void add_sums(const ValueTileArgs& t, const int32_t* sums, int64_t columns, int64_t row,
                     int64_t rows, int64_t column) {
  for (int64_t r = 0; r < rows; ++r) {
    const typename S::F scale = S::set1(t.p_scales[(row + r) * kBlockSpans]);
    float* const o = t.o + (row + r) * t.ldo + column;
    for (int64_t c = 0; c < columns; c += S::kLanes)
      S::store(o + c, S::fma(S::load_i32(sums + r * columns + c, 0), scale, S::load(o + c)));
  }
}

// Rows [row, row + 32) of a panel.
template <class T, class S>
inline void full_values(const ValueTileArgs& t, int64_t row, int64_t column) {
  alignas(64) int32_t sums[kFullRows * kPanelColumns];
  const uint8_t* p = t.p + row * t.ldp;
  T::template zero<0>();
  T::template zero<1>();
  T::template zero<2>();
  T::template zero<3>();
  for (int64_t page = 0; page < t.pages; ++page, p += kPageK) {
    const std::byte* const v = t.blocks[page] + column / kPanelColumns * kValuePanel;
    T::template load<4>(p, t.ldp);
    T::template load<6>(v, kPanelStride);
    T::template multiply_uint8<0, 4, 6>();
    T::template load<7>(v + kRightHalf, kPanelStride);
    T::template multiply_uint8<1, 4, 7>();
    T::template load<5>(p + kTileRows * t.ldp, t.ldp);
    T::template multiply_uint8<2, 5, 6>();
    T::template multiply_uint8<3, 5, 7>();
  }
  constexpr int64_t kBytes = kPanelColumns * sizeof(int32_t);
  int32_t* const lower = sums + kTileRows * kPanelColumns;
  T::template store<0>(sums, kBytes);
  T::template store<1>(sums + 16, kBytes);
  T::template store<2>(lower, kBytes);
  T::template store<3>(lower + 16, kBytes);
  add_sums<S>(t, sums, kPanelColumns, row, kFullRows, column);
}

// `rows` rows, as the registers are configured, of a panel or of two.
template <class T, class S, bool kBoth>
inline void few_values(const ValueTileArgs& t, int64_t row, int64_t rows, int64_t column) {
  constexpr int64_t kColumns = (kBoth ? 2 : 1) * kPanelColumns;
  constexpr int64_t kBytes = kColumns * sizeof(int32_t);
  alignas(64) int32_t sums[kTileRows * kColumns];
  const uint8_t* p = t.p + row * t.ldp;
  T::template zero<0>();
  T::template zero<1>();
  if constexpr (kBoth) {
    T::template zero<2>();
    T::template zero<3>();
  }
  for (int64_t page = 0; page < t.pages; ++page, p += kPageK) {
    const std::byte* const v = t.blocks[page] + column / kPanelColumns * kValuePanel;
    T::template load<4>(p, t.ldp);
    T::template load<6>(v, kPanelStride);
    T::template multiply_uint8<0, 4, 6>();
    T::template load<7>(v + kRightHalf, kPanelStride);
    T::template multiply_uint8<1, 4, 7>();
    if constexpr (kBoth) {
      T::template load<6>(v + kValuePanel, kPanelStride);
      T::template multiply_uint8<2, 4, 6>();
      T::template load<7>(v + kValuePanel + kRightHalf, kPanelStride);
      T::template multiply_uint8<3, 4, 7>();
    }
  }
  T::template store<0>(sums, kBytes);
  T::template store<1>(sums + 16, kBytes);
  if constexpr (kBoth) {
    T::template store<2>(sums + 32, kBytes);
    T::template store<3>(sums + 48, kBytes);
  }
  add_sums<S>(t, sums, kColumns, row, rows, column);
}

template <class T, class S>
void multiply_value_tile_amx(const ValueTileArgs& t) {
  int64_t row = 0;
  if (t.rows >= kFullRows) configure_tiles<T>(kTileRows, kPageK);
  for (; row + kFullRows <= t.rows; row += kFullRows)
    for (int64_t column = 0; column < t.d; column += kPanelColumns)
      full_values<T, S>(t, row, column);
  while (row < t.rows) {
    const int64_t left = t.rows - row;
    const int64_t rows = left < kTileRows ? left : kTileRows;
    configure_tiles<T>(static_cast<int>(rows), kPageK);
    int64_t column = 0;
    for (; column + 2 * kPanelColumns <= t.d; column += 2 * kPanelColumns)
      few_values<T, S, true>(t, row, rows, column);
    if (column < t.d) few_values<T, S, false>(t, row, rows, column);
    row += rows;
  }
}

}  // namespace
}  // namespace prefix::ops
