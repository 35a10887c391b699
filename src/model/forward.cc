#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/status.h"
#include "model/activations.h"
#include "model/model.h"
#include "model/rope.h"
#include "model/weights.h"
#include "ops/buffers.h"

namespace prefix {
namespace {

// Adds the time between construction and destruction to a counter.
class Stopwatch {
 public:
  explicit Stopwatch(int64_t& total) : total_(total), start_(Clock::now()) {}
  ~Stopwatch() { total_ += ns_since(start_); }

 private:
  int64_t& total_;
  Clock::time_point start_;
};

// One piece of device memory, grown when a step needs more rows.
struct Block {
  std::byte* data = nullptr;
  size_t bytes = 0;
};

}  // namespace

// All activations of a step. x: residual; a: normed input; b: attention output or the gated inner
// activation; c: f32 result of a projection.
struct Model::Buffers {
  explicit Buffers(ops::Device& d) : device(d), logits(d), answers(d), fetched(d) {}
  ~Buffers() { drop(); }
  // No rows fit any more: whatever comes next may fail, and must not be taken for what was there.
  void drop() {
    for (Block& b : blocks) device.release(b.data, b.bytes);
    blocks.clear();
    total = rows = 0;
  }
  std::byte* add(size_t bytes) {
    Block& block = blocks.emplace_back();
    block.data = device.allocate(bytes);
    block.bytes = bytes;
    total += static_cast<int64_t>(bytes);
    return block.data;
  }

