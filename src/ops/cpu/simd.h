// The vector type `Simd` of the level that the including file is compiled for.
#pragma once

#if defined(__AVX512F__)
#include "ops/cpu/simd_avx512.h"
#elif defined(__AVX2__)
#include "ops/cpu/simd_avx2.h"
#else
#include "ops/cpu/simd_scalar.h"
#endif
