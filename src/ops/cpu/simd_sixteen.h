// Vectors of 16 lanes made of several of a level's own, in order. Same interface as simd_scalar.h.
#pragma once

#include <cstdint>

#include "ops/cpu/unroll.h"

namespace prefix::ops {
namespace {

template <class S>
struct SixteenLanes {
  static constexpr int kLanes = 16;
  static constexpr int kParts = kLanes / S::kLanes;
  static_assert(kParts > 1);

  struct F {
    typename S::F part[kParts];
  };

  static F set1(float x) {
    return make([&](int) { return S::set1(x); });
  }
  static F zero() {
    return make([](int) { return S::zero(); });
  }
  static F load(const float* p) {
    return make([&](int i) { return S::load(p + i * S::kLanes); });
  }
  static void store(float* p, F v) {
    each([&](int i) { S::store(p + i * S::kLanes, v.part[i]); });
  }
  static F add(F a, F b) {
    return make([&](int i) { return S::add(a.part[i], b.part[i]); });
  }
  static F sub(F a, F b) {
    return make([&](int i) { return S::sub(a.part[i], b.part[i]); });
  }
  static F mul(F a, F b) {
    return make([&](int i) { return S::mul(a.part[i], b.part[i]); });
  }
  static F div(F a, F b) {
    return make([&](int i) { return S::div(a.part[i], b.part[i]); });
  }
  static F fma(F a, F b, F c) {
    return make([&](int i) { return S::fma(a.part[i], b.part[i], c.part[i]); });
  }
  static F min(F a, F b) {
    return make([&](int i) { return S::min(a.part[i], b.part[i]); });
  }
  static F max(F a, F b) {
    return make([&](int i) { return S::max(a.part[i], b.part[i]); });
  }
  static F below(F a, F b, F x, F y) {
    return make([&](int i) { return S::below(a.part[i], b.part[i], x.part[i], y.part[i]); });
  }
  static F round(F x) {
    return make([&](int i) { return S::round(x.part[i]); });
  }
  static F pow2(F n) {
    return make([&](int i) { return S::pow2(n.part[i]); });
  }
  static F max_positive(F a, F b) {
    return make([&](int i) { return S::max_positive(a.part[i], b.part[i]); });
  }
  static F max_magnitude(F largest, F v) {
    return make([&](int i) { return S::max_magnitude(largest.part[i], v.part[i]); });
  }
  template <int kStride>
  static F butterfly(F x) {
    if constexpr (kStride < S::kLanes) {
      return make([&](int i) { return S::template butterfly<kStride>(x.part[i]); });
    } else {
      constexpr int kApart = kStride / S::kLanes;
      return make([&](int i) {
        return (i & kApart) == 0 ? S::add(x.part[i], x.part[i ^ kApart])
                                 : S::sub(x.part[i ^ kApart], x.part[i]);
      });
    }
  }
  static void store_i8(int8_t* p, F v) {
    each([&](int i) { S::store_i8(p + i * S::kLanes, v.part[i]); });
  }
  static void store_i8(int8_t* p, F a, F b, F c, F d) {
    each_four(a, b, c, d, [&](int64_t at, auto... v) { S::store_i8(p + at, v...); });
  }
  static void store_u8(uint8_t* p, F a, F b, F c, F d) {
    each_four(a, b, c, d, [&](int64_t at, auto... v) { S::store_u8(p + at, v...); });
  }
  static int32_t sum_i8(const int8_t* p, int64_t n) { return S::sum_i8(p, n); }
  static F load_i32(const void* p, int32_t from_each) {
    const auto* const whole = static_cast<const int32_t*>(p);
    return make([&](int i) { return S::load_i32(whole + i * S::kLanes, from_each); });
  }
  static F pair_even(const uint16_t* p) {
    return make([&](int i) { return S::pair_even(p + 2 * i * S::kLanes); });
  }
  static F pair_odd(const uint16_t* p) {
    return make([&](int i) { return S::pair_odd(p + 2 * i * S::kLanes); });
  }
  static F load_bf16(const uint16_t* p) {
    return make([&](int i) { return S::load_bf16(p + i * S::kLanes); });
  }
  static void store_bf16(uint16_t* p, F v) {
    each([&](int i) { S::store_bf16(p + i * S::kLanes, v.part[i]); });
  }

  // The upper half of the lanes folded onto the lower half until a vector of the level is left.
  template <class Fold>
  [[gnu::always_inline]] static typename S::F fold(F x, const Fold& two) {
    PREFIX_UNROLL
    for (int n = kParts / 2; n > 0; n /= 2) {
      PREFIX_UNROLL
      for (int i = 0; i < n; ++i) x.part[i] = two(x.part[i], x.part[i + n]);
    }
    return x.part[0];
  }

 private:
  template <class Part>
  [[gnu::always_inline]] static void each(const Part& part) {
    PREFIX_UNROLL
    for (int i = 0; i < kParts; ++i) part(i);
  }
  // Four of the level's own vectors at a time, and the number of bytes before them.
  template <class Four>
  [[gnu::always_inline]] static void each_four(F a, F b, F c, F d, const Four& four) {
    const F all[] = {a, b, c, d};
    const auto part = [&](int i) { return all[i / kParts].part[i % kParts]; };
    each([&](int i) {
      four(4 * i * S::kLanes, part(4 * i), part(4 * i + 1), part(4 * i + 2), part(4 * i + 3));
    });
  }
  template <class Part>
  [[gnu::always_inline]] static F make(const Part& part) {
    F v;
    each([&](int i) __attribute__((always_inline)) { v.part[i] = part(i); });
    return v;
  }
};

}  // namespace
}  // namespace prefix::ops
