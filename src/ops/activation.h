// The functions that a gated product may have between its two halves.
#pragma once

#include <cstdint>

namespace prefix::ops {

enum class ActivationFn : int32_t {
  kSilu,      // x / (1 + e^-x)
  kGeluTanh,  // x / 2 (1 + tanh (sqrt(2 / pi) (x + 0.044715 x^3))): "gelu_pytorch_tanh"
};

}  // namespace prefix::ops
