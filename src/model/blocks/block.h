// The blocks of a layer: each takes the residual of all rows of a step and adds its result to it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "model/activation_buffers.h"
#include "model/adapter.h"
#include "model/config/config.h"
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

// Rows [begin, end) of the step are computed with this adapter.
struct PassAdapter {
  int64_t begin = 0, end = 0;
  std::shared_ptr<const Adapter> adapter;
};

// One pass over the rows of a step: what all blocks of all layers have in common.
struct Pass {
  ops::Device& device;
  ops::Step& step;
  const ModelConfig& config;
  const std::vector<Rotation>& rotations;
  ActivationBuffers& buffers;
  ModelTimes& times;
  const std::vector<PassAdapter>& adapters;
  size_t layer = 0;  // that is being computed
  // Of a pass over a block of rows (ops/op.h), with which the buffers begin.
  // block 0: over all rows.
  int64_t first = 0, block = 0;

  int64_t rows() const { return block > 0 ? block : step.rows(); }
};

// Attention in four: keys and values of all rows are there before any row reads them.
void attention_in(const Pass& pass, const LayerSpec& layer, const LayerWeights& weights);
void copy_pages(const Pass& pass, const LayerSpec& layer);
void attend(const Pass& pass, const LayerSpec& layer, const LayerWeights& weights);
void attention_out(const Pass& pass, const LayerSpec& layer, const LayerWeights& weights);
void mamba2_block(const Pass& pass, const LayerSpec& layer, const LayerWeights& weights);
void gated_delta_block(const Pass& pass, const LayerSpec& layer, const LayerWeights& weights);
void short_conv_block(const Pass& pass, const LayerSpec& layer, const LayerWeights& weights);
// The gated feed-forward block of rows that are normed already.
void gated_mlp(const Pass& pass, const LayerSpec& layer, const LayerWeights& weights);
void gated_mlp_block(const Pass& pass, const LayerSpec& layer, const LayerWeights& weights);
void squared_relu_block(const Pass& pass, const LayerSpec& layer, const LayerWeights& weights);
void experts_block(const Pass& pass, const LayerSpec& layer, const LayerWeights& weights);

// A matrix of a layer, and what adapters add to it.
using AdapterMatrix = ops::LowRank AdapterLayer::*;

// What they add to this one; good until the next call.
inline const ops::Device::LowRankArgs& adapted(const Pass& pass, AdapterMatrix matrix) {
  ActivationBuffers& b = pass.buffers;
  b.adapted_rows.clear();
  for (const PassAdapter& one : pass.adapters) {
    const ops::LowRank& thin = one.adapter->layer(pass.layer).*matrix;
    const int64_t begin = std::max<int64_t>(one.begin - pass.first, 0);
    const int64_t end = std::min(one.end - pass.first, pass.rows());
    if (!thin.empty() && begin < end) b.adapted_rows.push_back({begin, end, &thin});
  }
  b.adapted.rows = b.adapted_rows;
  return b.adapted;
}

// y = x W^T with what adapters add, or y += it.
inline void multiply(const Pass& pass, const ops::PackedWeights& w, AdapterMatrix matrix,
                     const ops::DeviceVector& bias, ops::ActivationBuffer x, float* y, int64_t ld,
                     bool add) {
  Stopwatch watch(pass.times.gemm_ns);
  const ops::Device::LowRankArgs& more = adapted(pass, matrix);
  if (more.rows.empty())
    pass.device.linear(w, bias.data(), x, pass.rows(), y, ld, add);
  else
    pass.device.linear_adapted(w, bias.data(), more, x, pass.rows(), y, ld, add);
}

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
inline void project_and_add(const Pass& pass, const ops::PackedWeights& w, AdapterMatrix matrix,
                            const ops::DeviceVector& bias, ops::ActivationBuffer x, bool normed,
                            const ops::DeviceVector& norm) {
  const ActivationBuffers& b = pass.buffers;
  multiply(pass, w, matrix, bias, x, normed ? b.c : b.x, normed ? b.c_ld : b.x_ld, !normed);
  if (!normed) return;
  Stopwatch watch(pass.times.other_ns);
  pass.device.rms_norm_f32(b.c, b.c_ld, norm.data(), pass.config.norm_eps, pass.rows(),
                           pass.config.hidden, b.x, b.x_ld, true);
}

}  // namespace prefix
