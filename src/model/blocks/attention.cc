// Attention with grouped queries, rotary embedding and the keys and values of the tree.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "base/status.h"
#include "model/blocks/block.h"

namespace prefix {
namespace {

ops::QkvArgs qkv_args(const Pass& pass, const LayerSpec& layer, const LayerWeights& w) {
  const ActivationBuffers& b = pass.buffers;
  ops::QkvArgs args;
  args.layer = layer.kv_layer;
  args.qkv = b.c;
  args.ld = b.qkv_ld;
  args.bias = w.mixer_in_bias.data();
  args.q_norm = w.q_norm.data();
  args.k_norm = w.k_norm.data();
  args.norm_whole_width = layer.qk_norm == QkNorm::kWholeWidth;
  args.norm_eps = pass.config.norm_eps;
  if (layer.rope_table >= 0) {
    const Rotation& rotation = pass.rotations[static_cast<size_t>(layer.rope_table)];
    args.rotary_dim = rotation.dim;
    args.cos = rotation.cos.data();
    args.sin = rotation.sin.data();
  }
  args.q = b.q;
  return args;
}

// Queries into b.q, keys and values into their pages.
void split_qkv(const Pass& pass, const ops::QkvArgs& args) {
  Stopwatch watch(pass.times.other_ns);
  if (pass.block > 0)
    pass.step.qkv_rows(args, pass.first, pass.block);
  else
    pass.step.qkv(args);
}

// Columns of a slice: with the rows of a block, what L2 keeps while the product goes on.
constexpr int64_t kSliceColumns = 512;

// Heads of the slices in which a block of rows is projected; 0: all are projected together, because
// operations follow each other or because all heads of a row are normed together.
int64_t slice_heads(const Pass& pass, const LayerSpec& layer) {
  if (pass.block == 0 || layer.qk_norm == QkNorm::kWholeWidth) return 0;
  const int64_t head_dim = pass.config.head_dim;
  const int64_t least = std::lcm(head_dim, int64_t{64});  // whole heads and whole tiles
  const int64_t slice = std::max<int64_t>(1, kSliceColumns / least) * least;
  const int64_t heads = slice / head_dim;
  return heads < pass.config.heads + 2 * pass.config.kv_heads ? heads : 0;
}

// The heads of a slice are split before the next ones are projected.
void project_slices(const Pass& pass, const LayerWeights& w, int64_t heads, ops::QkvArgs args) {
  const ActivationBuffers& b = pass.buffers;
  const int64_t head_dim = pass.config.head_dim, slice = heads * head_dim;
  args.ld = pass.device.f32_ld(slice);
  int64_t all = 0, other = 0;
  const auto split = [&](int64_t first, int64_t count) {
    Stopwatch watch(other);
    args.first_head = first / head_dim;
    args.end_head = (first + count) / head_dim;
    pass.step.qkv_rows(args, pass.first, pass.block);
  };
  {
    Stopwatch watch(all);
    pass.device.linear_in_slices(w.mixer_in, w.mixer_in_bias.data(),
                                 adapted(pass, &AdapterLayer::mixer_in), b.a, pass.rows(), b.c,
                                 args.ld, slice, std::ref(split));  // allocates nothing
  }
  pass.times.other_ns += other;
  pass.times.gemm_ns += all - other;
}

// The columns behind q, k and v; f32, because a device that projects to anything else has no such
// model.
void apply_gate(const Pass& pass) {
  const ActivationBuffers& b = pass.buffers;
  const ModelConfig& c = pass.config;
  const int64_t q = int64_t{c.heads} * c.head_dim;
  const float* gate = b.c + q + 2 * int64_t{c.kv_heads} * c.head_dim;
  pass.device.multiply_sigmoid(gate, b.qkv_ld, pass.rows(), q, b.mixed);
}

}  // namespace

void attention_in(const Pass& pass, const LayerSpec& layer, const LayerWeights& w) {
  PREFIX_CHECK(layer.kv_layer >= 0);
  const ActivationBuffers& b = pass.buffers;
  norm_before(pass, layer.mixer_norms.before, w.mixer_norm);
  const ops::QkvArgs args = qkv_args(pass, layer, w);
  if (const int64_t heads = slice_heads(pass, layer)) return project_slices(pass, w, heads, args);
  if (pass.adapters.empty()) {
    Stopwatch watch(pass.times.gemm_ns);
    pass.device.project(w.mixer_in, w.mixer_in_bias.data(), b.a, pass.rows(), b.c, b.qkv_ld);
  } else {  // on a device that projects to f32
    multiply(pass, w.mixer_in, &AdapterLayer::mixer_in, w.mixer_in_bias, b.a, b.c, b.qkv_ld, false);
  }
  split_qkv(pass, args);
}

void copy_pages(const Pass& pass, const LayerSpec& layer) {
  Stopwatch watch(pass.times.other_ns);
  pass.step.copy_pages(layer.kv_layer);
}

void attend(const Pass& pass, const LayerSpec& layer, const LayerWeights& w) {
  Stopwatch watch(pass.times.attention_ns);
  const ActivationBuffers& b = pass.buffers;
  ops::AttentionArgs args;
  args.layer = layer.kv_layer;
  args.q = b.q;
  args.out = b.mixed;
  args.plan = layer.attention_plan;
  args.soft_cap = static_cast<float>(pass.config.score_cap);
  args.sinks = w.sinks.data();
  const double scale = pass.config.attention_scale;
  args.scale = scale != 0 ? static_cast<float>(scale)
                          : 1.0f / std::sqrt(static_cast<float>(pass.config.head_dim));
  pass.step.attention(args);
}

void attention_out(const Pass& pass, const LayerSpec& layer, const LayerWeights& w) {
  const ActivationBuffers& b = pass.buffers;
  if (pass.config.attention_gate) {
    Stopwatch watch(pass.times.other_ns);
    apply_gate(pass);
  }
  project_and_add(pass, w.mixer_out, &AdapterLayer::mixer_out, w.mixer_out_bias, b.mixed,
                  layer.mixer_norms.after, w.post_mixer_norm);
}

}  // namespace prefix
