// The head: selected rows of the last forward pass, normed, and their logits.
#include <algorithm>

#include "model/activation_buffers.h"
#include "model/activations.h"
#include "model/blocks/block.h"
#include "model/model.h"

namespace prefix {

void Model::select(const ops::HeadArrays& arrays) {
  Stopwatch watch(times_.other_ns);
  ActivationBuffers& b = *buffers_;
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
  ActivationBuffers& b = *buffers_;
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

int64_t Model::panel_rows(int64_t selected) const {
  return std::min(device_.padded_rows(selected), buffers_->rows());
}

Model::PanelLogits Model::logit_panels(std::span<const Panel> panels) {
  const int64_t rows = panel_rows(selected_);
  const auto count = static_cast<int64_t>(panels.size());
  float* const x = logit_memory(count * rows, 32);
  for (int64_t i = 0; i < count; ++i) {
    const Panel& p = panels[static_cast<size_t>(i)];
    const int64_t n = panel_rows(p.end - p.begin);
    const int64_t begin = std::min(p.begin, rows - n);
    multiply_head(weights_.output.panel_of(p.token), begin, begin + n, x + 32 * (i * rows + begin),
                  32);
  }
  return {on_host(x, static_cast<size_t>(32 * count * rows)), rows};
}

}  // namespace prefix
