// Products with weights in blocks (BlockTileArgs), over the vectors of the including level.
//
// A few rows read each code from memory once and take it apart in registers: bandwidth counts. More
// rows share a unit that is taken apart into L1 before, bytes and f32 scales. Sums are exact, and
// the same numbers meet in the same order.
//
//   panel in memory ── Stored ───────────────┐
//        └─ unpack ── unit of bytes ─ Plain ─┴─> multiply_groups: rows x vectors of columns
//                                            └─> multiply_by_words, where bytes have no products of 32 bits
#pragma once

#include <cstdint>

#include "ops/cpu/block_kernels.h"
#include "ops/cpu/block_lanes.h"
#include "ops/cpu/gemm_kernels.h"
#include "ops/cpu/quads.h"
#include "ops/cpu/register_rows.h"
#include "ops/cpu/unroll.h"

namespace prefix::ops {
namespace {

// Up to so many rows take codes apart in registers.
inline constexpr int64_t kFewBlockRows = 4;

// How far ahead of its use a panel is asked for, at least.
inline constexpr int64_t kBytesAhead = 2048;

[[gnu::always_inline]] inline void prefetch_lines(const std::byte* from, int64_t lines) {
  for (int64_t i = 0; i < lines; ++i) __builtin_prefetch(from + i * 64);
}

// Quads whose products with codes of x, all below 128, 16 bits hold together:
// 2 x (15 x 8, 31 x 4 or 63 x 2) x 127. Of larger codes, 0.
constexpr int quads_together(const BlockLayout& layout) {
  return layout.code_bits() == 8 ? 0 : 8 >> (layout.code_bits() - 4);
}

// A unit as it lies in the panel.
template <BlockLayout L, class V>
struct Stored {
  static constexpr int kHalves = L.halves;
  static constexpr bool kMinima = L.minima;
  static_assert(!L.minima || L.offset == 0);
  static constexpr int kTogether = quads_together(L);
  static constexpr bool kSmall = kTogether > 0;
  // Of levels that multiply signed numbers alone: codes of 8 bits are 128 less there.
  static constexpr bool kLess128 = !kSmall && requires(typename V::I codes) { V::less_128(codes); };
  const std::byte* unit;

  static constexpr int offset() { return L.offset - (kLess128 ? 128 : 0); }

  // With each group a part of a unit further on.
  // Without it one row of Q4_K took 1.6 times as long from memory (Zen 3).
  [[gnu::always_inline]] void prefetch(int group) const {
    constexpr int64_t kUnitsAhead = (kBytesAhead + L.bytes() - 1) / L.bytes();
    constexpr int64_t kLines = (L.bytes() / L.groups + 63) / 64;
    prefetch_lines(unit + kUnitsAhead * L.bytes() + group * kLines * 64, kLines);
  }

  // Four k in each lane, of kLanes columns.
  [[gnu::always_inline]] typename V::I codes(int group, int quad, int column) const {
    if constexpr (kLess128) {
      return V::less_128(stored_codes(group, quad, column));
    } else {
      return stored_codes(group, quad, column);
    }
  }
  [[gnu::always_inline]] typename V::I stored_codes(int group, int quad, int column) const {
    if constexpr (L.low_bits == 8) {
      return V::load(unit + group * L.low_bytes() + quad * 4 * kPanelColumns + 4 * column);
    } else {
      const typename V::I both =
          V::load(unit + group * L.low_bytes() + quad / 2 * 4 * kPanelColumns + 4 * column);
      typename V::I code = V::template bits<0x0f>(quad % 2 == 0 ? both : V::shifted(both, 4));
      if constexpr (L.table != CodeTable::kNone) code = V::template look_up<L.table>(code);
      if constexpr (L.high_bits > 0) {
        constexpr int kQuads = 8 / L.high_bits;  // of which a byte has bits
        const typename V::I bits = V::load(unit + L.high_at() + group * L.high_bytes() +
                                           quad / kQuads * 4 * kPanelColumns + 4 * column);
        constexpr uint8_t kMask = ((1 << L.high_bits) - 1) << 4;
        code = V::either(
            code, V::template bits<kMask>(V::shifted(bits, quad % kQuads * L.high_bits - 4)));
      }
      return code;
    }
  }
  [[gnu::always_inline]] typename V::F scale(int group, int half, int column) const {
    const std::byte* const d_at = unit + L.d_at() + 2 * column;
    const typename V::F d = L.bf16 ? V::bf16(d_at) : V::half(d_at);
    if constexpr (!L.nested) return d;
    const std::byte* const at =
        unit + L.scales_at() + (group * L.halves + half) * kPanelColumns + column;
    return V::mul(d, L.halves == 2 ? V::from_i8(at) : V::from_u8(at));
  }
  [[gnu::always_inline]] typename V::F minimum(int group, int column) const {
    const typename V::F m = V::half(unit + L.m_at() + 2 * column);
    if constexpr (!L.nested) return m;
    return V::mul(m, V::from_u8(unit + L.minima_at() + group * kPanelColumns + column));
  }
};

// Groups that were taken apart.
struct PlainUnit {
  alignas(64) uint8_t codes[kMaxUnitGroups][kGroupQuads][kPanelColumns][4];
  alignas(64) float scales[kMaxUnitGroups][2][kPanelColumns];
  alignas(64) float minima[kMaxUnitGroups][kPanelColumns];
};

template <int Halves, bool Minima, int Together, class V>
struct Plain {
  static constexpr int kHalves = Halves;
  static constexpr bool kMinima = Minima;
  static constexpr int kTogether = Together;
  static constexpr bool kSmall = Together > 0;
  const PlainUnit* unit;
  int more;  // of each code

