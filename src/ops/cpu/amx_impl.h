// The bf16 tile product on AMX, written over a set of tile operations (amx_tiles.h) so that the
// tests can run the same loops on a model of the tile registers on any machine.
//
//   32 rows:   A0 | C0 C1      one panel (32 columns) at a time: each A and B tile is used twice,
//              A1 | C2 C3      4 loads for 4 multiplications
//                   B0 B1
//
//   1..16 rows: A0 | C0 C1 C2 C3   both panels at once: four sums in flight hide the latency
//                    B0 B1 B0 B1
//
// A tile register holds 16 rows of 64 bytes: 16 x 32 of A, 16 k pairs x 16 columns of a B panel
// (whose rows are 128 bytes apart), 16 x 16 of C. An element of C takes 32 k per multiplication, in
// ascending order, in both shapes. Whole numbers of a byte lie in quads where bf16 lie in pairs:
// the same loops, with 64 k in a tile.
#pragma once

#include <cstdint>

#include "ops/cpu/amx_config.h"
#include "ops/cpu/gemm_kernels.h"

namespace prefix::ops {
namespace {

constexpr int kTileRows = 16;
constexpr int64_t kFullRows = 2 * kTileRows;              // that go through both registers of A
constexpr int64_t kTileK = 32;                            // of bf16
constexpr int64_t kPanelStride = 128;                     // bytes of one k pair or quad in a panel
constexpr int64_t kPanelTile = kPanelStride * kTileRows;  // bytes of a tile's k in a panel
constexpr int64_t kRightHalf = 64;                        // bytes to columns 16..31 of a panel

// Registers 0..3 hold C, 4 and 5 A, 6 and 7 B. With fewer than 16 rows, C and A are shorter,
// so that nothing outside the caller's rows is read or written.
constexpr TileConfig tile_config(int rows) {
  TileConfig config;
  for (int i = 0; i < 8; ++i) {
    config.bytes_per_row[i] = 64;
    config.rows[i] = static_cast<uint8_t>(i < 6 ? rows : kTileRows);
  }
  return config;
}

// What tiles hold.
struct Bf16Tiles {
  using Element = uint16_t;
  static constexpr int64_t kK = kTileK;
  template <class T, int kC, int kA, int kB>
  static void multiply() {
    T::template multiply<kC, kA, kB>();
  }
};
struct Int8Tiles {
  using Element = int8_t;
  static constexpr int64_t kK = 64;
  template <class T, int kC, int kA, int kB>
  static void multiply() {
    T::template multiply_int8<kC, kA, kB>();
  }
};

// The rows that this thread's registers are configured for; 0: not configured.
template <class T>
struct Configured {
  static thread_local int rows;
};
template <class T>
thread_local int Configured<T>::rows = 0;

template <class T>
void configure_tiles(int rows) {
  if (Configured<T>::rows == rows) return;
  const TileConfig config = tile_config(rows);
  T::configure(config);
  Configured<T>::rows = rows;
}

template <class T>
void begin_tiles() {
  Configured<T>::rows = 0;  // whatever other code did to this thread's tiles
  configure_tiles<T>(kTileRows);
}

template <class T>
void end_tiles() {
  T::release();
  Configured<T>::rows = 0;
}

template <class T, int kTile>
inline void start_sum(const TileArgs& t, const float* c) {
  if (t.accumulate) {
    T::template load<kTile>(c, t.ldc * 4);
  } else {
    T::template zero<kTile>();
  }
}

// What rows [row, row + rows) ask for of one panel of TileArgs::prefetch, step by step.
struct Prefetch {
  const char* next;
  int64_t bytes;  // of a step

