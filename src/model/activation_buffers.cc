#include "model/activation_buffers.h"

#include "model/step_memory.h"

namespace prefix {

void ActivationBuffers::drop() {
  for (const Piece& piece : pieces_) device_.release(piece.data, piece.bytes);
  pieces_.clear();
  bytes_ = rows_ = 0;
}

std::byte* ActivationBuffers::add(size_t bytes) {
  Piece& piece = pieces_.emplace_back();
  piece.data = device_.allocate(bytes);
  piece.bytes = bytes;
  bytes_ += static_cast<int64_t>(bytes);
  return piece.data;
}

void ActivationBuffers::ensure_rows(int64_t rows, const ModelConfig& config) {
  if (rows <= rows_) return;
  const ActivationRows r = activation_rows(config, device_.sizes(), rows);
  drop();
  const ActivationWidths w = activation_widths(config, device_.sizes());
  const auto n = static_cast<size_t>(r.all);
  const auto act = [&](int64_t ld, size_t each = 1) {
    return ops::ActivationBuffer{add(n * each * static_cast<size_t>(ld) * w.act_bytes), ld};
  };
  x_ld = w.x;
  c_ld = w.c;
  qkv_ld = w.qkv;
  recurrent_ld = w.recurrent;
  conv_ld = w.conv;
  up_ld = w.up;
  router_ld = w.router;
  x = reinterpret_cast<float*>(add(n * static_cast<size_t>(w.x) * sizeof(float)));
  c = reinterpret_cast<float*>(add(w.result_bytes(r)));
  if (w.conv > 0)
    conv = reinterpret_cast<float*>(add(n * static_cast<size_t>(w.conv) * sizeof(float)));
  a = act(w.a);
  q = act(w.q);
  mixed = act(w.mixed);
  inner = {add(static_cast<size_t>(r.narrow * w.inner) * w.act_bytes), w.inner};
  if (w.slots > 0) {
    const auto each = static_cast<size_t>(w.slots);
    expert_in = act(w.a, each);
    expert_inner = act(w.expert_inner, each);
    expert_out = reinterpret_cast<float*>(add(n * each * static_cast<size_t>(w.x) * sizeof(float)));
  }
  rows_ = r.all;
}

void ActivationBuffers::ensure_block(int64_t step_rows, const ModelConfig& config) {
  const ActivationRows r = activation_rows(config, device_.sizes(), step_rows);
  if (r.block <= rows_) return;
  drop();
  const ActivationWidths w = activation_widths(config, device_.sizes());
  const auto n = static_cast<size_t>(r.block);
  c_ld = w.c;
  qkv_ld = w.qkv;
  up_ld = w.up;
  c = reinterpret_cast<float*>(add(n * w.result_bytes()));
  a = {add(n * static_cast<size_t>(w.a) * w.act_bytes), w.a};
  inner = {add(n * static_cast<size_t>(w.inner) * w.act_bytes), w.inner};
  rows_ = r.block;
}

void ActivationBuffers::begin_at(const ActivationBuffers& whole, int64_t first) {
  const auto from = [&](const ops::ActivationBuffer& buffer) {
    return ops::ActivationBuffer{
        buffer.data + static_cast<size_t>(first * buffer.ld) * device_.act_bytes(), buffer.ld};
  };
  x_ld = whole.x_ld;
  x = whole.x + first * x_ld;
  q = from(whole.q);
  mixed = from(whole.mixed);
}

void ActivationBuffers::ensure_thin(int64_t columns) {
  const int64_t ld = device_.f32_ld(columns);
  const int64_t act_ld = device_.act_ld(columns);
  adapted.sums =
      reinterpret_cast<float*>(thin_sums_.reserve(static_cast<size_t>(rows_ * ld) * sizeof(float)));
  adapted.ld_sums = ld;
  adapted.inner = {thin_.reserve(static_cast<size_t>(rows_ * act_ld) * device_.act_bytes()),
                   act_ld};
}

}  // namespace prefix
