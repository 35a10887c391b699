// Vectors of the scalar level: GCC vector extensions, 4 lanes, any architecture.
//
// fma() rounds twice here, except for same bits (simd.h): the level is the portable reference and
// must not call into libm. All names live in an unnamed namespace because the same names mean other
// code in other levels.
#pragma once

#include <cstdint>

#if defined(PREFIX_SAME_BITS)
#include "ops/cpu/exact_fma.h"
#endif

namespace prefix::ops {
namespace {

struct LevelSimd {
  typedef float F __attribute__((vector_size(16)));
  typedef int32_t I __attribute__((vector_size(16)));
  typedef uint32_t U __attribute__((vector_size(16)));
  static constexpr int kLanes = 4;

  static F set1(float x) { return F{x, x, x, x}; }
  static F zero() { return F{0, 0, 0, 0}; }
  static F load(const float* p) {
    F v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
  }
  static void store(float* p, F v) { __builtin_memcpy(p, &v, sizeof v); }
  static F add(F a, F b) { return a + b; }
  static F sub(F a, F b) { return a - b; }
  static F mul(F a, F b) { return a * b; }
  static F div(F a, F b) { return a / b; }
#if defined(PREFIX_SAME_BITS)
  // Not inlined: it is long, and a tile has dozens of calls.
  [[gnu::noinline]] static F fma(F a, F b, F c) {
    return F{exact_fma(a[0], b[0], c[0]), exact_fma(a[1], b[1], c[1]), exact_fma(a[2], b[2], c[2]),
             exact_fma(a[3], b[3], c[3])};
  }
#else
  static F fma(F a, F b, F c) { return a * b + c; }
#endif
  // The second operand wins if either is NaN, as in minps and maxps.
  static F min(F a, F b) { return select(a < b, a, b); }
  static F max(F a, F b) { return select(a > b, a, b); }
  // a < b ? x : y, of each lane.
  static F below(F a, F b, F x, F y) { return select(a < b, x, y); }
  // To the nearest integer, ties to even; |x| < 2^22.
  static F round(F x) {
    const F magic = set1(12582912.0f);
    return (x + magic) - magic;
  }
  // 2^n for an integer n in [-126, 127]; 0 at -127, infinity at 128.
  static F pow2(F n) {
    const I bits = (__builtin_convertvector(n, I) + 127) << 23;
    return reinterpret_cast<F>(bits);
  }
  // Of numbers that are not negative.
  static F max_positive(F a, F b) { return max(a, b); }
  // The larger of `largest`, which has no sign, and the magnitude of v; more than infinity is NaN.
  static F max_magnitude(F largest, F v) {
    const I left = reinterpret_cast<I>(largest), right = reinterpret_cast<I>(v) & 0x7fffffff;
    return select(left > right, largest, reinterpret_cast<F>(right));
  }
  // (a, b) -> (a + b, a - b) of each two lanes that are kStride apart.
  template <int kStride>
  static F butterfly(F x) {
    F y;
    for (int i = 0; i < kLanes; ++i) {
      const float other = x[i ^ kStride];
      y[i] = (i & kStride) == 0 ? x[i] + other : other - x[i];
    }
    return y;
  }
  // Whole numbers within a byte.
  static void store_i8(int8_t* p, F v) {
    for (int i = 0; i < kLanes; ++i) p[i] = static_cast<int8_t>(v[i]);
  }
  // Four vectors of numbers within a byte, rounded to nearest even.
  static void store_i8(int8_t* p, F a, F b, F c, F d) {
    store_i8(p, round(a));
    store_i8(p + kLanes, round(b));
    store_i8(p + 2 * kLanes, round(c));
    store_i8(p + 3 * kLanes, round(d));
  }
  // n: a multiple of 32.
  static int32_t sum_i8(const int8_t* p, int64_t n) {
    int32_t sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += p[i];
    return sum;
  }
  // Numbers from 0 to 255, rounded to nearest even; anything for others.
  static void store_u8(uint8_t* p, F a, F b, F c, F d) {
    const F all[] = {round(a), round(b), round(c), round(d)};
    for (int i = 0; i < 4 * kLanes; ++i) {
      const float whole = all[i / kLanes][i % kLanes];
      p[i] = whole > 0 && whole < 256 ? static_cast<uint8_t>(whole) : 0;
    }
  }
  static F from_i32(I whole) { return __builtin_convertvector(whole, F); }
  // Whole numbers of 32 bits less `from_each`, which may wrap, as f32.
  static F load_i32(const void* p, int32_t from_each) {
    U whole;
    __builtin_memcpy(&whole, p, sizeof whole);
    return from_i32(reinterpret_cast<I>(whole - static_cast<uint32_t>(from_each)));
  }
  // The even (odd) members of kLanes pairs of bf16, as packed panels hold them.
  static F pair_even(const uint16_t* p) {
    I bits;
    __builtin_memcpy(&bits, p, sizeof bits);
    return reinterpret_cast<F>(bits << 16);
  }
  static F pair_odd(const uint16_t* p) {
    I bits;
    __builtin_memcpy(&bits, p, sizeof bits);
    return reinterpret_cast<F>(bits & static_cast<int32_t>(0xffff0000));
  }
  static F load_bf16(const uint16_t* p) {
    I bits;
    for (int i = 0; i < kLanes; ++i) bits[i] = static_cast<int32_t>(uint32_t{p[i]} << 16);
    return reinterpret_cast<F>(bits);
  }
  // Rounds to nearest even; NaN stays NaN.
  static void store_bf16(uint16_t* p, F v) {
    for (int i = 0; i < kLanes; ++i) {
      const float x = v[i];
      uint32_t u;
      __builtin_memcpy(&u, &x, sizeof u);
      p[i] =
          x != x ? uint16_t{0x7fc0} : static_cast<uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
    }
  }

 private:
  static F select(I mask, F a, F b) {
    return reinterpret_cast<F>((mask & reinterpret_cast<I>(a)) | (~mask & reinterpret_cast<I>(b)));
  }
};

}  // namespace
}  // namespace prefix::ops
