// Vector functions over the Simd of a level (simd.h): exp2, exp, SiLU, sums.
//
// One polynomial for all levels, the same in each lane; sums add the lanes in one fixed order.
// Everything is in an unnamed namespace because Simd means other code in other levels.
#pragma once

#include <cstdint>

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

// The lanes added in ascending pairs: ((0 + 1) + (2 + 3)) + ...
inline float vec_sum(Simd::F x) {
  float lanes[Simd::kLanes];
  Simd::store(lanes, x);
  for (int step = 1; step < Simd::kLanes; step *= 2)
    for (int i = 0; i + step < Simd::kLanes; i += 2 * step) lanes[i] += lanes[i + step];
  return lanes[0];
}

inline float vec_max(Simd::F x) {
  float lanes[Simd::kLanes];
  Simd::store(lanes, x);
  for (int step = Simd::kLanes / 2; step > 0; step /= 2)
    for (int i = 0; i < step; ++i)
      lanes[i] = lanes[i] > lanes[i + step] ? lanes[i] : lanes[i + step];
  return lanes[0];
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