  Prefetch(const TileArgs& t, int side, int64_t row, int64_t rows, int64_t step_k)
      : next(static_cast<const char*>(t.prefetch[side])), bytes(0) {
    if (next == nullptr) return;
    next += row * t.kc * t.prefetch_step / kPrefetchRows;
    // The last rows, which may be the only ones, ask for all that is left.
    if (rows < kFullRows) rows = (rows + kPrefetchRows - 1) / kPrefetchRows * kPrefetchRows;
    bytes = rows * step_k * t.prefetch_step / kPrefetchRows;
  }
  void step() {
    for (int64_t line = 0; line < bytes; line += 64)
      __builtin_prefetch(next + line, 0, 2);  // into L2
    next += bytes;
  }
};

// What is loaded past L1, so that the other one stays there.
enum class PastL1 { kNothing, kRows, kPanels };

template <class T, int kTile, bool kPast>
inline void load_tile(const void* base, int64_t stride) {
  if constexpr (kPast) {
    T::template load_past<kTile>(base, stride);
  } else {
    T::template load<kTile>(base, stride);
  }
}

// Rows [row, row + 32) of panel `side`; `c` points at the panel's first column in row `row`.
// Each tile is loaded a multiplication before the first that takes it, as soon as its register is
// free: where the core's other thread has tiles, too, a multiplication and a load that it waits for
// take their times one after the other (0.9 of the products' time there, 1.01 of it alone).
template <class T, class E, PastL1 kPast>
inline void multiply_full(const TileArgs& t, int64_t row, int side, float* c) {
  constexpr bool kPastA = kPast == PastL1::kRows, kPastB = kPast == PastL1::kPanels;
  const void* const* const panels = side == 0 ? t.b0 : t.b1;
  const auto lda = t.lda * static_cast<int64_t>(sizeof(typename E::Element));
  float* const lower = c + kTileRows * t.ldc;
  start_sum<T, 0>(t, c);
  start_sum<T, 1>(t, c + 16);
  start_sum<T, 2>(t, lower);
  start_sum<T, 3>(t, lower + 16);
  Prefetch prefetch(t, side, row, kFullRows, E::kK);
  for (int64_t chunk = 0; chunk < t.chunks; ++chunk) {
    const auto* a = static_cast<const typename E::Element*>(t.a) + chunk * t.a_chunk + row * t.lda;
    const auto* b = static_cast<const char*>(panels[chunk]);
    load_tile<T, 4, kPastA>(a, lda);
    load_tile<T, 6, kPastB>(b, kPanelStride);
    load_tile<T, 7, kPastB>(b + kRightHalf, kPanelStride);
    const auto step = [&]<bool kMore>() {
      E::template multiply<T, 0, 4, 6>();
      load_tile<T, 5, kPastA>(a + kTileRows * t.lda, lda);
      E::template multiply<T, 1, 4, 7>();
      a += E::kK;
      b += kPanelTile;
      if constexpr (kMore) load_tile<T, 4, kPastA>(a, lda);
      E::template multiply<T, 2, 5, 6>();
      if constexpr (kMore) load_tile<T, 6, kPastB>(b, kPanelStride);
      prefetch.step();
      E::template multiply<T, 3, 5, 7>();
      if constexpr (kMore) load_tile<T, 7, kPastB>(b + kRightHalf, kPanelStride);
    };
    for (int64_t k = E::kK; k < t.kc; k += E::kK) step.template operator()<true>();
    step.template operator()<false>();
  }
  T::template store<0>(c, t.ldc * 4);
  T::template store<1>(c + 16, t.ldc * 4);
  T::template store<2>(lower, t.ldc * 4);
  T::template store<3>(lower + 16, t.ldc * 4);
}

// `rows` rows, as the registers are configured, from `row` on; one panel or both.
template <class T, class E, bool kBoth>
inline void multiply_few(const TileArgs& t, int64_t row, int rows, float* c) {
  const auto lda = t.lda * static_cast<int64_t>(sizeof(typename E::Element));
  start_sum<T, 0>(t, c);
  start_sum<T, 1>(t, c + 16);
  if constexpr (kBoth) {
    start_sum<T, 2>(t, c + 32);
    start_sum<T, 3>(t, c + 48);
  }
  Prefetch left_ahead(t, 0, row, rows, E::kK), right_ahead(t, 1, row, rows, E::kK);
  for (int64_t chunk = 0; chunk < t.chunks; ++chunk) {
    const auto* a = static_cast<const typename E::Element*>(t.a) + chunk * t.a_chunk + row * t.lda;
    const auto* left = static_cast<const char*>(t.b0[chunk]);
    const char* right = nullptr;
    if constexpr (kBoth) right = static_cast<const char*>(t.b1[chunk]);
    for (int64_t k = 0; k < t.kc; k += E::kK) {
      T::template load<4>(a, lda);
      T::template load<6>(left, kPanelStride);
      E::template multiply<T, 0, 4, 6>();
      T::template load<7>(left + kRightHalf, kPanelStride);
      E::template multiply<T, 1, 4, 7>();
      left_ahead.step();
      if constexpr (kBoth) {
        T::template load<6>(right, kPanelStride);
        E::template multiply<T, 2, 4, 6>();
        T::template load<7>(right + kRightHalf, kPanelStride);
        E::template multiply<T, 3, 4, 7>();
        right += kPanelTile;
        right_ahead.step();
      }
      a += E::kK;
      left += kPanelTile;
    }
  }
  T::template store<0>(c, t.ldc * 4);
  T::template store<1>(c + 16, t.ldc * 4);
  if constexpr (kBoth) {
    T::template store<2>(c + 32, t.ldc * 4);
    T::template store<3>(c + 48, t.ldc * 4);
  }
}

// All full blocks of rows; returns the row behind them.
template <class T, class E, PastL1 kPast>
inline int64_t multiply_full_rows(const TileArgs& t) {
  int64_t row = 0;
  for (; row + kFullRows <= t.rows; row += kFullRows) {
    float* const c = t.c + row * t.ldc;
    multiply_full<T, E, kPast>(t, row, 0, c);
    if (t.b1 != nullptr) multiply_full<T, E, kPast>(t, row, 1, c + 32);
  }
  return row;
}

// Bytes of a row of A, and of a column of a panel, with which 32 rows or a panel fill two thirds of
// L1: from there on only one of both stays in it. That is a panel where many rows take it, else the
// rows, which take two.
constexpr int64_t kFillsL1 = 1024;
constexpr int64_t kManyRows = 2 * kFullRows;

template <class T, class E = Bf16Tiles>
void multiply_tile_amx(const TileArgs& t) {
  int64_t row = 0;
  if (t.rows >= kFullRows) {
    configure_tiles<T>(kTileRows);
    const int64_t bytes = t.kc * static_cast<int64_t>(sizeof(typename E::Element));
    row = bytes < kFillsL1      ? multiply_full_rows<T, E, PastL1::kNothing>(t)
          : t.b1 != nullptr     ? multiply_full_rows<T, E, PastL1::kPanels>(t)
          : t.rows >= kManyRows ? multiply_full_rows<T, E, PastL1::kRows>(t)
                                : multiply_full_rows<T, E, PastL1::kNothing>(t);
  }
  while (row < t.rows) {
    const int64_t left = t.rows - row;
    const int rows = left < kTileRows ? static_cast<int>(left) : kTileRows;
    configure_tiles<T>(rows);
    float* const c = t.c + row * t.ldc;
    if (t.b1 != nullptr) {
      multiply_few<T, E, true>(t, row, rows, c);
    } else {
      multiply_few<T, E, false>(t, row, rows, c);
    }
    row += rows;
  }
}

// What every table with products on tiles has. A panel of 1 KB a column that stays in L1 while 64
// rows or more pass by it takes 0.83 of the time that a tile of both panels takes (measured, loops
// alone; 0.97 of a whole batch). These processors have 2 MB of L2, which a neighbour on the core's
// other thread may use too. x takes a fifth of it: twice the rows read weights half as often, and
// took as long (measured). Tiles are so fast that memory is the bound where a thread reads all
// weights of a layer for 48 rows, as on other levels: with 128 products take 0.6 to 0.9 of the time
// (measured). Attention takes twice the rows of other levels: keys and values, which a tile reads
// again for each group of rows, cost more than scores (measured).
template <class T>
inline void use_tiles(GemmKernels& gemm) {
  gemm.begin = begin_tiles<T>;
  gemm.end = end_tiles<T>;
  gemm.row_step = kFullRows;
  gemm.least_prefetch_rows = 1;
  gemm.row_block = 192;
  gemm.k_block_bytes = kFillsL1;
  gemm.panel_rows = kManyRows;
  gemm.layer_rows = 128;
  gemm.attention_rows = 96;
}

// FLOP of `iterations` rounds of the 2 x 2 register block without loads. The tiles hold random
// numbers: on zeros the unit draws less power and runs faster than any real product.
template <class T, class E = Bf16Tiles>
double tile_peak(int64_t iterations) {
  alignas(64) uint16_t numbers[kTileRows * kTileK];
  uint32_t state = 1;
  for (uint16_t& x : numbers) {
    state = state * 1664525u + 1013904223u;
    x = static_cast<uint16_t>(0x3e00u | (state >> 16 & 0x80ffu));  // about +-0.1 .. 0.5
  }
  configure_tiles<T>(kTileRows);
  T::template zero<0>();
  T::template zero<1>();
  T::template zero<2>();
  T::template zero<3>();
  T::template load<4>(numbers, 64);
  T::template load<5>(numbers, 64);
  T::template load<6>(numbers, 64);
  T::template load<7>(numbers, 64);
  for (int64_t n = 0; n < iterations; ++n) {
    E::template multiply<T, 0, 4, 6>();
    E::template multiply<T, 1, 4, 7>();
    E::template multiply<T, 2, 5, 6>();
    E::template multiply<T, 3, 5, 7>();
  }
  return static_cast<double>(iterations) * 4 * 2 * kTileRows * 16 * E::kK;
}

}  // namespace
}  // namespace prefix::ops
