// The vector type `Simd` of the level that the including file is compiled for:
// LevelSimd, the level's own. Files of the neon level define PREFIX_NEON: aarch64 has no processors
// without it, so no flag tells them from those of the scalar level.
//
// With PREFIX_SAME_BITS it has 16 lanes at every level, several of the level's vectors in a row,
// and fma() rounds once: what is written over Simd then has the same bits at every level, sums over
// lanes included.
#pragma once

#if defined(__AVX512F__)
#include "ops/cpu/simd_avx512.h"
#elif defined(__AVX2__)
#include "ops/cpu/simd_avx2.h"
#elif defined(PREFIX_NEON)
#include "ops/cpu/simd_neon.h"
#else
#include "ops/cpu/simd_scalar.h"
#endif
#if defined(PREFIX_SAME_BITS)
#include "ops/cpu/simd_sixteen.h"
#endif

namespace prefix::ops {
namespace {

#if defined(PREFIX_SAME_BITS)
using Simd = SixteenLanes<LevelSimd>;
#else
using Simd = LevelSimd;
#endif

}  // namespace
}  // namespace prefix::ops
