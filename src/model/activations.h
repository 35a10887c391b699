// How wide the activations of a step are, for the buffers (forward.cc) and for those who want to
// know their size without a model (engine/memory_estimate.cc).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "model/config.h"
#include "ops/logits.h"

namespace prefix {

// Rows of logits that are held at a time: 64 rows of a 150,000-token vocabulary are 38 MB. A GPU
// multiplies more at once.
constexpr int64_t held_logit_rows(bool host_memory) { return host_memory ? 64 : 256; }

// Leading dimensions in elements, and their sizes.
struct ActivationWidths {
  int64_t x = 0, c = 0;             // f32
  int64_t qkv = 0;                  // elements of a projection
  int64_t a = 0, q = 0, inner = 0;  // activations; the output of attention is as wide as q
  size_t act_bytes = 0, projection_bytes = 0;

  // Of the memory in which a projection and f32 results take turns.
  size_t result_bytes() const {
    return std::max(static_cast<size_t>(c) * sizeof(float),
                    static_cast<size_t>(qkv) * projection_bytes);
  }
  size_t row_bytes() const {
    return static_cast<size_t>(x) * sizeof(float) + result_bytes() +
           static_cast<size_t>(a + 2 * q + inner) * act_bytes;
  }
};

// `device`: an ops::Device, or what knows as much about one that is not there.
template <typename Device>
ActivationWidths activation_widths(const ModelConfig& config, const Device& device) {
  const int64_t hidden = config.hidden;
  const int64_t q = int64_t{config.heads} * config.head_dim;
  const int64_t qkv = q + 2 * int64_t{config.kv_heads} * config.head_dim;
  ActivationWidths w;
  w.act_bytes = device.act_bytes();
  w.projection_bytes = device.projection_bytes();
  w.x = w.c = device.f32_ld(hidden);
  w.qkv = w.projection_bytes == w.act_bytes ? device.act_ld(qkv) : device.f32_ld(qkv);
  w.a = device.act_ld(hidden);
  w.q = device.act_ld(q);
  w.inner = device.act_ld(config.intermediate);
  return w;
}

constexpr int64_t activation_rows(int64_t rows) { return (rows + 63) / 64 * 64; }

inline int64_t padded_vocab(const ModelConfig& config) {
  return (int64_t{config.vocab_size} + 31) / 32 * 32;
}

// What heads need on a device whose memory the host does not see, in steps of up to so many rows:
// whole rows of logits, or a panel of 32 of all rows.
inline size_t logit_bytes(const ModelConfig& config, int64_t rows) {
  const int64_t floats =
      std::max(held_logit_rows(false) * padded_vocab(config), activation_rows(rows) * 32);
  return static_cast<size_t>(floats) * sizeof(float);
}

// What is read of them: a few scores of every row, or candidates of as many as are held at a time.
// Steps that want more than that take it when they come.
inline size_t answer_bytes(int64_t rows) {
  const auto score = sizeof(ops::RowStats) + 8 * sizeof(float);
  return static_cast<size_t>(rows) * score +
         static_cast<size_t>(held_logit_rows(false) * ops::kMostCandidates) *
             sizeof(ops::Candidate);
}

}  // namespace prefix
