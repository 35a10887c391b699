// Vectors of the neon level: 4 lanes of f32 with fused multiply-adds, which every processor of aarch64
// has. Same interface as simd_scalar.h (see simd.h).
//
// What vmaxq and vminq of floating point give for NaN differs from maxps and minps: a comparison and
// a selection give the second operand, as the other levels do.
#pragma once

#include <arm_neon.h>

#include <cstdint>

namespace prefix::ops {
namespace {

// 16 bytes of memory of any type.
template <class Vec>
[[gnu::always_inline]] inline Vec load_vector(const void* p) {
  Vec v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

struct LevelSimd {
  using F = float32x4_t;
  static constexpr int kLanes = 4;

  static F set1(float x) { return vdupq_n_f32(x); }
  static F zero() { return vdupq_n_f32(0); }
  static F load(const float* p) { return vld1q_f32(p); }
  static void store(float* p, F v) { vst1q_f32(p, v); }
  static F add(F a, F b) { return vaddq_f32(a, b); }
  static F sub(F a, F b) { return vsubq_f32(a, b); }
  static F mul(F a, F b) { return vmulq_f32(a, b); }
  static F div(F a, F b) { return vdivq_f32(a, b); }
  static F fma(F a, F b, F c) { return vfmaq_f32(c, a, b); }
  static F min(F a, F b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
  static F max(F a, F b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
  // a < b ? x : y, of each lane.
  static F below(F a, F b, F x, F y) { return vbslq_f32(vcltq_f32(a, b), x, y); }
  static F round(F x) { return vrndnq_f32(x); }
  static F pow2(F n) {
    const int32x4_t biased = vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127));
    return vreinterpretq_f32_s32(vshlq_n_s32(biased, 23));
  }
  // Of numbers that are not negative.
  static F max_positive(F a, F b) {
    return vreinterpretq_f32_s32(vmaxq_s32(vreinterpretq_s32_f32(a), vreinterpretq_s32_f32(b)));
  }
  // The larger of `largest`, which has no sign, and the magnitude of v; more than infinity is NaN.
  static F max_magnitude(F largest, F v) { return max_positive(largest, vabsq_f32(v)); }
  // (a, b) -> (a + b, a - b) of each two lanes that are kStride apart.
  template <int kStride>
  static F butterfly(F x) {
    static_assert(kStride == 1 || kStride == 2);
    constexpr uint64_t kMinus = uint64_t{1} << 63;
    const F other = kStride == 2 ? vextq_f32(x, x, 2) : vrev64q_f32(x);
    const uint64x2_t signs = kStride == 2
                                 ? vcombine_u64(vcreate_u64(0), vcreate_u64(kMinus | kMinus >> 32))
                                 : vdupq_n_u64(kMinus);
    const uint64x2_t signed_x = veorq_u64(vreinterpretq_u64_f32(x), signs);
    return vaddq_f32(other, vreinterpretq_f32_u64(signed_x));  // exact: x or -x
  }
  // Whole numbers within a byte.
  static void store_i8(int8_t* p, F v) {
    const int16x4_t words = vqmovn_s32(vcvtnq_s32_f32(v));
    const int8x8_t bytes = vqmovn_s16(vcombine_s16(words, words));
    __builtin_memcpy(p, &bytes, 4);
  }
  // Four vectors of numbers within a byte, rounded to nearest even.
  static void store_i8(int8_t* p, F a, F b, F c, F d) {
    vst1q_s8(p, vqmovn_high_s16(vqmovn_s16(words(a, b)), words(c, d)));
  }
  // n: a multiple of 32.
  static int32_t sum_i8(const int8_t* p, int64_t n) {
    int32x4_t sum = vdupq_n_s32(0);
    for (int64_t i = 0; i < n; i += 32) {
      const int16x8_t pairs = vpaddlq_s8(vld1q_s8(p + i));
      sum = vpadalq_s16(sum, vpadalq_s8(pairs, vld1q_s8(p + i + 16)));
    }
    return vaddvq_s32(sum);
  }
  // Numbers from 0 to 255, rounded to nearest even; anything for others.
  static void store_u8(uint8_t* p, F a, F b, F c, F d) {
    vst1q_u8(p, vqmovun_high_s16(vqmovun_s16(words(a, b)), words(c, d)));
  }
  static F from_i32(int32x4_t whole) { return vcvtq_f32_s32(whole); }
  // Whole numbers of 32 bits less `from_each`, which may wrap, as f32.
  static F load_i32(const void* p, int32_t from_each) {
    return from_i32(vsubq_s32(load_vector<int32x4_t>(p), vdupq_n_s32(from_each)));
  }
  static F pair_even(const uint16_t* p) {
    return vreinterpretq_f32_u32(vshlq_n_u32(load_vector<uint32x4_t>(p), 16));
  }
  static F pair_odd(const uint16_t* p) {
    const uint32x4_t high = vdupq_n_u32(0xffff0000);
    return vreinterpretq_f32_u32(vandq_u32(load_vector<uint32x4_t>(p), high));
  }
  static F load_bf16(const uint16_t* p) {
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
  }
  // Rounds to nearest even; NaN stays NaN.
  static void store_bf16(uint16_t* p, F v) {
    const uint32x4_t u = vreinterpretq_u32_f32(v);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(u, 16), vdupq_n_u32(1));
    const uint16x4_t rounded = vaddhn_u32(u, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
    const uint16x4_t number = vmovn_u32(vceqq_f32(v, v));
    vst1_u16(p, vbsl_u16(number, rounded, vdup_n_u16(0x7fc0)));
  }

 private:
  static int16x8_t words(F a, F b) {
    return vqmovn_high_s32(vqmovn_s32(vcvtnq_s32_f32(a)), vcvtnq_s32_f32(b));
  }
};

}  // namespace
}  // namespace prefix::ops
