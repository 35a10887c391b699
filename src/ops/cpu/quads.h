// Quads: four bytes of whole numbers, which the products of a lane take together, and what those
// have in common whichever factor has signs.
#pragma once

#include <cstdint>

#include "ops/cpu/attention_kernels.h"
#include "ops/cpu/simd.h"

namespace prefix::ops {
namespace {

// Bytes to the first quad of a column in the values of a page.
constexpr int64_t value_column(int64_t column) {
  return column / 32 * kValuePanel + column % 32 * 4;
}

inline int32_t quad_of(const void* p) {
  int32_t quad;
  __builtin_memcpy(&quad, p, sizeof quad);
  return quad;
}

#if defined(__AVX2__)

// Bytes as 16 bits, the numbers of each quad in the order 0, 2, 1, 3: a broadcast takes a load
// alone then. `count` is a multiple of 32.
template <bool kSigned>
inline void widen_quads(const void* from, int64_t count, int16_t* to) {
  for (int64_t k = 0; k < count; k += 32) {
    const __m256i quads =
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(static_cast<const int8_t*>(from) + k));
    const __m256i even = kSigned ? _mm256_srai_epi16(_mm256_slli_epi16(quads, 8), 8)
                                 : _mm256_and_si256(quads, _mm256_set1_epi16(0xff));
    const __m256i odd = kSigned ? _mm256_srai_epi16(quads, 8) : _mm256_srli_epi16(quads, 8);
    const __m256i first = _mm256_unpacklo_epi32(even, odd);   // quads 0, 1, 4, 5
    const __m256i second = _mm256_unpackhi_epi32(even, odd);  // quads 2, 3, 6, 7
    auto* const out = reinterpret_cast<__m256i*>(to + k);
    _mm256_storeu_si256(out, _mm256_permute2x128_si256(first, second, 0x20));
    _mm256_storeu_si256(out + 1, _mm256_permute2x128_si256(first, second, 0x31));
  }
}

inline __m256i load_whole(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}

// A sum as it is, in a register: g++ 12 would first add the products of all phases to each other,
// and keeps sums of vpdpbusd that a loop carries in memory.
template <class Vec>
inline Vec in_order(Vec sum) {
#if defined(__AVX512F__)
  asm("" : "+v"(sum));
#else
  asm("" : "+x"(sum));
#endif
  return sum;
}

#elif defined(PREFIX_NEON)

#if defined(__ARM_FEATURE_DOTPROD)
inline constexpr bool kDotProducts = true;
#else
inline constexpr bool kDotProducts = false;
#endif

inline int8x16_t broadcast_quad(const void* p) {
  return vreinterpretq_s8_s32(vdupq_n_s32(quad_of(p)));
}
// c + the products of the quads of each lane. Without sdot two products are added in 16 bits, so at
// most one of the factors is -128 anywhere.
inline int32x4_t dot_quads(int32x4_t c, int8x16_t a, int8x16_t b) {
#if defined(__ARM_FEATURE_DOTPROD)
  return vdotq_s32(c, a, b);
#else
  const int16x8_t left = vmull_s8(vget_low_s8(a), vget_low_s8(b)), right = vmull_high_s8(a, b);
  return vpadalq_s16(c, vpaddq_s16(left, right));
#endif
}

#else

// Two 16-bit numbers a lane. The product of a signed and an unsigned byte fits 16 bits (-128 x
// 255), and processors without vectors of 32-bit products have those of 16.
typedef int16_t Pairs __attribute__((vector_size(16)));
inline Pairs pair(int32_t x, int32_t y) {
  const int32_t both = (x & 0xffff) | y << 16;
  return reinterpret_cast<Pairs>(LevelSimd::I{both, both, both, both});
}
inline LevelSimd::I add_products(LevelSimd::I c, Pairs a, Pairs b) {
  using Words = LevelSimd::U;  // whose sums wrap
  const auto products = reinterpret_cast<LevelSimd::I>(a * b);
  const auto even = reinterpret_cast<Words>((products << 16) >> 16);
  const auto odd = reinterpret_cast<Words>(products >> 16);
  return reinterpret_cast<LevelSimd::I>(reinterpret_cast<Words>(c) + even + odd);
}

#endif

}  // namespace
}  // namespace prefix::ops
