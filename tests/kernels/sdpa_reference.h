// A dense segment of attention (SdpaArgs) in float64, on memory of the host.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "ops/cpu/pack.h"
#include "ops/gpu/launch.h"

namespace prefix::ops::gpu {

inline void sdpa_reference(const SdpaArgs& a) {
  const SdpaShape& s = a.shape;
  const auto at = [](const void* data, int64_t i) {
    return static_cast<double>(f32_from_bf16(static_cast<const uint16_t*>(data)[i]));
  };
  const int64_t d = s.head_dim, ld_kv = s.kv_heads * d;
  std::vector<double> weights(static_cast<size_t>(s.keys)), o(static_cast<size_t>(d));
  for (int64_t h = 0; h < s.heads; ++h) {
    const int64_t kv = h / (s.heads / s.kv_heads) * d;
    for (int64_t r = 0; r < s.rows; ++r) {
      const int64_t q = r * s.ld_q + h * d;
      const int64_t keys = s.causal ? s.keys - s.rows + r + 1 : s.keys;
      double top = -std::numeric_limits<double>::infinity(), sum = 0;
      for (int64_t k = 0; k < keys; ++k) {
        double score = 0;
        for (int64_t i = 0; i < d; ++i) score += at(a.q, q + i) * at(a.k, k * ld_kv + kv + i);
        weights[static_cast<size_t>(k)] = score * static_cast<double>(a.scale);
        top = std::max(top, weights[static_cast<size_t>(k)]);
      }
      std::fill(o.begin(), o.end(), 0.0);
      for (int64_t k = 0; k < keys; ++k) {
        const double weight = std::exp(weights[static_cast<size_t>(k)] - top);
        sum += weight;
        for (int64_t i = 0; i < d; ++i)
          o[static_cast<size_t>(i)] += weight * at(a.v, k * ld_kv + kv + i);
      }
      a.sums[h * s.rows + r] = static_cast<float>(top + std::log(sum));
      for (int64_t i = 0; i < d; ++i)
        static_cast<uint16_t*>(a.o)[r * s.ld_o + h * d + i] =
            bf16_from_f32(static_cast<float>(o[static_cast<size_t>(i)] / sum));
    }
  }
}

}  // namespace prefix::ops::gpu
