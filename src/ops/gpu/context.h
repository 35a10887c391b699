// What the operations of the GPU device share: the runtime, the memory that a step's arrays go
// through, the ways of attention.
#pragma once

#include <memory>

#include "ops/devices.h"
#include "ops/gpu/attention_path.h"
#include "ops/gpu/launcher.h"
#include "ops/gpu/row_flags.h"
#include "ops/gpu/runtime.h"
#include "ops/gpu/staging.h"
#include "ops/gpu/step_graph.h"
#include "ops/op.h"

namespace prefix::ops {

struct GpuOptions {
  NumericTypes types;
  std::shared_ptr<Threads> threads;  // of the host, to read weights; null: the calling one alone
  bool invariant = false;
  bool graphs = true;  // steps that look alike are replayed
  CudaAttention small_steps = CudaAttention::kAuto;
  CudaAttention wide_items = CudaAttention::kAuto;
};

namespace gpu {

struct Context {
  Context(std::unique_ptr<Runtime> gpu_runtime, const GpuOptions& gpu_options);

  Element element() const {
    return options.types.weights == WeightFormat::kBf16 ? Element::kBf16 : Element::kF32;
  }

  const GpuOptions options;
  const std::unique_ptr<StepGraphs> runtime;
  const bool by_clusters;    // small steps are done so
  const bool by_warpgroups;  // wide items are
  Launcher launcher;
  Uploads uploads;
  // Memory outlives the step that it was taken for, and so do addresses in it.
  Staging step_arrays;
  Staging head_arrays;
  RowFlags not_finite;
  Buffer logit_parts;
  ClusterAttention clusters;
  MmaAttention mma;
  SlowAttention slow;
};

}  // namespace gpu
}  // namespace prefix::ops