  int offset() const { return more; }
  static void prefetch(int) {}
  [[gnu::always_inline]] typename V::I codes(int group, int quad, int column) const {
    return V::load(reinterpret_cast<const std::byte*>(unit->codes[group][quad][column]));
  }
  [[gnu::always_inline]] typename V::F scale(int group, int half, int column) const {
    return V::load_f32(unit->scales[group][half] + column);
  }
  [[gnu::always_inline]] typename V::F minimum(int group, int column) const {
    return V::load_f32(unit->minima[group] + column);
  }
};

template <BlockLayout L, class V>
using PlainOf =
    Plain<L.halves, L.minima, V::kByWords ? quads_together(L) : (quads_together(L) > 0), V>;

// Groups [first, first + count) of x, in `unit` from 0 on.
struct GroupRange {
  int64_t first;
  int count;
};

// What C has of the groups before a range.
template <class V>
inline typename V::F sums_before(GroupRange groups, const float* c) {
  return groups.first == 0 ? V::set1_f32(0) : V::load_f32(c);
}

// MR rows of x from `row` of a tile on, from a group on.
template <int MR>
struct RowsOfX {
  RowsOfX(const BlockTileArgs& t, int64_t row, int64_t group) {
    PREFIX_UNROLL
    for (int i = 0; i < MR; ++i) {
      const int64_t r = t.first_row + row + i;
      codes[i] = t.x.codes(r) + group * kGroupK;
      scales[i] = t.x.scales(r) + group;
      scaled_sums[i] = t.x.scaled_sums(r) + group;
      sums[i] = t.x.sums(r) + 2 * group;
    }
  }

