// The memory that the device layer itself needs for the steps of an engine, known before the first
// one: GpuDevice::reserve() takes it at load, the estimate of an engine adds it up without a
// device.
//
// A few rows may hang on any number of tree nodes, so there is no bound for the arrays of a plan:
// they have room for several times what requests make of them, and staging grows when a step is
// beyond that. For states there is one, which the planner keeps to (AttentionShape::max_partials).
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/device_sizes.h"
#include "ops/gpu/launch.h"

namespace prefix::ops::gpu {

struct Workspace {
  size_t gated = 0;          // both halves of a gated product
  size_t partials = 0;       // partial states of attention
  size_t arrived = 0;        // counters of its groups
  size_t step = 0;           // arrays of a step on the device, and as much in pinned memory
  size_t heads = 0;          // the same for what heads read
  size_t logit_parts = 0;    // parts of rows of logits
  int32_t max_partials = 0;  // rows of states per kv head

  size_t bytes() const { return gated + partials + arrived + step + heads + logit_parts; }
};

// Rows of activations and of f32 lie as whole 128-byte lines.
class GpuSizes final : public DeviceSizes {
 public:
  GpuSizes(const NumericTypes& types, int32_t processors, int64_t total_bytes)
      : compute_type_(types.weights == WeightFormat::kBf16 ? ComputeType::kBf16
                                                           : ComputeType::kF32),
        processors_(processors),
        total_bytes_(total_bytes) {}

  ComputeType compute_type() const override { return compute_type_; }
  // Activations: f32 results of a projection would be half of what such a product moves.
  size_t projection_bytes() const override { return act_bytes(); }
  int64_t act_ld(int64_t columns) const override { return (columns + 63) / 64 * 64; }
  int64_t f32_ld(int64_t columns) const override { return (columns + 31) / 32 * 32; }
  bool host_memory() const override { return false; }
  int64_t usable_bytes() const override { return total_bytes_; }
  size_t own_bytes() const override { return kGemmWorkspaceBytes; }
  size_t workspace_bytes(const ReserveShape& shape) const override {
    return workspace(shape).bytes();
  }
  Workspace workspace(const ReserveShape& shape) const;

 private:
  ComputeType compute_type_;
  int32_t processors_;
  int64_t total_bytes_;
};

}  // namespace prefix::ops::gpu
