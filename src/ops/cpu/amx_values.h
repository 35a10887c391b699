// Weights times int8 values on AMX (ValueTileArgs): the product of amx_impl.h over all pages of a
// span, whose sums of whole numbers then are scaled and added to o in vectors.
//
//   32 rows of P    [ page | page ][ page | page ]      a tile's row: 64 keys, of two pages
//   V, a panel      [ page ][ page ][ page ][ page ]    copied from where each page lies, 1 KB after the other
//
// A multiplication takes as long for the 32 keys of one page as for those of two, and only what
// lies together fits a tile. Behind an odd number of pages V is zero, whatever P has there.
//
// With the operations of values_impl.h on each number, so with its bits. T: the tile operations, S:
// the vectors (simd.h), parameters both, so that tests run it on models of them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/cpu/amx_impl.h"
#include "ops/cpu/attention_kernels.h"

namespace prefix::ops {
namespace {

// Unsigned weights, signed values.
struct ValueTiles {
  using Element = uint8_t;
  static constexpr int64_t kK = 64;
  template <class T, int kC, int kA, int kB>
  static void multiply() {
    T::template multiply_uint8<kC, kA, kB>();
  }
};

// Panel `panel` of all pages, and zeros up to whole tiles.
inline void gather_panel(const ValueTileArgs& t, int64_t panel, std::byte* to) {
  for (int64_t page = 0; page < t.pages; ++page, to += kValuePanel)
    __builtin_memcpy(to, t.blocks[page] + panel * kValuePanel, kValuePanel);
  if (t.pages % 2 != 0) __builtin_memset(to, 0, kValuePanel);
}

// o += scale * sums, of `rows` rows from `row` on and `columns` columns from `column` on.
template <class S>
inline void add_sums(const ValueTileArgs& t, const int32_t* sums, int64_t columns, int64_t row,
                     int64_t rows, int64_t column) {
  for (int64_t r = 0; r < rows; ++r) {
    const typename S::F scale = S::set1(t.p_scales[(row + r) * kBlockSpans]);
    float* const o = t.o + (row + r) * t.ldo + column;
    for (int64_t c = 0; c < columns; c += S::kLanes) {
      const typename S::F sum = S::load_i32(sums + r * 2 * kPanelColumns + c, 0);
      S::store(o + c, S::fma(sum, scale, S::load(o + c)));
    }
  }
}

template <class T, class S>
void multiply_value_tile_amx(const ValueTileArgs& t) {
  static_assert(kSpanPages % 2 == 0);
  alignas(64) std::byte values[2][kSpanPages * kValuePanel];
  alignas(64) int32_t sums[kFullRows * 2 * kPanelColumns];
  const void* const left = values[0];
  const void* const right = values[1];
  for (int64_t column = 0; column < t.d; column += 2 * kPanelColumns) {
    const bool both = column + kPanelColumns < t.d;
    const int64_t panel = column / kPanelColumns;
    gather_panel(t, panel, values[0]);
    if (both) gather_panel(t, panel + 1, values[1]);
    for (int64_t row = 0; row < t.rows; row += kFullRows) {
      TileArgs tile;
      tile.a = t.p + row * t.ldp;
      tile.lda = t.ldp;
      tile.b0 = &left;
      tile.b1 = both ? &right : nullptr;
      tile.chunks = 1;
      tile.kc = (t.pages + 1) / 2 * ValueTiles::kK;
      tile.c = reinterpret_cast<float*>(sums);
      tile.ldc = 2 * kPanelColumns;
      tile.rows = t.rows - row < kFullRows ? t.rows - row : kFullRows;
      multiply_tile_amx<T, ValueTiles>(tile);
      add_sums<S>(t, sums, (both ? 2 : 1) * kPanelColumns, row, tile.rows, column);
    }
  }
}

}  // namespace
}  // namespace prefix::ops