  const int8_t* codes[MR];
  const float* scales[MR];
  const float* scaled_sums[MR];
  const int32_t* sums[MR];
};

// What codes of w are too much by, times those of row i: codes that have minima have no offset.
template <class W, int MR>
inline int32_t first_sum(const W& w, const RowsOfX<MR>& x, int i, int group, int half) {
  if constexpr (W::kMinima) return 0;
  const int32_t* const sums = x.sums[i] + 2 * group;
  return -w.offset() * (W::kHalves == 2 ? sums[half] : sums[0] + sums[1]);
}

// Rows [row, row + MR), columns [column, column + NV vectors): C goes on over a range of groups.
template <class W, class V, int MR, int NV>
inline void multiply_groups(const W& w, const BlockTileArgs& t, int64_t row, GroupRange groups,
                            int column, typename V::F (&acc)[MR][NV]) {
  using I = typename V::I;
  using F = typename V::F;
  const RowsOfX<MR> x(t, row, groups.first);
  constexpr int kQuads = kGroupQuads / W::kHalves;  // that share a scale
  for (int g = 0; g < groups.count; ++g) {
    w.prefetch(g);
    PREFIX_UNROLL
    for (int half = 0; half < W::kHalves; ++half) {
      I sum[MR][NV];
      PREFIX_UNROLL
      for (int i = 0; i < MR; ++i) {
        const I first = V::set1(first_sum(w, x, i, g, half));
        PREFIX_UNROLL
        for (int j = 0; j < NV; ++j) sum[i][j] = first;
      }
      [[maybe_unused]] I words[MR][NV];
      PREFIX_UNROLL
      for (int q = 0; q < kQuads; ++q) {
        const int quad = half * kQuads + q;
        I b[NV];
        PREFIX_UNROLL
        for (int j = 0; j < NV; ++j) b[j] = w.codes(g, quad, column + j * V::kLanes);
        PREFIX_UNROLL
        for (int i = 0; i < MR; ++i) {
          const auto a = V::broadcast(x.codes[i] + g * kGroupK + 4 * quad);
          PREFIX_UNROLL
          for (int j = 0; j < NV; ++j) {
            if constexpr (V::kByWords && W::kSmall) {
              const I products = V::byte_products(b[j], a);
              words[i][j] =
                  q % W::kTogether == 0 ? products : in_order(V::add_words(words[i][j], products));
              if ((q + 1) % W::kTogether == 0)
                sum[i][j] = V::add(sum[i][j], V::pair_sums(words[i][j]));
            } else {
              sum[i][j] = V::dot(sum[i][j], b[j], a);
            }
          }
        }
      }
      PREFIX_UNROLL
      for (int j = 0; j < NV; ++j) {
        const F scale = w.scale(g, half, column + j * V::kLanes);
        PREFIX_UNROLL
        for (int i = 0; i < MR; ++i)
          acc[i][j] =
              V::fma(V::from_i32(sum[i][j]), V::mul(V::set1_f32(x.scales[i][g]), scale), acc[i][j]);
      }
    }
    if constexpr (W::kMinima) {
      PREFIX_UNROLL
      for (int j = 0; j < NV; ++j) {
        const F minimum = w.minimum(g, column + j * V::kLanes);
        PREFIX_UNROLL
        for (int i = 0; i < MR; ++i)
          acc[i][j] = V::fma(V::set1_f32(x.scaled_sums[i][g]), minimum, acc[i][j]);
      }
    }
  }
}

// Vectors of columns beside each other, of MR rows: as registers allow.
template <class V, int MR>
constexpr int block_columns() {
  constexpr int kAll = kPanelColumns / V::kLanes;
  int vecs = kAll < 4 ? kAll : 4;
  while (vecs > 1 && 2 * MR * vecs > V::kAccumulators) vecs /= 2;
  return vecs;
}

// Few rows, all of k.
template <BlockLayout L, class V, int MR>
inline void multiply_stored(const BlockTileArgs& t) {
  constexpr int NV = block_columns<V, MR>();
  for (int column = 0; column < kPanelColumns; column += NV * V::kLanes) {
    typename V::F acc[MR][NV];
    PREFIX_UNROLL
    for (int i = 0; i < MR; ++i) {
      PREFIX_UNROLL
      for (int j = 0; j < NV; ++j) acc[i][j] = V::set1_f32(0);
    }
    Stored<L, V> w{t.panel};
    for (int64_t group = 0; group < t.x.groups(); group += L.groups) {
      multiply_groups<Stored<L, V>, V, MR, NV>(w, t, 0, {group, L.groups}, column, acc);
      w.unit += L.bytes();
    }
    PREFIX_UNROLL
    for (int i = 0; i < MR; ++i) {
      PREFIX_UNROLL
      for (int j = 0; j < NV; ++j)
        V::store_f32(t.c + i * t.ldc + column + j * V::kLanes, acc[i][j]);
    }
  }
}

template <class W, class V, int MR>
inline void multiply_plain(const W& w, const BlockTileArgs& t, int64_t row, GroupRange groups) {
  constexpr int NV = block_columns<V, MR>();
  for (int column = 0; column < kPanelColumns; column += NV * V::kLanes) {
    float* const c = t.c + row * t.ldc + column;
    typename V::F acc[MR][NV];
    PREFIX_UNROLL
    for (int i = 0; i < MR; ++i) {
      PREFIX_UNROLL
      for (int j = 0; j < NV; ++j)
        acc[i][j] = sums_before<V>(groups, c + i * t.ldc + j * V::kLanes);
    }
    multiply_groups<W, V, MR, NV>(w, t, row, groups, column, acc);
    PREFIX_UNROLL
    for (int i = 0; i < MR; ++i) {
      PREFIX_UNROLL
      for (int j = 0; j < NV; ++j) V::store_f32(c + i * t.ldc + j * V::kLanes, acc[i][j]);
    }
  }
}

// Of MR rows of x what is beside their codes, for a range of groups, in one place:
// one base, all else are constants of the code.
template <int MR>
struct NearScales {
  template <class W>
  NearScales(const W& w, const RowsOfX<MR>& x, int groups) {
    for (int g = 0; g < groups; ++g)
      for (int i = 0; i < MR; ++i) {
        scales[g][i] = x.scales[i][g];
        if constexpr (W::kMinima) scaled_sums[g][i] = x.scaled_sums[i][g];
        for (int half = 0; half < W::kHalves; ++half)
          firsts[g][half][i] = first_sum(w, x, i, g, half);
      }
  }

