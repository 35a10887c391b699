// Vector functions over the Simd of a level (simd.h): exp2, exp, SiLU, GELU, the clamped SwiGLU,
// sigmoid, tanh, sums.
//
// One polynomial for all levels, the same in each lane; sums add the lanes in one fixed order.
// Everything is in an unnamed namespace because Simd means other code in other levels.
#pragma once

#include <cstdint>

#include "ops/activation.h"
#include "ops/cpu/simd.h"

namespace prefix::ops {
namespace {

// 2^x with x clamped to [-127, 127]; exactly 0 from -127 down (so a score of -infinity weighs
// nothing), exactly 1 at 0, NaN for NaN. With n = round(x), 2^(x - n) on [-0.5, 0.5] is
// 1 + f (c1 + f (c2 + ..)), a minimax fit of the relative error (9.2e-8, about one unit in the last
// place).
inline Simd::F vec_exp2(Simd::F x) {
  x = Simd::min(Simd::set1(127.0f), Simd::max(Simd::set1(-127.0f), x));
  const Simd::F n = Simd::round(x);
  const Simd::F f = Simd::sub(x, n);
  Simd::F p = Simd::set1(0x1.5bba08p-10f);
  p = Simd::fma(p, f, Simd::set1(0x1.3cea88p-7f));
  p = Simd::fma(p, f, Simd::set1(0x1.c6b752p-5f));
  p = Simd::fma(p, f, Simd::set1(0x1.ebf9bcp-3f));
  p = Simd::fma(p, f, Simd::set1(0x1.62e42ap-1f));
  p = Simd::fma(p, f, Simd::set1(1.0f));
  return Simd::mul(p, Simd::pow2(n));
}

inline Simd::F vec_exp(Simd::F x) {
  return vec_exp2(Simd::mul(x, Simd::set1(0x1.715476p+0f)));  // log2 e
}

// x / (1 + e^-x)
inline Simd::F vec_silu(Simd::F x) {
  return Simd::div(x, Simd::add(Simd::set1(1.0f), vec_exp(Simd::sub(Simd::zero(), x))));
}

// "gelu_pytorch_tanh". As 1 + tanh u = 2 / (1 + e^-2u), it is x / (1 + e^-2u) with
// u = sqrt(2 / pi) (x + 0.044715 x^3).
inline Simd::F vec_gelu_tanh(Simd::F x) {
  const Simd::F inner = Simd::fma(Simd::mul(Simd::set1(0.044715f), Simd::mul(x, x)), x, x);
  const Simd::F exponent = Simd::mul(inner, Simd::set1(-1.5957691216f));  // -2 sqrt(2 / pi)
  return Simd::div(x, Simd::add(Simd::set1(1.0f), vec_exp(exponent)));
}

// ActivationFn::kClampedSwiglu. NaN for NaN: of two operands min() and max() give the second then.
inline Simd::F vec_clamped_swiglu(Simd::F gate, Simd::F up) {
  const Simd::F one = Simd::set1(1.0f), limit = Simd::set1(kSwigluLimit);
  gate = Simd::min(limit, gate);
  up = Simd::min(limit, Simd::max(Simd::set1(-kSwigluLimit), up));
  const Simd::F power = vec_exp(Simd::mul(gate, Simd::set1(-kSwigluAlpha)));
  return Simd::mul(Simd::div(gate, Simd::add(one, power)), Simd::add(up, one));
}

inline Simd::F vec_sigmoid(Simd::F x) {
  const Simd::F one = Simd::set1(1.0f);
  return Simd::div(one, Simd::add(one, vec_exp(Simd::sub(Simd::zero(), x))));
}

// tanh x = 1 - 2 / (1 + e^2x), and near 0, where that cancels,
// a minimax fit of odd powers (Cephes). NaN for NaN.
inline Simd::F vec_tanh(Simd::F x) {
  const Simd::F one = Simd::set1(1.0f);
  const Simd::F far =
      Simd::sub(one, Simd::div(Simd::set1(2.0f), Simd::add(one, vec_exp(Simd::add(x, x)))));
  const Simd::F z = Simd::mul(x, x);
  Simd::F p = Simd::set1(-5.70498872745e-3f);
  p = Simd::fma(p, z, Simd::set1(2.06390887954e-2f));
  p = Simd::fma(p, z, Simd::set1(-5.37397155531e-2f));
  p = Simd::fma(p, z, Simd::set1(1.33314422036e-1f));
  p = Simd::fma(p, z, Simd::set1(-3.33332819422e-1f));
  const Simd::F near = Simd::fma(Simd::mul(p, z), x, x);
  return Simd::below(z, Simd::set1(0.390625f), near, far);
}

// 2^x for softmax weights, x <= 127: as vec_exp2, with the instructions of AVX-512 where they
// exist: scalef takes 2^floor(x) straight from x, so the fit is of 2^f over [0, 1] (8.3e-8).
inline Simd::F vec_weight(Simd::F x) {
#if defined(__AVX512DQ__)
  const __mmask16 counts = _mm512_cmp_ps_mask(x, Simd::set1(-126.0f), _CMP_NLE_UQ);  // or NaN
  const Simd::F f = _mm512_maskz_reduce_ps(0xffff, x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  Simd::F p = Simd::set1(0x1.e974f4p-10f);
  p = Simd::fma(p, f, Simd::set1(0x1.277858p-7f));
  p = Simd::fma(p, f, Simd::set1(0x1.c91ce6p-5f));
  p = Simd::fma(p, f, Simd::set1(0x1.ebdb56p-3f));
  p = Simd::fma(p, f, Simd::set1(0x1.62e4bap-1f));
  p = Simd::fma(p, f, Simd::set1(1.0f));
  return _mm512_maskz_scalef_ps(counts, p, x);
#else
  return vec_exp2(x);
#endif
}

// 2^x for weights of 8 bits, 1 at 0, NaN for NaN; at least 2^-100, which is nothing beside a weight
// of 1. A fit of 1e-4, with the same bits at every level, as no power of two rounds above 2^-126.
// Times the scale of a value, unless that is below 2^-26, it is no number below the normal ones
// either: those take an Intel processor more than 100 cycles.
inline Simd::F vec_coarse_weight(Simd::F x) {
  x = Simd::max(Simd::set1(-100.0f), x);
#if defined(__AVX512DQ__)  // the same two numbers, which are exact, by fewer operations
  const Simd::F f =
      _mm512_maskz_reduce_ps(0xffff, x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const Simd::F n = Simd::sub(x, f);
#else
  x = Simd::min(Simd::set1(127.0f), x);
  const Simd::F n = Simd::round(x);
  const Simd::F f = Simd::sub(x, n);
#endif
  Simd::F p = Simd::set1(0x1.c2a218p-5f);
  p = Simd::fma(p, f, Simd::set1(0x1.f00c4cp-3f));
  p = Simd::fma(p, f, Simd::set1(0x1.62f5fap-1f));
  p = Simd::fma(p, f, Simd::set1(1.0f));
#if defined(__AVX512DQ__)
  return _mm512_maskz_scalef_ps(0xffff, p, n);
#else
  return Simd::mul(p, Simd::pow2(n));
#endif
}

// vec_sum and vec_max fold the upper half of the lanes onto the lower half until one is left.
#if defined(__AVX2__)
inline __m128 fold_to_four(__m256 x, bool max) {
  const __m128 low = _mm256_castps256_ps128(x);
  const __m128 high = _mm256_extractf128_ps(x, 1);
  return max ? _mm_max_ps(low, high) : _mm_add_ps(low, high);
}
inline float fold_to_one(__m128 x, bool max) {
  const __m128 high = _mm_movehl_ps(x, x);
  const __m128 two = max ? _mm_max_ps(x, high) : _mm_add_ps(x, high);
  const __m128 odd = _mm_movehdup_ps(two);
  return _mm_cvtss_f32(max ? _mm_max_ss(two, odd) : _mm_add_ss(two, odd));
}
#if defined(__AVX512DQ__)
inline __m256 fold_to_eight(__m512 x, bool max) {
  const __m256 low = _mm512_maskz_extractf32x8_ps(0xff, x, 0);
  const __m256 high = _mm512_maskz_extractf32x8_ps(0xff, x, 1);
  return max ? _mm256_max_ps(low, high) : _mm256_add_ps(low, high);
}
inline float vec_sum(__m512 x) {
  return fold_to_one(fold_to_four(fold_to_eight(x, false), false), false);
}
inline float vec_max(__m512 x) {
  return fold_to_one(fold_to_four(fold_to_eight(x, true), true), true);
}
#else
inline float vec_sum(__m256 x) { return fold_to_one(fold_to_four(x, false), false); }
inline float vec_max(__m256 x) { return fold_to_one(fold_to_four(x, true), true); }
#endif
#elif defined(PREFIX_NEON)
inline float vec_sum(LevelSimd::F x) {
  const float32x2_t two = vadd_f32(vget_low_f32(x), vget_high_f32(x));
  return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}
inline float vec_max(LevelSimd::F x) {
  const float32x2_t low = vget_low_f32(x), high = vget_high_f32(x);
  const float32x2_t two = vbsl_f32(vcgt_f32(low, high), low, high);
  const float even = vget_lane_f32(two, 0), odd = vget_lane_f32(two, 1);
  return even > odd ? even : odd;
}
#else
inline float vec_sum(LevelSimd::F x) {
  float lanes[LevelSimd::kLanes];
  LevelSimd::store(lanes, x);
  for (int n = LevelSimd::kLanes / 2; n > 0; n /= 2)
    for (int i = 0; i < n; ++i) lanes[i] += lanes[i + n];
  return lanes[0];
}
inline float vec_max(LevelSimd::F x) {
  float lanes[LevelSimd::kLanes];
  LevelSimd::store(lanes, x);
  for (int n = LevelSimd::kLanes / 2; n > 0; n /= 2)
    for (int i = 0; i < n; ++i) lanes[i] = lanes[i] > lanes[i + n] ? lanes[i] : lanes[i + n];
  return lanes[0];
}
#endif
#if defined(PREFIX_SAME_BITS)
inline float vec_sum(Simd::F x) { return vec_sum(Simd::fold(x, LevelSimd::add)); }
inline float vec_max(Simd::F x) { return vec_max(Simd::fold(x, LevelSimd::max)); }
#endif

// The largest lane of a vector without signs, as bits: NaN is more than infinity.
#if defined(__AVX2__)
inline uint32_t fold_bits(__m256i x) {
  __m128i four = _mm_max_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0xb1));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(four));
}
#if defined(__AVX512DQ__)
inline uint32_t vec_largest(__m512 x) {
  const __m512i bits = _mm512_castps_si512(x);
  return fold_bits(_mm256_max_epi32(_mm512_maskz_extracti32x8_epi32(0xff, bits, 0),
                                    _mm512_maskz_extracti32x8_epi32(0xff, bits, 1)));
}
#else
inline uint32_t vec_largest(__m256 x) { return fold_bits(_mm256_castps_si256(x)); }
#endif
#elif defined(PREFIX_NEON)
inline uint32_t vec_largest(LevelSimd::F x) { return vmaxvq_u32(vreinterpretq_u32_f32(x)); }
#else
inline uint32_t vec_largest(LevelSimd::F x) {
  uint32_t largest = 0;
  for (int i = 0; i < LevelSimd::kLanes; ++i) {
    const float lane = x[i];
    uint32_t bits;
    __builtin_memcpy(&bits, &lane, sizeof bits);
    largest = bits > largest ? bits : largest;
  }
  return largest;
}
#endif
#if defined(PREFIX_SAME_BITS)
inline uint32_t vec_largest(Simd::F x) {
  return vec_largest(Simd::fold(x, LevelSimd::max_magnitude));
}
#endif

// The largest lane of each of 8 vectors, in which no lane is negative.
inline void vec_maxima(const Simd::F* x, float* out) {
#if defined(__AVX512DQ__)
  __m256 pair[4], four[2];
  for (int i = 0; i < 4; ++i) {
    const __m256 a = fold_to_eight(x[2 * i], true), b = fold_to_eight(x[2 * i + 1], true);
    pair[i] = _mm256_max_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));  // a b a b
  }
  for (int i = 0; i < 2; ++i) {
    const __m256d a = _mm256_castps_pd(pair[2 * i]), b = _mm256_castps_pd(pair[2 * i + 1]);
    four[i] = _mm256_max_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(a, b)),
                            _mm256_castpd_ps(_mm256_unpackhi_pd(a, b)));
  }
  const __m256 low = _mm256_permute2f128_ps(four[0], four[1], 0x20);
  const __m256 high = _mm256_permute2f128_ps(four[0], four[1], 0x31);
  _mm256_storeu_ps(out, _mm256_max_ps(low, high));
#else
  for (int i = 0; i < 8; ++i) out[i] = vec_max(x[i]);
#endif
}

// The first n < kLanes floats, 0 in the other lanes.
inline Simd::F load_first(const float* p, int64_t n) {
  float lanes[Simd::kLanes] = {};
  for (int64_t i = 0; i < n; ++i) lanes[i] = p[i];
  return Simd::load(lanes);
}

inline void store_first(float* p, int64_t n, Simd::F x) {
  float lanes[Simd::kLanes];
  Simd::store(lanes, x);
  for (int64_t i = 0; i < n; ++i) p[i] = lanes[i];
}

}  // namespace
}  // namespace prefix::ops
