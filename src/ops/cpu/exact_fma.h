// a * b + c in f32, rounded once, for processors without such an instruction.
#pragma once

#include <cstdint>

namespace prefix::ops {
namespace {

// The product is exact in double precision, and so is what the sum leaves out (Knuth's two-sum). A
// sum that is not exact is taken to the neighbour with an odd last bit (Boldo and Melquiond 2008):
// f32 then rounds it as it would round the exact sum.
inline float exact_fma(float a, float b, float c) {
#if defined(__FP_FAST_FMAF)
  return __builtin_fmaf(a, b, c);
#else
  const double product = static_cast<double>(a) * b;
  double sum = product + c;
  const double part = sum - product;
  const double left = (product - (sum - part)) + (c - part);
  uint64_t bits;
  __builtin_memcpy(&bits, &sum, sizeof bits);
  const bool inexact = left < 0 || left > 0;  // false for NaN, which infinities leave
  if (inexact && (bits & 1) == 0) bits += (left > 0) == (sum > 0) ? 1 : ~uint64_t{0};
  __builtin_memcpy(&sum, &bits, sizeof sum);
  return static_cast<float>(sum);
#endif
}

}  // namespace
}  // namespace prefix::ops
