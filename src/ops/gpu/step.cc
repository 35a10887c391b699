#include "ops/gpu/step.h"

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
      step_arrays(*runtime, uploads),
      head_arrays(*runtime, uploads),
      not_finite(*runtime, uploads),
      logit_parts(*runtime),
      clusters(runtime->properties(), by_clusters),
      mma(*runtime, {by_warpgroups, options.invariant}) {}

GpuStep::GpuStep(Context& context, const StepArrays& arrays)
    : context_(context),
      arrays_(arrays),
      rows_(padded_rows(static_cast<int64_t>(arrays.tokens.size()))) {
  context_.runtime->bind_thread();
  context_.not_finite.begin(arrays.slots.size());
  Staging& staging = context_.step_arrays;
  staging.begin();
  tokens_ = staging.place(arrays.tokens, rows_);
  positions_ = staging.place(arrays.positions, rows_);
  rope_rows_ = staging.place(arrays.rope_rows, rows_);
  slots_ = staging.place(arrays.slots, rows_, 0xff);  // page -1: none
  not_finite_ = staging.place(context_.not_finite.zeros(), rows_);
  plan_attention();
  // What not every step has comes last: the rest keeps its addresses.
  reads_ = staging.place(arrays.reads);
  clear_ = staging.place(arrays.clear);
  const std::vector<PageCopy> copies = ordered_copies();
  copies_ = staging.place(std::span(copies));
  staging.send();
}

GpuStep::~GpuStep() {
  if (!ended()) context_.runtime->abort();
}

void GpuStep::wait() {
  fetch_not_finite();
  const uint64_t sent = context_.uploads.sent();
  check(*context_.runtime, context_.runtime->synchronize(), "a step");
  context_.uploads.finished(sent);
}

void GpuStep::fetch_not_finite() {
  context_.not_finite.fetch(context_.step_arrays.at(not_finite_));
}

std::span<const int32_t> GpuStep::not_finite() {
  if (!context_.not_finite.here()) wait();
  return context_.not_finite.flags();
}

}  // namespace prefix::ops::gpu
