// Operations on rows in float64, for the tests of all devices.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "ops/attention_reference.h"

namespace prefix::ops::testing {

inline std::vector<float> random_values(int64_t n, float low, float high, Rng& rng) {
  std::vector<float> v(static_cast<size_t>(n));
  for (float& x : v) x = std::uniform_real_distribution<float>(low, high)(rng);
  return v;
}

inline double inverse_rms(const float* x, int64_t n, float eps) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * x[i];
  return 1 / std::sqrt(sum / static_cast<double>(n) + eps);
}

// What qkv() makes of a head of `part`, which has `heads` of size d side by side.
struct HeadVector {
  const float* part;
  int64_t heads, d;
  const float* weight = nullptr;  // null: not normed
  bool whole_width = false;       // normed over all heads
  const float* cos = nullptr;     // of its position; null: not rotated
  const float* sin = nullptr;
  int64_t half = 0;

  std::vector<double> of(int64_t head) const {
    const float* const x = part + head * d;
    std::vector<double> v(x, x + d);
    if (weight) {
      const double scale =
          whole_width ? inverse_rms(part, heads * d, 1e-6f) : inverse_rms(x, d, 1e-6f);
      for (int64_t i = 0; i < d; ++i) v[i] *= scale * weight[(whole_width ? head * d : 0) + i];
    }
    for (int64_t i = 0; cos && i < half; ++i) {
      const double a = v[i], b = v[i + half];
      v[i] = a * cos[i] - b * sin[i];
      v[i + half] = b * cos[i] + a * sin[i];
    }
    return v;
  }
};

}  // namespace prefix::ops::testing
