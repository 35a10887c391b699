// The row-wise kernels of one CPU level: norms, head rotation, conversion.
//
// Sums of squares are taken in an order that depends on the length only: vectors in turn over four
// accumulators, the remainder last.
#pragma once

#include <cstdint>

#include "ops/cpu/block_kernels.h"

namespace prefix::ops {

// One head of q or k: out = rotate(x * scale * weight), in f32.
struct HeadArgs {
  const float* x = nullptr;       // [head_dim]
  const float* weight = nullptr;  // norm weight of this head; null: no norm
  float scale = 1;                // 1 / rms
  int64_t head_dim = 0;
  int64_t rotary_dim = 0;      // even; element i pairs with i + rotary_dim / 2
  const float* cos = nullptr;  // [rotary_dim / 2], of the row's position
  const float* sin = nullptr;
  float* out = nullptr;  // [head_dim]
};

// A unit of QuantiseArgs::out in units of `rest`.
inline constexpr float kRestUnits = 254;

// A row in whole numbers: rotated (ops/rotation.h), then out = round(x 127 / max |x|) to nearest
// even; `rest` is what that has rounded away, half a unit at most.
struct QuantiseArgs {
  const void* x = nullptr;  // [k], f32 or bf16
  bool bf16 = false;
  int64_t k = 0;
  int64_t block = 1;             // of the rotation, which divides k
  const float* signs = nullptr;  // [k]
  float* work = nullptr;         // [k]
  int8_t* out = nullptr;         // [k_padded], zero from k on
  int8_t* rest = nullptr;        // the same; may be null
  int64_t k_padded = 0;          // a multiple of 32
  const void* next = nullptr;    // a row that is read soon and prefetched meanwhile; may be null
};
struct QuantisedRow {
  float scale = 0;  // of a unit of `out`; NaN where the row had a number that is not finite
  int32_t sum = 0;  // of `out`
  int32_t rest_sum = 0;
};

// The step of CalibratedRounding: a few columns of the rows of a panel,
// turned so that these stand side by side.
struct RoundColumnsArgs {
  int64_t tokens = 0, columns = 0;
  const float* inputs = nullptr;  // [columns][tokens]
  const float* shares = nullptr;  // [columns][tokens]
  float* errors = nullptr;        // [tokens][kPanelColumns], read and written
  float* numbers = nullptr;       // [columns][kPanelColumns], become whole
};

struct RowKernels {
  float (*sum_squares)(const float* x, int64_t n) = nullptr;
  // out = x * scale * weight
  void (*scale_f32)(const float* x, float scale, const float* weight, int64_t n,
                    float* out) = nullptr;
  void (*scale_bf16)(const float* x, float scale, const float* weight, int64_t n,
                     uint16_t* out) = nullptr;
  // out += x * scale * weight
  void (*scale_add)(const float* x, float scale, const float* weight, int64_t n,
                    float* out) = nullptr;
  void (*head)(const HeadArgs& args) = nullptr;
  // out = x * silu(z)
  void (*multiply_silu)(const float* x, const float* z, int64_t n, float* out) = nullptr;
  // x *= sigmoid(gate)
  void (*multiply_sigmoid_f32)(float* x, const float* gate, int64_t n) = nullptr;
  void (*multiply_sigmoid_bf16)(uint16_t* x, const float* gate, int64_t n) = nullptr;
  // y *= x
  void (*multiply)(const float* x, int64_t n, float* y) = nullptr;
  // y += x * scale
  void (*add_scaled)(const float* x, float scale, int64_t n, float* y) = nullptr;
  // x = cap * tanh(x / cap)
  void (*soft_cap)(float* x, int64_t n, float cap) = nullptr;
  // out = max(x, 0)^2
  void (*squared_relu_f32)(const float* x, int64_t n, float* out) = nullptr;
  void (*squared_relu_bf16)(const float* x, int64_t n, uint16_t* out) = nullptr;
  void (*to_bf16)(const float* x, int64_t n, uint16_t* out) = nullptr;
  QuantisedRow (*quantise)(const QuantiseArgs& args) = nullptr;
  void (*quantise_groups)(const QuantiseGroupsArgs& args) = nullptr;
  void (*round_columns)(const RoundColumnsArgs& args) = nullptr;
};

}  // namespace prefix::ops
