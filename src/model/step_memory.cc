#include "model/step_memory.h"

#include <algorithm>

#include "base/status.h"
#include "ops/logits.h"
#include "ops/weights.h"

namespace prefix {

ActivationRows activation_rows(const ModelConfig& config, const ops::DeviceSizes& device,
                               int64_t rows) {
  const int64_t all = padded_rows(rows);
  // Operations follow each other: a gate of attention waits in c until attention has ended, and a
  // block that every row uses stands beside experts, which take all rows together.
  if (config.attention_gate || config.experts.shared) return {all, all, 0};
  return {all, device.max_rows_without_blocks(all), device.longest_block(all)};
}

ActivationWidths activation_widths(const ModelConfig& config, const ops::DeviceSizes& device) {
  const int64_t hidden = config.hidden;
  const int64_t q = int64_t{config.heads} * config.head_dim;
  const int64_t qkv =
      (config.attention_gate ? 2 : 1) * q + 2 * int64_t{config.kv_heads} * config.head_dim;
  const bool recurrent = config.recurrent_count() > 0;
  ActivationWidths w;
  w.act_bytes = device.act_bytes();
  w.projection_bytes = device.projection_bytes();
  w.x = w.c = device.f32_ld(hidden);
  w.qkv = w.projection_bytes == w.act_bytes ? device.act_ld(qkv) : device.f32_ld(qkv);
  w.a = device.act_ld(hidden);
  w.q = device.act_ld(q);
  w.inner = device.act_ld(config.intermediate);
  w.mixed = recurrent ? device.act_ld(std::max(q, config.recurrent.inner())) : w.q;
  if (config.feed_forward == FeedForward::kSquaredRelu) w.up = device.f32_ld(config.intermediate);
  if (config.experts.count > 0) {
    w.router = device.f32_ld(config.experts.count);
    w.slots = config.experts.per_token;
    w.expert_inner = device.act_ld(config.experts.intermediate);
  }
  if (recurrent) {
    w.recurrent = device.f32_ld(config.recurrent.projection());
    w.conv = device.f32_ld(config.recurrent.conv_channels());
  }
  return w;
}

size_t logit_bytes(const ModelConfig& config, const ops::DeviceSizes& device, int64_t rows) {
  const int64_t whole =
      held_logit_rows(device.host_memory()) * ops::whole_panels(config.vocab_size);
  const int64_t panel = padded_rows(rows) * ops::kPanelColumns;
  return static_cast<size_t>(std::max(whole, panel)) * sizeof(float);
}

size_t answer_bytes(const ops::DeviceSizes& device, int64_t rows) {
  const auto score = sizeof(ops::RowStats) + ops::kTargetsOfARow * sizeof(float);
  // The host's memory grows with what is asked for.
  const int64_t listed = device.host_memory() ? held_logit_rows(true) : padded_rows(rows);
  return static_cast<size_t>(padded_rows(rows)) * score +
         static_cast<size_t>(listed * ops::kMaxCandidates) * sizeof(ops::Candidate);
}

ops::KvLayout kv_layout_of(const ModelConfig& config, int32_t kv_layers, ops::KvType type) {
  return {type, kv_layers, config.kv_heads, config.head_dim};
}

StateLayout state_layout_of(const ModelConfig& config) {
  const int32_t layers = config.recurrent_count();
  if (layers == 0) return {};
  const RecurrentConfig& r = config.recurrent;
  return {layers, static_cast<int32_t>(r.conv_channels()), r.conv_width, r.state_values()};
}

void check_device(const ModelConfig& config, const ops::DeviceSizes& device) {
  if (device.host_memory()) return;
  const auto refuse = [](const auto&... what) {
    fail(Code::kUnsupportedDevice, what..., "; such models run on device \"cpu\" only");
  };
  if (config.recurrent_count() > 0)
    refuse(config.recurrent_count(), " of the ", config.layers, " layers are recurrent");
  if (config.attention_gate) refuse("the output of attention is gated");
  if (config.experts.count > 0)
    refuse("the feed-forward layers have ", config.experts.count, " experts");
  if (config.bidirectional) refuse("attention is bidirectional");
  for (int32_t i = 0; i < config.layers; ++i)
    if (config.window(i) > 0)
      refuse("layer ", i, " has a sliding window of ", config.window(i), " keys");
  if (config.score_cap != 0) refuse("the attention scores have a soft cap");
  if (config.logit_cap != 0) refuse("the logits have a soft cap");
  if (config.feed_forward != FeedForward::kGated) refuse("the feed-forward layers have no gate");
  if (config.activation == ops::ActivationFn::kClampedSwiglu)
    refuse("the gate of the feed-forward layers is clamped");
}

namespace {

ops::RecurrentShape recurrent_shape(const ModelConfig& config, const ops::KvLayout& kv) {
  const StateLayout state = state_layout_of(config);
  ops::RecurrentShape shape;
  if (state.layers == 0) return shape;
  const RecurrentConfig& r = config.recurrent;
  shape.channels = state.conv_channels;
  shape.width = state.conv_width;
  shape.state_pages = state.pages(kv.page_bytes());
  if (state.scan_floats == 0) return shape;
  const bool delta = r.mixer == Mixer::kGatedDelta;
  shape.heads = r.heads;
  shape.lines = r.state;
  shape.columns = r.head_dim;
  shape.gates = 2 * (int64_t{r.heads} + (delta ? r.groups : 0));
  return shape;
}

}  // namespace

ops::ReserveShape reserve_shape(const ModelConfig& config, const ops::DeviceSizes& device,
                                const ops::KvLayout& kv, int64_t rows, int64_t pages,
                                int64_t positions) {
  ops::ReserveShape shape;
  shape.rows = rows;
  shape.block = activation_rows(config, device, rows).block;
  shape.heads = config.heads;
  shape.inner = config.intermediate;
  shape.hidden = config.hidden;
  const int64_t hidden = config.hidden;
  shape.widest = std::max({hidden, int64_t{config.heads} * config.head_dim,
                           int64_t{config.intermediate}, config.recurrent.inner()});
  if (config.experts.count > 0) {
    shape.experts = config.experts.per_token;
    shape.expert_widest = std::max<int64_t>(hidden, config.experts.intermediate);
  }
  shape.recurrent = recurrent_shape(config, kv);
  // Behind the windows of all layers pages are given back: a path may be longer than the pool.
  bool slides = config.recurrent_count() == 0;
  for (int32_t i = 0; i < config.layers; ++i) slides = slides && config.window(i) > 0;
  const int64_t path = pages_for(positions);
  shape.pages = slides ? std::max(pages, path) : pages;
  shape.positions = positions;
  shape.logit_rows = held_logit_rows(device.host_memory());
  shape.kv = kv;
  return shape;
}

int64_t step_bytes(const ModelConfig& config, const ops::DeviceSizes& device,
                   const ops::ReserveShape& shape) {
  const ActivationRows rows = activation_rows(config, device, shape.rows);
  const ActivationWidths w = activation_widths(config, device);
  return static_cast<int64_t>(w.bytes(rows) +
                              static_cast<size_t>(device.workers()) * w.block_bytes(rows) +
                              logit_bytes(config, device, shape.rows) +
                              answer_bytes(device, shape.rows) + device.workspace_bytes(shape));
}

}  // namespace prefix
