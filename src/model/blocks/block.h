// The blocks of a layer: each takes the residual of all rows of a step and adds its result to it.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "model/activation_buffers.h"
#include "model/config.h"
#include "model/layer.h"
#include "model/model.h"
#include "ops/op.h"
#include "ops/step.h"

namespace prefix {

// Adds the time between construction and destruction to a counter.
class Stopwatch {
 public:
  explicit Stopwatch(int64_t& total) : total_(total), start_(Clock::now()) {}
  ~Stopwatch() { total_ += ns_since(start_); }

 private:
  int64_t& total_;
  Clock::time_point start_;
};

// One pass over the rows of a step: what all blocks of all layers have in common.
struct Pass {
  ops::Device& device;
  ops::Step& step;
  const ModelConfig& config;
  const std::vector<Rotation>& rotations;
  ActivationBuffers& buffers;
  ModelTimes& times;

  int64_t rows() const { return step.rows(); }
};

void attention_block(const Pass& pass, const LayerSpec& layer, const LayerWeights& weights);
void mamba2_block(const Pass& pass, const LayerSpec& layer, const LayerWeights& weights);
void gated_delta_block(const Pass& pass, const LayerSpec& layer, const LayerWeights& weights);
void short_conv_block(const Pass& pass, const LayerSpec& layer, const LayerWeights& weights);
// The gated feed-forward block of rows that are normed already.
void gated_mlp(const Pass& pass, const LayerSpec& layer, const LayerWeights& weights);
void gated_mlp_block(const Pass& pass, const LayerSpec& layer, const LayerWeights& weights);
void squared_relu_block(const Pass& pass, const LayerSpec& layer, const LayerWeights& weights);
void experts_block(const Pass& pass, const LayerSpec& layer, const LayerWeights& weights);

// What all blocks begin and end with.

// a = the residual, normed by `norm` where the block has one before it.
inline void norm_before(const Pass& pass, bool normed, const ops::DeviceVector& norm) {
  Stopwatch watch(pass.times.other_ns);
  const ActivationBuffers& b = pass.buffers;
  if (normed) {
    pass.device.rms_norm(b.x, b.x_ld, norm.data(), pass.config.residual_norm_eps(), pass.rows(),
                         pass.config.hidden, b.a);
  } else {
    pass.device.convert(b.x, b.x_ld, pass.rows(), pass.config.hidden, b.a);
  }
}

// Residual += w x, normed by `norm` first where the block has one after it.
inline void project_and_add(const Pass& pass, const ops::PackedWeights& w,
                            const ops::DeviceVector& bias, ops::ActivationBuffer x, bool normed,
                            const ops::DeviceVector& norm) {
  const ActivationBuffers& b = pass.buffers;
  {
    Stopwatch watch(pass.times.gemm_ns);
    pass.device.linear(w, bias.data(), x, pass.rows(), normed ? b.c : b.x, normed ? b.c_ld : b.x_ld,
                       !normed);
  }
  if (!normed) return;
  Stopwatch watch(pass.times.other_ns);
  pass.device.rms_norm_f32(b.c, b.c_ld, norm.data(), pass.config.norm_eps, pass.rows(),
                           pass.config.hidden, b.x, b.x_ld, true);
}

}  // namespace prefix
