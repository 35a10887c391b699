// The head: selected rows of the last forward pass, normed, and their logits.
#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <vector>

#include "model/activation_buffers.h"
#include "model/blocks/block.h"
#include "model/model.h"
#include "model/step_memory.h"
#include "ops/weights.h"

namespace prefix {

void Model::select(ops::Step& step, const ops::HeadArrays& arrays) {
  Stopwatch watch(times_.other_ns);
  ActivationBuffers& b = *buffers_;
  const auto n = static_cast<int64_t>(arrays.rows.size());
  const int64_t h = config_.hidden;
  selected_ = n;
  step.begin_heads(arrays);
  float* const out = b.selected();
  step.gather_rows(b.x, b.x_ld, h, out, h);
  const float eps = config_.residual_norm_eps();
  const bool scaled = !weights_.logit_norm.empty();
  if (scaled) device_.rms_norm(out, h, weights_.logit_norm.data(), eps, n, h, b.normed());
  device_.rms_norm_f32(out, h, weights_.output_norm.data(), eps, n, h, out, h, false);
  if (!scaled) device_.convert(out, h, n, h, b.normed());
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
void Model::multiply_head(const ops::PackedWeights& w, int64_t begin, int64_t end, float* out,
                          int64_t ld) {
  Stopwatch watch(times_.gemm_ns);
  times_.gemm_flops += 2 * (end - begin) * w.n * w.k;
  const ops::ActivationBuffer head = buffers_->normed();
  const size_t row_bytes = static_cast<size_t>(head.ld) * device_.act_bytes();
  const ops::ActivationBuffer x{head.data + static_cast<size_t>(begin) * row_bytes, head.ld};
  device_.linear(w, nullptr, x, end - begin, out, ld, false);
  note_memory();
  if (config_.logit_cap != 0)
    device_.soft_cap(out, ld, end - begin, w.n, static_cast<float>(config_.logit_cap));
}

size_t Model::targets_at_once() const {
  if (device_.host_memory()) return std::numeric_limits<size_t>::max();
  return static_cast<size_t>(ops::kTargetsOfARow * buffers_->rows());
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
  const int64_t ld = ops::whole_panels(config_.vocab_size);
  // Of all rows that are asked for at once: the memory does not grow with the first steps.
  float* const x = logit_memory(logit_rows(), ld);
  multiply_head(weights_.output, begin, end, x, ld);
  return {x, ld, begin, end - begin, config_.vocab_size};
}

std::vector<const float*> Model::rows_on_host(const ops::LogitBlock& block,
                                              std::span<const int32_t> rows) {
  std::vector<const float*> out(rows.size());
  if (logits_are_on_host()) {
    for (size_t i = 0; i < rows.size(); ++i) out[i] = block.row(rows[i]);
    return out;
  }
  const size_t row_bytes = static_cast<size_t>(block.ld) * sizeof(float);
  const size_t distinct = std::min(rows.size(), static_cast<size_t>(block.rows));
  std::byte* here = buffers_->fetched.reserve(distinct * row_bytes);
  for (size_t i = 0; i < rows.size();) {
    const int32_t first = rows[i];
    int32_t end = first;  // of rows side by side
    for (; i < rows.size() && rows[i] <= end; ++i) {
      out[i] =
          reinterpret_cast<const float*>(here + static_cast<size_t>(rows[i] - first) * row_bytes);
      end = rows[i] + 1;
    }
    const auto bytes = static_cast<size_t>(end - first) * row_bytes;
    device_.download(here, block.row(first), bytes);
    here += bytes;
  }
  return out;
}

int64_t Model::panel_rows(int64_t selected) const {
  return std::min(device_.padded_rows(selected), buffers_->rows());
}

// A panel for all rows from the first to the last one that wants an id of it:
//
//   panels     [ids 0..31]  [ids 640..671] ...     of W, ops/weights.h
//   rows  0        .              x                x: a target
//         1        x              .
//         2        x              x                -> panel 0 for rows [1, 3), panel 20 for [0, 3)
void Model::logits_of(std::span<const ops::LogitAt> targets, std::span<float> out) {
  constexpr int64_t kWidth = ops::kPanelColumns;
  std::map<int64_t, std::vector<size_t>> wanted;  // panel -> targets
  for (size_t i = 0; i < targets.size(); ++i) wanted[targets[i].id / kWidth].push_back(i);
  const int64_t rows = panel_rows(selected_);
  // As many panels at once as take the memory of one block of whole rows.
  const int64_t at_once = std::max<int64_t>(1, logit_rows() * config_.vocab_size / kWidth / rows);
  for (auto next = wanted.begin(); next != wanted.end();) {
    const auto first = next;
    const int64_t count = std::min<int64_t>(at_once, std::distance(next, wanted.end()));
    float* const x = logit_memory(count * rows, kWidth);
    for (int64_t i = 0; i < count; ++i, ++next) {
      int64_t begin = selected_, end = 0;
      for (const size_t target : next->second) {
        begin = std::min<int64_t>(begin, targets[target].row);
        end = std::max<int64_t>(end, targets[target].row + 1);
      }
      const int64_t n = panel_rows(end - begin);
      begin = std::min(begin, rows - n);
      multiply_head(weights_.output.panel_of(next->first * kWidth), begin, begin + n,
                    x + kWidth * (i * rows + begin), kWidth);
    }
    const float* panel = on_host(x, static_cast<size_t>(count * rows * kWidth));
    for (auto at = first; at != next; ++at, panel += rows * kWidth) {
      for (const size_t target : at->second) {
        const ops::LogitAt& t = targets[target];
        out[target] = panel[t.row * kWidth + t.id % kWidth];
      }
    }
  }
}

}  // namespace prefix