  ops::Device& device;
  std::vector<Block> blocks;
  int64_t total = 0;
  int64_t rows = 0;
  float* x = nullptr;
  float* c = nullptr;
  int64_t x_ld = 0, c_ld = 0;
  ops::Act a, q, attention, inner;
  // Selected rows lie where the layers, which are done, had their intermediates.
  float* selected() const { return c; }  // [selected rows, hidden]
  ops::Act normed() const { return a; }
  ops::DeviceBuffer logits;   // of a block of selected rows
  ops::DeviceBuffer answers;  // what heads read of them
  ops::HostBuffer fetched;    // results of a head, where the device's memory is not the host's
};

Model::Model(ModelFiles files, ops::Device& device, int32_t max_positions, const Progress& progress)
    : device_(device), config_(files.config), max_positions_(max_positions) {
  architecture_ = &find_architecture(config_.architecture);
  weights_ = load_weights(files, *architecture_, device_, progress);
  files.tensors->check_files();  // weights of two versions would be silent
  const RopeTables tables = rope_tables(config_, max_positions_);
  cos_ = ops::Vector(device_, tables.cos);
  sin_ = ops::Vector(device_, tables.sin);
  rotary_dim_ = tables.rotary_dim;
  regime_switch_ = tables.regime_switch;
  buffers_ = std::make_unique<Buffers>(device_);
}

Model::~Model() {
  const auto free = [&](const ops::Matrix& m) {
    if (m.data) device_.release(const_cast<std::byte*>(m.data), m.bytes());
  };
  for (const LayerWeights& layer : weights_.layers) {
    free(layer.qkv);
    free(layer.attention_output);
    free(layer.gate_up);
    free(layer.down);
  }
  free(weights_.embedding);
  if (!weights_.tied) free(weights_.output);
}

ops::KvLayout Model::kv_layout() const {
  return {device_.dtype(), config_.layers, config_.kv_heads, config_.head_dim};
}

int64_t Model::weight_bytes() const {
  size_t bytes = weights_.embedding.bytes() + (weights_.tied ? 0 : weights_.output.bytes());
  for (const LayerWeights& w : weights_.layers)
    bytes += w.qkv.bytes() + w.attention_output.bytes() + w.gate_up.bytes() + w.down.bytes();
  bytes += (cos_.size() + sin_.size()) * sizeof(float);
  return static_cast<int64_t>(bytes);
}

int32_t Model::rope_offset(int32_t length) const {
  return regime_switch_ > 0 && length > regime_switch_ ? max_positions_ : 0;
}

void Model::ensure_rows(int64_t rows) {
  Buffers& b = *buffers_;
  if (rows <= b.rows) return;
  rows = activation_rows(rows);
  b.drop();
  const ActivationWidths w =
      activation_widths(config_, [&](int64_t columns) { return device_.act_ld(columns); });
  const auto n = static_cast<size_t>(rows);
  const auto f32 = [&](int64_t ld) {
    return reinterpret_cast<float*>(b.add(n * static_cast<size_t>(ld) * sizeof(float)));
  };
  const auto act = [&](int64_t ld) {
    return ops::Act{b.add(n * static_cast<size_t>(ld) * device_.act_bytes()), ld};
  };
  b.x_ld = w.x;
  b.c_ld = w.c;
  b.x = f32(w.x);
  b.c = f32(w.c);
  b.a = act(w.a);
  b.q = act(w.q);
  b.attention = act(w.q);
  b.inner = act(w.inner);
  b.rows = rows;
  note_memory();
}

void Model::reserve(int64_t rows, int64_t pages) {
  ensure_rows(rows);
  if (!device_.host_memory()) {
    buffers_->logits.reserve(logit_bytes(config_, rows));
    buffers_->answers.reserve(answer_bytes(rows));
  }
  ops::ReserveShape shape;
  shape.rows = rows;
  shape.heads = config_.heads;
  shape.inner = config_.intermediate;
  shape.pages = pages;
  shape.positions = max_positions_;
  shape.logit_rows = logit_rows();
  shape.kv = kv_layout();
  reserved_bytes_ = static_cast<int64_t>(device_.reserve(shape));
  note_memory();
  warm_up(rows);
}

// All products of a step, of whatever is in the buffers.
void Model::warm_up(int64_t rows) {
  const Buffers& b = *buffers_;
  const LayerWeights& w = weights_.layers.front();
  constexpr int64_t kMostHeads = 64;
  const int64_t ld = padded_vocab(config_);
  int64_t heads = 1;
  const bool post_attention = !w.post_attention_norm.empty(), post = !w.post_ffn_norm.empty();
  device_.rehearse(rows, [&](int64_t n) {
    device_.linear(w.qkv, w.qkv_bias.data(), b.a, n, b.c, b.c_ld, false);
    device_.linear(w.attention_output, w.attention_output_bias.data(), b.attention, n,
                   post_attention ? b.c : b.x, post_attention ? b.c_ld : b.x_ld, !post_attention);
    device_.linear_gated(w.gate_up, config_.intermediate, w.gate_bias.data(), w.up_bias.data(),
                         ops::Activation::kSilu, b.a, n, b.inner);
    device_.linear(w.down, w.down_bias.data(), b.inner, n, post ? b.c : b.x, post ? b.c_ld : b.x_ld,
                   !post);
    // Selected rows are any number, not padded.
    for (; heads <= std::min(n, kMostHeads); ++heads)
      device_.linear(weights_.output, nullptr, b.normed(), heads, logit_memory(logit_rows(), ld),
                     ld, false);
  });
}

void Model::note_memory() {
  const Buffers& b = *buffers_;
  const auto heads = static_cast<int64_t>(b.logits.bytes() + b.answers.bytes());
  times_.activation_bytes_peak =
      std::max(times_.activation_bytes_peak, b.total + heads + reserved_bytes_);
}

void Model::attention_block(const LayerWeights& w, int32_t index, const StepPlan& plan,
                            KvMemory& kv) {
  Buffers& b = *buffers_;
  const int64_t rows = plan.rows();
  const int64_t h = config_.hidden;
  {
    Stopwatch watch(times_.other_ns);
    if (w.attention_norm.empty()) {
      device_.convert(b.x, b.x_ld, rows, h, b.a);
    } else {
      device_.rms_norm(b.x, b.x_ld, w.attention_norm.data(), config_.norm_eps, rows, h, b.a);
    }
  }
  {
    Stopwatch watch(times_.gemm_ns);
    device_.linear(w.qkv, w.qkv_bias.data(), b.a, rows, b.c, b.c_ld, false);
  }
  {
    Stopwatch watch(times_.other_ns);
    ops::QkvArgs args;
    args.qkv = b.c;
    args.ld = b.c_ld;
    args.heads = config_.heads;
    args.q_norm = w.q_norm.data();
    args.k_norm = w.k_norm.data();
    args.norm_whole_width = architecture_->qk_norm == QkNorm::kWholeWidth;
    args.norm_eps = config_.norm_eps;
    args.rotary_dim = rotary_dim_;
    args.cos = cos_.data();
    args.sin = sin_.data();
    device_.qkv(args, plan.rope_rows, plan.slots, kv.layout(), kv.data(), index, b.q);
    device_.copy_pages(plan.copies, kv.layout(), kv.data(), index);
  }
  {
    Stopwatch watch(times_.attention_ns);
    ops::AttentionArgs args;
    args.plan = &plan.attention;
    args.positions = plan.positions.data();
    args.q = b.q;
    args.out = b.attention;
    args.heads = config_.heads;
    args.scale = 1.0f / std::sqrt(static_cast<float>(config_.head_dim));
    args.layer = index;
    device_.attention(args, kv.layout(), kv.data());
  }
  const bool post = !w.post_attention_norm.empty();
  {
    Stopwatch watch(times_.gemm_ns);
    device_.linear(w.attention_output, w.attention_output_bias.data(), b.attention, rows,
                   post ? b.c : b.x, post ? b.c_ld : b.x_ld, !post);
  }
  if (post) {
    Stopwatch watch(times_.other_ns);
    device_.rms_norm_f32(b.c, b.c_ld, w.post_attention_norm.data(), config_.norm_eps, rows, h, b.x,
                         b.x_ld, true);
  }
}

void Model::ffn_block(const LayerWeights& w, const StepPlan& plan) {
  Buffers& b = *buffers_;
  const int64_t rows = plan.rows();
  const int64_t h = config_.hidden;
  {
    Stopwatch watch(times_.other_ns);
    if (w.ffn_norm.empty()) {
      device_.convert(b.x, b.x_ld, rows, h, b.a);
    } else {
      device_.rms_norm(b.x, b.x_ld, w.ffn_norm.data(), config_.norm_eps, rows, h, b.a);
    }
  }
  const bool post = !w.post_ffn_norm.empty();
  {
    Stopwatch watch(times_.gemm_ns);
    device_.linear_gated(w.gate_up, config_.intermediate, w.gate_bias.data(), w.up_bias.data(),
                         ops::Activation::kSilu, b.a, rows, b.inner);
    device_.linear(w.down, w.down_bias.data(), b.inner, rows, post ? b.c : b.x,
                   post ? b.c_ld : b.x_ld, !post);
  }
  if (post) {
    Stopwatch watch(times_.other_ns);
    device_.rms_norm_f32(b.c, b.c_ld, w.post_ffn_norm.data(), config_.norm_eps, rows, h, b.x,
                         b.x_ld, true);
  }
}

bool Model::forward(const StepPlan& plan, KvMemory& kv, const std::function<bool()>& stop) {
  ensure_rows(plan.rows());
  reads_ = plan.reads;
  selected_ = 0;
  Buffers& b = *buffers_;
  {
    Stopwatch watch(times_.other_ns);
    device_.begin_step({plan.tokens, plan.positions, plan.rope_rows, plan.slots, plan.clear,
                        plan.copies, reads_, &plan.attention, config_.heads, kv.layout()});
    device_.clear_pages(plan.clear, kv.layout(), kv.data());
    device_.embed(weights_.embedding, plan.tokens, 1.0f, b.x, b.x_ld);
  }
  for (int32_t i = 0; i < config_.layers; ++i) {
    if (stop && stop()) return false;
    const LayerWeights& w = weights_.layers[static_cast<size_t>(i)];
    attention_block(w, i, plan, kv);
    ffn_block(w, plan);
  }
  return true;
}

void Model::select(const ops::HeadArrays& arrays) {
  Stopwatch watch(times_.other_ns);
  Buffers& b = *buffers_;
  std::span<const int32_t> rows = arrays.rows;
  const auto n = static_cast<int64_t>(rows.size());
  const int64_t h = config_.hidden;
  if (std::ranges::equal(rows, reads_)) rows = reads_;  // it went up with the step
  selected_ = n;
  device_.begin_heads(arrays);
  float* const out = b.selected();
  device_.gather_rows(b.x, b.x_ld, rows, h, out, h);
  device_.rms_norm_f32(out, h, weights_.output_norm.data(), config_.norm_eps, n, h, out, h, false);
  device_.convert(out, h, n, h, b.normed());
}

const float* Model::on_host(const float* data, size_t floats) {
  if (device_.host_memory()) return data;
  const size_t bytes = floats * sizeof(float);
  std::byte* const here = buffers_->fetched.reserve(bytes);
  device_.download(here, data, bytes);
  return reinterpret_cast<const float*>(here);
}

const float* Model::hidden() {
  return on_host(buffers_->selected(), static_cast<size_t>(selected_ * config_.hidden));
}

// Rows [begin, end) of the selection times w.
void Model::multiply_head(const ops::Matrix& w, int64_t begin, int64_t end, float* out,
                          int64_t ld) {
  Stopwatch watch(times_.gemm_ns);
  const ops::Act head = buffers_->normed();
  const size_t row_bytes = static_cast<size_t>(head.ld) * device_.act_bytes();
  const ops::Act x{head.data + static_cast<size_t>(begin) * row_bytes, head.ld};
  device_.linear(w, nullptr, x, end - begin, out, ld, false);
}

float* Model::logit_memory(int64_t rows, int64_t ld) {
  Buffers& b = *buffers_;
  const size_t bytes = static_cast<size_t>(rows * ld) * sizeof(float);
  auto* const data = reinterpret_cast<float*>(b.logits.reserve(bytes));
  note_memory();
  return data;
}

std::byte* Model::answer_memory(size_t bytes) {
  std::byte* const data = buffers_->answers.reserve(bytes);
  note_memory();
  return data;
}

ops::LogitBlock Model::logits(int64_t begin, int64_t end) {
  const int64_t ld = padded_vocab(config_);
  // Of all rows that are asked for at once: the memory does not grow with the first steps.
  float* const x = logit_memory(logit_rows(), ld);
  multiply_head(weights_.output, begin, end, x, ld);
  return {x, ld, begin, end - begin, config_.vocab_size};
}

Model::PanelLogits Model::logit_panels(std::span<const Panel> panels) {
  const int64_t ld = 32 * static_cast<int64_t>(panels.size());
  float* const x = logit_memory(selected_, ld);
  for (size_t i = 0; i < panels.size(); ++i) {
    const Panel& p = panels[i];
    multiply_head(weights_.output.panel_of(p.token), p.begin, p.end,
                  x + p.begin * ld + 32 * static_cast<int64_t>(i), ld);
  }
  return {on_host(x, static_cast<size_t>(selected_ * ld)), ld};
}

}  // namespace prefix