  float scales[kMaxUnitGroups][MR];
  float scaled_sums[kMaxUnitGroups][MR];
  int32_t firsts[kMaxUnitGroups][2][MR];
};

// Sums of small codes of a group, or of its half, by words: they stay in registers for all rows,
// and products of quads are added as words as long as they fit.
template <class W, class V, int MR>
inline void small_sums(const W& w, const RowsOfX<MR>& x, int g, int half, int column,
                       typename V::I (&sum)[MR]) {
  constexpr int kQuads = kGroupQuads / W::kHalves;
  typename V::I codes[kQuads];
  PREFIX_UNROLL
  for (int q = 0; q < kQuads; ++q) codes[q] = w.codes(g, half * kQuads + q, column);
  PREFIX_UNROLL
  for (int i = 0; i < MR; ++i) {
    const int8_t* const of_x = x.codes[i] + g * kGroupK + half * kQuads * 4;
    PREFIX_UNROLL
    for (int q = 0; q < kQuads; q += W::kTogether) {
      typename V::I words = V::byte_products(codes[q], V::broadcast(of_x + 4 * q));
      PREFIX_UNROLL
      for (int k = 1; k < W::kTogether; ++k)
        words = in_order(
            V::add_words(words, V::byte_products(codes[q + k], V::broadcast(of_x + 4 * (q + k)))));
      sum[i] = V::add(sum[i], V::pair_sums(words));
    }
  }
}

// Of codes of which not even two products fit a word, which become words before:
// those of x once for all columns.
template <class W, class V, int MR>
inline void large_sums(const W& w, const int16_t (&x)[MR][kMaxUnitK], int g, int column,
                       typename V::I (&sum)[MR]) {
  static_assert(W::kHalves == 1);
  PREFIX_UNROLL
  for (int quad = 0; quad < kGroupQuads; ++quad) {
    const typename V::I codes = w.codes(g, quad, column);
    const typename V::I even = V::even_bytes(codes), odd = V::odd_bytes(codes);
    PREFIX_UNROLL
    for (int i = 0; i < MR; ++i) {
      const int16_t* const pairs = x[i] + g * kGroupK + 4 * quad;
      sum[i] = in_order(V::add(sum[i], V::word_products(even, V::broadcast(pairs))));
      sum[i] = in_order(V::add(sum[i], V::word_products(odd, V::broadcast(pairs + 2))));
    }
  }
}

// Rows [row, row + MR) of a panel by words.
template <class W, class V, int MR>
inline void multiply_by_words(const W& w, const BlockTileArgs& t, int64_t row, GroupRange groups) {
  using I = typename V::I;
  using F = typename V::F;
  constexpr bool kSmall = W::kTogether > 0;
  const RowsOfX<MR> x(t, row, groups.first);
  const NearScales<MR> near(w, x, groups.count);
  alignas(64) int16_t wide[MR][kMaxUnitK];
  if constexpr (!kSmall) {
    for (int i = 0; i < MR; ++i) widen_quads<true>(x.codes[i], groups.count * kGroupK, wide[i]);
  }
  for (int column = 0; column < kPanelColumns; column += V::kLanes) {
    float* const c = t.c + row * t.ldc + column;
    F acc[MR];
    PREFIX_UNROLL
    for (int i = 0; i < MR; ++i) acc[i] = sums_before<V>(groups, c + i * t.ldc);
    for (int g = 0; g < groups.count; ++g) {
      PREFIX_UNROLL
      for (int half = 0; half < W::kHalves; ++half) {
        I sum[MR];
        PREFIX_UNROLL
        for (int i = 0; i < MR; ++i) sum[i] = V::set1(near.firsts[g][half][i]);
        if constexpr (kSmall) {
          small_sums<W, V, MR>(w, x, g, half, column, sum);
        } else {
          large_sums<W, V, MR>(w, wide, g, column, sum);
        }
        const F scale = w.scale(g, half, column);
        PREFIX_UNROLL
        for (int i = 0; i < MR; ++i)
          acc[i] =
              V::fma(V::from_i32(sum[i]), V::mul(V::set1_f32(near.scales[g][i]), scale), acc[i]);
      }
      if constexpr (W::kMinima) {
        const F minimum = w.minimum(g, column);
        PREFIX_UNROLL
        for (int i = 0; i < MR; ++i)
          acc[i] = V::fma(V::set1_f32(near.scaled_sums[g][i]), minimum, acc[i]);
      }
    }
    PREFIX_UNROLL
    for (int i = 0; i < MR; ++i) V::store_f32(c + i * t.ldc, acc[i]);
  }
}

template <class W, class V>
void multiply_plain_rows(const W& w, const BlockTileArgs& t, GroupRange groups) {
  each_row_block(t.rows, [&]<int MR>(int64_t row) {
    if constexpr (V::kByWords) {
      multiply_by_words<W, V, MR>(w, t, row, groups);
    } else {
      multiply_plain<W, V, MR>(w, t, row, groups);
    }
  });
}

// The groups of one unit behind those that `out` has already.
template <BlockLayout L, class V>
inline void take_apart(const std::byte* unit, int behind, PlainUnit& out) {
  const Stored<L, V> w{unit};
  for (int g = 0; g < L.groups; ++g) {
    PREFIX_UNROLL
    for (int quad = 0; quad < kGroupQuads; ++quad) {
      PREFIX_UNROLL
      for (int column = 0; column < kPanelColumns; column += V::kLanes)
        V::store(out.codes[behind + g][quad][column], w.codes(g, quad, column));
    }
    for (int column = 0; column < kPanelColumns; column += V::kLanes) {
      for (int half = 0; half < L.halves; ++half)
        V::store_f32(out.scales[behind + g][half] + column, w.scale(g, half, column));
      if constexpr (L.minima) V::store_f32(out.minima[behind + g] + column, w.minimum(g, column));
    }
  }
}

template <BlockLayout L, class V>
void multiply_many(const BlockTileArgs& t) {
  PlainUnit unit;
  const std::byte* from = t.panel;
  for (int64_t first = 0; first < t.x.groups();) {
    int count = 0;
    for (; count < kMaxUnitGroups && first + count < t.x.groups(); count += L.groups) {
      take_apart<L, V>(from, count, unit);
      from += L.bytes();
    }
    prefetch_lines(from, count / L.groups * L.bytes() / 64);  // what is next
    multiply_plain_rows<PlainOf<L, V>, V>({&unit, Stored<L, V>::offset()}, t, {first, count});
    first += count;
  }
}

template <BlockLayout L, class V>
void multiply_blocks(const BlockTileArgs& t) {
  switch (t.rows) {
    case 1:
      return multiply_stored<L, V, 1>(t);
    case 2:
      return multiply_stored<L, V, 2>(t);
    case 3:
      return multiply_stored<L, V, 3>(t);
    case 4:
      return multiply_stored<L, V, 4>(t);
    default:
      return multiply_many<L, V>(t);
  }
}

template <class V>
void multiply_block_tile(const BlockTileArgs& t) {
  static_assert(kFewBlockRows == 4 && kBlockTypes == 10);
#define PREFIX_BLOCK_TYPE(type) \
  case BlockType::type:         \
    return multiply_blocks<layout_of(BlockType::type), V>(t)
  switch (t.type) {
    PREFIX_BLOCK_TYPE(kQ8_0);
    PREFIX_BLOCK_TYPE(kQ4_0);
    PREFIX_BLOCK_TYPE(kQ4_1);
    PREFIX_BLOCK_TYPE(kQ5_0);
    PREFIX_BLOCK_TYPE(kQ5_1);
    PREFIX_BLOCK_TYPE(kIQ4_NL);
    PREFIX_BLOCK_TYPE(kQ4_K);
    PREFIX_BLOCK_TYPE(kQ5_K);
    PREFIX_BLOCK_TYPE(kQ6_K);
    PREFIX_BLOCK_TYPE(kMXFP4);
  }
#undef PREFIX_BLOCK_TYPE
}

}  // namespace
}  // namespace prefix::ops
