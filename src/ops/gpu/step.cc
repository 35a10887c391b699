#include "ops/gpu/step.h"

#include <algorithm>

#include "base/status.h"

namespace prefix::ops::gpu {

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
  if (path_) path_->place(staging);
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
