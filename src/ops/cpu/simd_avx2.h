// Vectors of the avx2 level: 8 lanes of f32 with FMA. Same interface as simd_scalar.h (see simd.h).
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace prefix::ops {
namespace {

struct LevelSimd {
  using F = __m256;
  static constexpr int kLanes = 8;

  static F set1(float x) { return _mm256_set1_ps(x); }
  static F zero() { return _mm256_setzero_ps(); }
  static F load(const float* p) { return _mm256_loadu_ps(p); }
  static void store(float* p, F v) { _mm256_storeu_ps(p, v); }
  static F add(F a, F b) { return _mm256_add_ps(a, b); }
  static F sub(F a, F b) { return _mm256_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static F div(F a, F b) { return _mm256_div_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  static F min(F a, F b) { return _mm256_min_ps(a, b); }
  static F max(F a, F b) { return _mm256_max_ps(a, b); }
  // a < b ? x : y, of each lane.
  static F below(F a, F b, F x, F y) {
    return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
  }
  static F round(F x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static F pow2(F n) {
    const __m256i biased = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23));
  }
  // Of numbers that are not negative.
  static F max_positive(F a, F b) { return max(a, b); }
  // The larger of `largest`, which has no sign, and the magnitude of v; more than infinity is NaN.
  static F max_magnitude(F largest, F v) {
    const __m256i mask = _mm256_set1_epi32(0x7fffffff);
    return _mm256_castsi256_ps(_mm256_max_epi32(_mm256_castps_si256(largest),
                                                _mm256_and_si256(_mm256_castps_si256(v), mask)));
  }
  // (a, b) -> (a + b, a - b) of each two lanes that are kStride apart.
  template <int kStride>
  static F butterfly(F x) {
    constexpr int kSecond = kStride == 4 ? 0xf0 : kStride == 2 ? 0xcc : 0xaa;
    F other;
    if constexpr (kStride == 4) {
      other = _mm256_permute2f128_ps(x, x, 0x01);
    } else {
      other = _mm256_permute_ps(x, kStride == 2 ? 0x4e : 0xb1);
    }
    return _mm256_blend_ps(_mm256_add_ps(x, other), _mm256_sub_ps(other, x), kSecond);
  }
  // Whole numbers within a byte.
  static void store_i8(int8_t* p, F v) {
    const __m256i whole = _mm256_cvtps_epi32(v);
    const __m128i words =
        _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(words, words));
  }
  // Four vectors of numbers within a byte, rounded to nearest even.
  static void store_i8(int8_t* p, F a, F b, F c, F d) {
    store_halves(p, _mm256_packs_epi16(words(a, b), words(c, d)));
  }
  // n: a multiple of 32.
  static int32_t sum_i8(const int8_t* p, int64_t n) {
    __m256i sum = _mm256_setzero_si256();
    for (int64_t i = 0; i < n; i += 32) {
      const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + i));
      const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes);
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
    }
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1)));
  }
  // Numbers from 0 to 255, rounded to nearest even; anything for others.
  static void store_u8(uint8_t* p, F a, F b, F c, F d) {
    store_halves(p, _mm256_packus_epi16(words(a, b), words(c, d)));
  }
  static F from_i32(__m256i whole) { return _mm256_cvtepi32_ps(whole); }
  // Whole numbers of 32 bits less `from_each`, as f32.
  static F load_i32(const void* p, int32_t from_each) {
    const __m256i whole = _mm256_loadu_si256(static_cast<const __m256i*>(p));
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(whole, _mm256_set1_epi32(from_each)));
  }
  static F pair_even(const uint16_t* p) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(bits, 16));
  }
  static F pair_odd(const uint16_t* p) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    const __m256i high = _mm256_set1_epi32(static_cast<int>(0xffff0000));
    return _mm256_castsi256_ps(_mm256_and_si256(bits, high));
  }
  static F load_bf16(const uint16_t* p) {
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
  }
  static void store_bf16(uint16_t* p, F v) {
    const __m256i u = _mm256_castps_si256(v);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    const __m256i up = _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    const __m256i rounded =
        _mm256_srli_epi32(_mm256_blendv_epi8(up, _mm256_set1_epi32(0x7fc00000), nan), 16);
    const __m128i packed =
        _mm_packus_epi32(_mm256_castsi256_si128(rounded), _mm256_extracti128_si256(rounded, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), packed);
  }

 private:
  static __m256i words(F a, F b) {
    return _mm256_packs_epi32(_mm256_cvtps_epi32(a), _mm256_cvtps_epi32(b));
  }
  // Bytes packed from four vectors: a half of each pair lies in each half.
  static void store_halves(void* p, __m256i bytes) {
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    _mm256_storeu_si256(static_cast<__m256i*>(p), _mm256_permutevar8x32_epi32(bytes, order));
  }
};

}  // namespace
}  // namespace prefix::ops
