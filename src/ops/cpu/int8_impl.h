// The products of whole numbers of a level (int8_lanes.h): which of their variants its table has.
#pragma once

#include <cstdint>

#include "ops/cpu/blocks_impl.h"
#include "ops/cpu/gemm_impl.h"
#include "ops/cpu/int8_lanes.h"
#include "ops/cpu/quads.h"
#include "ops/cpu/values_impl.h"
#include "ops/cpu/winograd_impl.h"
#if defined(PREFIX_NEON)
#include "ops/cpu/int8_neon.h"
#endif

namespace prefix::ops {
namespace {

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
#if defined(PREFIX_NEON)
  g.tile_int8 = multiply_int8_tile;
  g.tile_values = multiply_value_tile_by_element;
  g.peak_int8 = register_peak<Int8Quads>;
#else
  g.tile_int8 = multiply_tile<Int8ByPairs>;
  g.tile_values = multiply_value_tile<ValuesByPairs>;
  g.peak_int8 = register_peak<Int8ByPairs>;
#endif
#if defined(__AVX2__)
  g.widen_quads = widen_quads<true>;
#if !defined(__AVX512BW__)
  g.tile_int8 = multiply_winograd_tile;
  g.tile_values = multiply_winograd_value_tile;
  g.int8_finish_rows = 4 * kFinishRows;  // that share panels taken apart
  g.peak_int8 = register_peak<Int8ByWinograd>;
#endif
#endif
}

#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
// What processors with vpdpbusd have instead.
inline void add_vnni_kernels(GemmKernels& g) {
  g.tile_int8 = multiply_tile<Int8ByVnni>;
  g.widen_quads = nullptr;
  g.int8_finish_rows = kFinishRows;
  g.tile_blocks = multiply_block_tile<BlockLanes>;
  g.tile_values = multiply_value_tile<ValuesByVnni>;
  g.peak_int8 = register_peak<Int8ByVnni>;
}
#endif

}  // namespace
}  // namespace prefix::ops
