#include "ops/gpu/context.h"

#include <utility>

#include "base/status.h"

namespace prefix::ops::gpu {
namespace {

// Whether the kernels of capability 9.0 are taken.
bool takes_hopper(CudaAttention wanted, const Properties& p, bool invariant) {
  if (wanted == CudaAttention::kMma) return false;
  if (wanted == CudaAttention::kAuto) return p.hopper && !invariant;
  if (invariant) fail(Code::kInvalidArgument, "cuda_attention=hopper does not keep invariant=true");
  if (!p.hopper)
    fail(Code::kUnsupportedDevice, "cuda_attention=hopper needs compute capability 9.0; \"", p.name,
         "\" has ", p.capability / 10, ".", p.capability % 10);
  return true;
}

}  // namespace

Context::Context(std::unique_ptr<Runtime> gpu_runtime, const GpuOptions& gpu_options)
    : options(gpu_options),
      runtime(std::make_unique<StepGraphs>(std::move(gpu_runtime), options.graphs)),
      by_clusters(takes_hopper(options.small_steps, runtime->properties(), options.invariant)),
      by_warpgroups(takes_hopper(options.wide_items, runtime->properties(), options.invariant)),
      launcher(*runtime),
      step_arrays(*runtime, uploads),
      head_arrays(*runtime, uploads),
      not_finite(*runtime, uploads),
      logit_parts(*runtime),
      clusters(runtime->properties(), by_clusters),
      mma(*runtime, {by_warpgroups, options.invariant}) {}

}  // namespace prefix::ops::gpu
