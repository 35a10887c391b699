// The kernels of recurrent layers of one CPU level.
//
// A scan goes token by token: every number of a state is one chain of operations over the tokens,
// so its bits do not depend on how the tokens come in calls. Sums over a state have an order that
// depends on its shape only.
#pragma once

#include <cstdint>

namespace prefix::ops {

// Tokens of a call for Mamba-2: their B and C stay in the L1 cache.
inline constexpr int64_t kMamba2Tokens = 16;

// Columns of S of one head (step.h, Mamba2Args), over some tokens.
struct Mamba2Kernel {
  float* s = nullptr;  // [state, columns]; columns up to a whole vector exist
  int64_t lds = 0;
  int64_t state = 0;
  int64_t columns = 0;
  int64_t tokens = 0;        // at most kMamba2Tokens
  const float* x = nullptr;  // [tokens, columns]
  int64_t ldx = 0;
  const float* b = nullptr;  // [tokens, state]
  const float* c = nullptr;
  int64_t ld_bc = 0;
  const float* dt = nullptr;     // of each token
  const float* decay = nullptr;  // exp(dt A)
  int64_t ld_gates = 0;
  float d = 0;
  float* y = nullptr;  // [tokens, columns]
  int64_t ldy = 0;
};

// Columns of S of one head (step.h, GatedDeltaArgs), over some tokens.
struct GatedDeltaKernel {
  float* s = nullptr;  // [key_dim, columns]; columns up to a whole vector exist
  int64_t lds = 0;
  int64_t key_dim = 0;
  int64_t columns = 0;
  int64_t tokens = 0;
  const float* q = nullptr;  // [tokens, key_dim], raw
  const float* k = nullptr;
  const float* v = nullptr;        // [tokens, columns]
  int64_t ld = 0;                  // of q, k and v
  const float* q_scale = nullptr;  // of each token: brings q to its norm, and by 1 / sqrt(key_dim)
  const float* k_scale = nullptr;
  int64_t ld_scales = 0;
  const float* decay = nullptr;  // of each token
  const float* b = nullptr;
  int64_t ld_gates = 0;
  float* y = nullptr;  // [tokens, columns]
  int64_t ldy = 0;
};

// One row of the convolution; `width` taps, the oldest first.
struct ConvKernel {
  const float* const* x = nullptr;  // of each tap [n]
  const float* weight = nullptr;    // [width, n]
  int64_t ld_weight = 0;
  int64_t width = 0;
  const float* bias = nullptr;  // null: none
  bool silu = false;
  int64_t n = 0;
  float* out = nullptr;
};

struct ScanKernels {
  int64_t lanes = 0;  // floats of a vector
  // Both tell whether all of y is finite.
  bool (*mamba2)(const Mamba2Kernel& args) = nullptr;
  bool (*gated_delta)(const GatedDeltaKernel& args) = nullptr;
  // n heads: dt <- clamp(softplus(dt + bias)), decay = exp(dt a). high 0: no clamp.
  void (*mamba2_gates)(const float* raw, const float* bias, const float* a, float low, float high,
                       int64_t n, float* dt, float* decay) = nullptr;
  // n heads: decay = exp(scale softplus(a + bias)), gate = sigmoid(b).
  void (*gated_delta_gates)(const float* a, const float* bias, const float* scale, const float* b,
                            int64_t n, float* decay, float* gate) = nullptr;
  void (*conv)(const ConvKernel& args) = nullptr;
};

}  // namespace prefix::ops
