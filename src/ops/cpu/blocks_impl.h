// Products with weights in blocks (BlockTileArgs), over the vectors of the including level.
//
// A few rows read each code from memory once and take it apart in registers: bandwidth counts. More
// rows share a unit that is taken apart into L1 before, bytes and f32 scales: the same kernel reads it,
// and the same numbers meet in the same order.
//
//   panel in memory ── Stored ───────────────┐
//        └─ unpack ── unit of bytes ─ Plain ─┴─> multiply_groups: rows x vectors of columns
#pragma once

#include <cstdint>

#include "ops/cpu/block_kernels.h"
#include "ops/cpu/block_lanes.h"
#include "ops/cpu/gemm_kernels.h"
#include "ops/cpu/register_rows.h"
#include "ops/cpu/unroll.h"

namespace prefix::ops {
namespace {

// Up to so many rows take codes apart in registers.
inline constexpr int64_t kFewBlockRows = 4;

// A unit as it lies in the panel.
template <BlockLayout L, class V>
struct Stored {
  static constexpr int kHalves = L.halves;
  static constexpr bool kMinima = L.minima;
  // Codes up to 127, whose products with two of x fit 16 bits.
  static constexpr bool kSmall = L.low_bits == 4 && !L.table;
  static constexpr int kOffset = L.offset;
  const std::byte* unit;

  static constexpr int offset() { return L.offset; }

  // Four k in each lane, of kLanes columns.
  [[gnu::always_inline]] typename V::I codes(int group, int quad, int column) const {
    if constexpr (L.low_bits == 8) {
      return V::load(unit + group * L.low_bytes() + quad * 4 * kPanelColumns + 4 * column);
    } else {
      const typename V::I both =
          V::load(unit + group * L.low_bytes() + quad / 2 * 4 * kPanelColumns + 4 * column);
      typename V::I code = V::template bits<0x0f>(quad % 2 == 0 ? both : V::shifted(both, 4));
      if constexpr (L.table) code = V::look_up(code);
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
    const typename V::F d = V::half(unit + L.d_at() + 2 * column);
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

template <int Halves, bool Minima, bool Small, class V>
struct Plain {
  static constexpr int kHalves = Halves;
  static constexpr bool kMinima = Minima;
  static constexpr bool kSmall = Small;
  const PlainUnit* unit;
  int more;  // of each code

  int offset() const { return more; }
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
using PlainOf = Plain<L.halves, L.minima, L.low_bits == 4 && !L.table, V>;

// Groups [first, first + count) of x, in `unit` from 0 on.
struct GroupRange {
  int64_t first;
  int count;
};

// Rows [row, row + MR), columns [column, column + NV vectors): C goes on over a range of groups.
template <class W, class V, int MR, int NV>
inline void multiply_groups(const W& w, const BlockTileArgs& t, int64_t row, GroupRange groups,
                            int column, typename V::F (&acc)[MR][NV]) {
  using I = typename V::I;
  using F = typename V::F;
  const int8_t* x[MR];
  const float* scales[MR];
  const float* scaled_sums[MR];
  const int32_t* sums[MR];
  PREFIX_UNROLL
  for (int i = 0; i < MR; ++i) {
    const int64_t r = t.first_row + row + i;
    x[i] = t.x.codes(r) + groups.first * kGroupK;
    scales[i] = t.x.scales(r) + groups.first;
    scaled_sums[i] = t.x.scaled_sums(r) + groups.first;
    sums[i] = t.x.sums(r) + 2 * groups.first;
  }
  constexpr int kQuads = kGroupQuads / W::kHalves;  // that share a scale
  for (int g = 0; g < groups.count; ++g) {
    PREFIX_UNROLL
    for (int half = 0; half < W::kHalves; ++half) {
      I sum[MR][NV];
      PREFIX_UNROLL
      for (int i = 0; i < MR; ++i) {
        const int32_t of_x =
            W::kHalves == 2 ? sums[i][2 * g + half] : sums[i][2 * g] + sums[i][2 * g + 1];
        PREFIX_UNROLL
        for (int j = 0; j < NV; ++j) sum[i][j] = V::set1(-w.offset() * of_x);
      }
      PREFIX_UNROLL
      for (int q = 0; q < kQuads; ++q) {
        const int quad = half * kQuads + q;
        I b[NV];
        PREFIX_UNROLL
        for (int j = 0; j < NV; ++j) b[j] = w.codes(g, quad, column + j * V::kLanes);
        PREFIX_UNROLL
        for (int i = 0; i < MR; ++i) {
          const auto a = V::broadcast(x[i] + g * kGroupK + 4 * quad);
          PREFIX_UNROLL
          for (int j = 0; j < NV; ++j) sum[i][j] = V::template dot<W::kSmall>(sum[i][j], b[j], a);
        }
      }
      PREFIX_UNROLL
      for (int j = 0; j < NV; ++j) {
        const F scale = w.scale(g, half, column + j * V::kLanes);
        PREFIX_UNROLL
        for (int i = 0; i < MR; ++i)
          acc[i][j] =
              V::fma(V::from_i32(sum[i][j]), V::mul(V::set1_f32(scales[i][g]), scale), acc[i][j]);
      }
    }
    if constexpr (W::kMinima) {
      PREFIX_UNROLL
      for (int j = 0; j < NV; ++j) {
        const F minimum = w.minimum(g, column + j * V::kLanes);
        PREFIX_UNROLL
        for (int i = 0; i < MR; ++i)
          acc[i][j] = V::fma(V::set1_f32(scaled_sums[i][g]), minimum, acc[i][j]);
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
        acc[i][j] = groups.first == 0 ? V::set1_f32(0) : V::load_f32(c + i * t.ldc + j * V::kLanes);
    }
    multiply_groups<W, V, MR, NV>(w, t, row, groups, column, acc);
    PREFIX_UNROLL
    for (int i = 0; i < MR; ++i) {
      PREFIX_UNROLL
      for (int j = 0; j < NV; ++j) V::store_f32(c + i * t.ldc + j * V::kLanes, acc[i][j]);
    }
  }
}

template <class W, class V>
void multiply_plain_rows(const W& w, const BlockTileArgs& t, GroupRange groups) {
  each_row_block(t.rows, [&]<int MR>(int64_t row) { multiply_plain<W, V, MR>(w, t, row, groups); });
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
    multiply_plain_rows<PlainOf<L, V>, V>({&unit, L.offset}, t, {first, count});
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
  static_assert(kFewBlockRows == 4 && kBlockTypes == 9);
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
  }
#undef PREFIX_BLOCK_TYPE
}

}  // namespace
}  // namespace prefix::ops
