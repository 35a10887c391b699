// Vectors of the AVX-512 levels: 16 lanes of f32. Same interface as simd_scalar.h (see simd.h).
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace prefix::ops {
namespace {

struct LevelSimd {
  using F = __m512;
  static constexpr int kLanes = 16;

  static F set1(float x) { return _mm512_set1_ps(x); }
  static F zero() { return _mm512_setzero_ps(); }
  static F load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, F v) { _mm512_storeu_ps(p, v); }
  static F add(F a, F b) { return _mm512_add_ps(a, b); }
  static F sub(F a, F b) { return _mm512_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F div(F a, F b) { return _mm512_div_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  // The maskz forms: g++ 12 warns about the undefined pass-through of the plain ones.
  static F min(F a, F b) { return _mm512_maskz_min_ps(0xffff, a, b); }
  static F max(F a, F b) { return _mm512_maskz_max_ps(0xffff, a, b); }
  // a < b ? x : y, of each lane.
  static F below(F a, F b, F x, F y) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
  }
  static F round(F x) {
    return _mm512_maskz_roundscale_ps(0xffff, x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  static F pow2(F n) {
    const __m512i whole = _mm512_maskz_cvtps_epi32(0xffff, n);
    const __m512i biased = _mm512_add_epi32(whole, _mm512_set1_epi32(127));
    return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(0xffff, biased, 23));
  }
  // Of numbers that are not negative; on units that have nothing else to do.
  static F max_positive(F a, F b) {
    return _mm512_castsi512_ps(
        _mm512_maskz_max_epi32(0xffff, _mm512_castps_si512(a), _mm512_castps_si512(b)));
  }
  // The larger of `largest`, which has no sign, and the magnitude of v; more than infinity is NaN.
  static F max_magnitude(F largest, F v) {
    const __m512i mask = _mm512_set1_epi32(0x7fffffff);
    return _mm512_castsi512_ps(_mm512_maskz_max_epi32(
        0xffff, _mm512_castps_si512(largest), _mm512_and_si512(_mm512_castps_si512(v), mask)));
  }
  // (a, b) -> (a + b, a - b) of each two lanes that are kStride apart.
  template <int kStride>
  static F butterfly(F x) {
    constexpr int kSecond = kStride == 8   ? 0xff00
                            : kStride == 4 ? 0xf0f0
                            : kStride == 2 ? 0xcccc
                                           : 0xaaaa;
    const F one = _mm512_set1_ps(1.0f);
    const F turns =
        _mm512_mask_sub_ps(one, static_cast<__mmask16>(kSecond), _mm512_setzero_ps(), one);
    F other;
    if constexpr (kStride >= 4) {
      other = _mm512_maskz_shuffle_f32x4(0xffff, x, x, kStride == 8 ? 0x4e : 0xb1);
    } else {
      other = _mm512_maskz_permute_ps(0xffff, x, kStride == 2 ? 0x4e : 0xb1);
    }
    return _mm512_fmadd_ps(x, turns, other);  // exact: x or -x
  }
  // Whole numbers within a byte.
  static void store_i8(int8_t* p, F v) {
    const __m512i whole = _mm512_maskz_cvtps_epi32(0xffff, v);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_maskz_cvtepi32_epi8(0xffff, whole));
  }
  // Four vectors of numbers within a byte, rounded to nearest even.
  static void store_i8(int8_t* p, F a, F b, F c, F d) {
    store_quarters(p, _mm512_packs_epi16(words(a, b), words(c, d)));
  }
  // n: a multiple of 32.
  static int32_t sum_i8(const int8_t* p, int64_t n) {
    __m512i sum = _mm512_setzero_si512();
    for (int64_t i = 0; i < n; i += 64) {
      const __m512i bytes = _mm512_maskz_loadu_epi8(n - i < 64 ? 0xffffffff : ~0ull, p + i);
      const __m512i pairs = _mm512_maddubs_epi16(_mm512_set1_epi8(1), bytes);
      sum = _mm512_add_epi32(sum, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
    }
    const __m256i eight = _mm256_add_epi32(_mm512_maskz_extracti32x8_epi32(0xff, sum, 0),
                                           _mm512_maskz_extracti32x8_epi32(0xff, sum, 1));
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1)));
  }
  // Numbers from 0 to 255, rounded to nearest even; anything for others.
  static void store_u8(uint8_t* p, F a, F b, F c, F d) {
    store_quarters(p, _mm512_packus_epi16(words(a, b), words(c, d)));
  }
  static F from_i32(__m512i whole) { return _mm512_maskz_cvtepi32_ps(0xffff, whole); }
  // Whole numbers of 32 bits less `from_each`, as f32.
  static F load_i32(const void* p, int32_t from_each) {
    const __m512i whole = _mm512_sub_epi32(_mm512_loadu_si512(p), _mm512_set1_epi32(from_each));
    return _mm512_maskz_cvtepi32_ps(0xffff, whole);
  }
  static F pair_even(const uint16_t* p) {
    const __m512i bits = _mm512_loadu_si512(p);
    return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(0xffff, bits, 16));
  }
  static F pair_odd(const uint16_t* p) {
    const __m512i bits = _mm512_loadu_si512(p);
    const __m512i high = _mm512_set1_epi32(static_cast<int>(0xffff0000));
    return _mm512_castsi512_ps(_mm512_and_si512(bits, high));
  }
  // Both of the above to where the last 16 bits of each number are 0, without an arithmetic unit.
  // Touches, but does not change, the two bytes behind `even`.
  static void widen_pairs(const uint16_t* p, float* even, float* odd) {
    const __m512i bits = _mm512_loadu_si512(p);
    _mm512_mask_storeu_epi16(reinterpret_cast<uint16_t*>(even) + 1, 0x55555555, bits);
    _mm512_mask_storeu_epi16(odd, 0xaaaaaaaa, bits);
  }
  static F load_bf16(const uint16_t* p) {
    const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    const __m512i wide = _mm512_maskz_cvtepu16_epi32(0xffff, half);
    return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(0xffff, wide, 16));
  }
  static void store_bf16(uint16_t* p, F v) {
#if defined(__AVX512BF16__)
    const __m256bh packed = _mm512_cvtneps_pbh(v);  // flushes denormals; else as below
    __builtin_memcpy(p, &packed, sizeof packed);
#else
    const __m512i u = _mm512_castps_si512(v);
    const __m512i one = _mm512_set1_epi32(1);
    const __m512i odd = _mm512_and_si512(_mm512_maskz_srli_epi32(0xffff, u, 16), one);
    const __m512i up = _mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    const __m512i fixed = _mm512_mask_mov_epi32(up, nan, _mm512_set1_epi32(0x7fc00000));
    const __m256i packed =
        _mm512_maskz_cvtepi32_epi16(0xffff, _mm512_maskz_srli_epi32(0xffff, fixed, 16));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), packed);
#endif
  }

 private:
  static __m512i words(F a, F b) {
    return _mm512_packs_epi32(_mm512_maskz_cvtps_epi32(0xffff, a),
                              _mm512_maskz_cvtps_epi32(0xffff, b));
  }
  // Bytes packed from four vectors: a quarter of each lies in each quarter.
  static void store_quarters(void* p, __m512i bytes) {
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    _mm512_storeu_si512(p, _mm512_maskz_permutexvar_epi32(0xffff, order, bytes));
  }
};

}  // namespace
}  // namespace prefix::ops
