// The memory that steps of a model take on a device, known without either: buffers are made by it
// (activation_buffers.cc, model.cc), and engines are sized by it before they are made.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "model/config/config.h"
#include "ops/device_sizes.h"
#include "ops/scan_plan.h"

namespace prefix {

// Rows of logits that are held at a time: 64 rows of a 150,000-token vocabulary are 38 MB. A GPU
// multiplies more at once.
constexpr int64_t held_logit_rows(bool host_memory) { return host_memory ? 64 : 256; }

// Buffers have so many rows for steps of `rows`.
constexpr int64_t padded_rows(int64_t rows) { return (rows + 63) / 64 * 64; }

// How many rows the buffers for steps of up to `all` have.
struct ActivationRows {
  int64_t all = 0;
  int64_t narrow = 0;  // of what a block of rows (ops/op.h) has of its own: the most without blocks
  int64_t block = 0;   // of the longest block; 0: no step has blocks
};
ActivationRows activation_rows(const ModelConfig& config, const ops::DeviceSizes& device,
                               int64_t rows);

// Leading dimensions in elements, and their sizes.
struct ActivationWidths {
  int64_t x = 0, c = 0;                        // f32
  int64_t qkv = 0;                             // elements of a projection
  int64_t recurrent = 0, conv = 0;             // f32, of recurrent layers; 0: none
  int64_t up = 0;                              // f32, of feed-forward without a gate; 0: none
  int64_t router = 0;                          // f32, scores of experts; 0: none
  int64_t slots = 0, expert_inner = 0;         // of a row; activations of a slot
  int64_t a = 0, q = 0, mixed = 0, inner = 0;  // activations
  size_t act_bytes = 0, projection_bytes = 0;

  // Of the memory in which a projection and f32 results take turns.
  size_t result_bytes() const {
    return std::max(static_cast<size_t>(std::max({c, recurrent, up, router})) * sizeof(float),
                    static_cast<size_t>(qkv) * projection_bytes);
  }
  // Of the same: those that all rows of a step have at the same time are narrower.
  size_t result_bytes(const ActivationRows& rows) const {
    const size_t of_all = static_cast<size_t>(std::max({c, recurrent, router})) * sizeof(float);
    return std::max(static_cast<size_t>(rows.all) * of_all,
                    static_cast<size_t>(rows.narrow) * result_bytes());
  }
  // Of all buffers of a step.
  size_t bytes(const ActivationRows& rows) const {
    const size_t row =
        static_cast<size_t>(x + conv) * sizeof(float) +
        static_cast<size_t>(a + q + mixed) * act_bytes +
        static_cast<size_t>(slots) * (static_cast<size_t>(a + expert_inner) * act_bytes +
                                      static_cast<size_t>(x) * sizeof(float));
    return static_cast<size_t>(rows.all) * row + result_bytes(rows) +
           static_cast<size_t>(rows.narrow * inner) * act_bytes;
  }
  // Of those that a block has of its own.
  size_t block_bytes(const ActivationRows& rows) const {
    return static_cast<size_t>(rows.block) *
           (result_bytes() + static_cast<size_t>(a + inner) * act_bytes);
  }
};

ActivationWidths activation_widths(const ModelConfig& config, const ops::DeviceSizes& device);

// What heads need in steps of up to so many rows: whole rows of logits, or a panel of all rows.
size_t logit_bytes(const ModelConfig& config, const ops::DeviceSizes& device, int64_t rows);

// What is read of them: a few scores of every row and, on a GPU, the most candidates of every row.
// No step reads more at once (engine/outputs.cc).
size_t answer_bytes(const ops::DeviceSizes& device, int64_t rows);

// Keys and values of the whole model.
ops::KvLayout kv_layout_of(const ModelConfig& config, int32_t kv_layers, ops::KvType type);

// What a state of the recurrent layers is made of.
StateLayout state_layout_of(const ModelConfig& config);

// Throws kUnsupportedDevice when the device has no operations for the model's layers.
void check_device(const ModelConfig& config, const ops::DeviceSizes& device);

ops::ReserveShape reserve_shape(const ModelConfig& config, const ops::DeviceSizes& device,
                                const ops::KvLayout& kv, int64_t rows, int64_t pages,
                                int64_t positions);

// All of it: buffers, logits, what is read of them, and the device's own workspace.
int64_t step_bytes(const ModelConfig& config, const ops::DeviceSizes& device,
                   const ops::ReserveShape& shape);

}  // namespace prefix
