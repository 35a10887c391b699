// The memory that the device layer itself needs for the steps of an engine, known before the first
// one: GpuDevice::reserve() takes it at load, the estimate of an engine adds it up without a
// device.
//
// A few rows may hang on any number of tree nodes, so there is no bound for the arrays of a plan:
// they have room for several times what requests make of them, and staging grows when a step is
// beyond that. For states there is one, which the planner keeps to (AttentionShape::most_states).
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/gpu/launch.h"
#include "ops/op.h"

namespace prefix::ops::gpu {

struct Workspace {
  size_t gated = 0;         // both halves of a gated product
  size_t states = 0;        // partial states of attention
  size_t arrived = 0;       // counters of its groups
  size_t step = 0;          // arrays of a step on the device, and as much in pinned memory
  size_t call = 0;          // the same for arrays that no step announced
  size_t heads = 0;         // the same for what heads read
  size_t logit_parts = 0;   // parts of rows of logits
  int32_t most_states = 0;  // rows of states per kv head

  size_t bytes() const { return gated + states + arrived + step + call + heads + logit_parts; }
};

Workspace workspace_for(const ReserveShape& shape, int32_t processors);

// Pages that one launch clears; a longer list takes several.
inline constexpr size_t kMostCleared = size_t{1} << 14;

// How rows of activations and of f32 lie: as whole 128-byte lines.
struct ActivationLayout {
  DType type = DType::kBf16;

  size_t act_bytes() const { return dtype_bytes(type); }
  // Of a projection as well: its f32 results would be half of what such a product moves.
  size_t projection_bytes() const { return act_bytes(); }
  int64_t act_ld(int64_t columns) const { return (columns + 63) / 64 * 64; }
  int64_t f32_ld(int64_t columns) const { return (columns + 31) / 32 * 32; }
};

}  // namespace prefix::ops::gpu
