// What a gated product makes of its two halves, gate and up.
#pragma once

#include <cstdint>

namespace prefix::ops {

enum class ActivationFn : int32_t {
  kSilu,      // gate / (1 + e^-gate) * up
  kGeluTanh,  // gate / 2 (1 + tanh (sqrt(2 / pi) (gate + 0.044715 gate^3))) * up
  // g / (1 + e^(-alpha g)) * (u + 1) with g = min(gate, limit), u = up within [-limit, limit]:
  // gpt-oss. On the CPU only.
  kClampedSwiglu,
};

inline constexpr float kSwigluAlpha = 1.702f;
inline constexpr float kSwigluLimit = 7.0f;

}  // namespace prefix::ops
