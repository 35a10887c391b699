#include "ops/op_gpu.h"

#include "base/log.h"
#include "base/status.h"

namespace prefix::ops {

GpuDevice::GpuDevice(std::unique_ptr<gpu::Runtime> runtime, const GpuOptions& options)
    : context_(std::move(runtime), options),
      sizes_(options.types, context_.runtime->properties().processors,
             context_.runtime->properties().total_bytes),
      threads_(options.threads ? options.threads : std::make_shared<Threads>(1)),
      isa_(cat("sm_", context_.runtime->properties().capability)),
      downloads_(*context_.runtime, context_.uploads, *threads_),
      gated_(*context_.runtime) {
  const gpu::Properties& p = context_.runtime->properties();
  if (context_.by_clusters && p.clusters[0] == 0)
    log_message(LogLevel::kWarning,
                "the device says that no cluster runs at once; attention of small steps is left to "
                "the other kernel");
}

// Processors, clusters and the versions of the libraries decide how attention is cut and which
// algorithms multiply matrices.
std::string GpuDevice::numerics() const {
  const gpu::Properties& p = context_.runtime->properties();
  std::string text = cat(isa_, context_.options.invariant ? " invariant " : " ", p.processors, ' ',
                         p.gemm_version, context_.by_warpgroups ? " warpgroups" : "");
  if (!context_.by_clusters) return text;
  text += " clusters";
  for (const int32_t count : p.clusters) text += cat(' ', count);
  return text;
}

// --- memory --------------------------------------------------------------------------------------

std::byte* GpuDevice::allocate(size_t bytes) {
  void* data = nullptr;
  check(*context_.runtime, context_.runtime->allocate(bytes, &data), "device memory");
  return static_cast<std::byte*>(data);
}

void GpuDevice::release(std::byte* data, size_t) { context_.runtime->release(data); }

std::byte* GpuDevice::allocate_host(size_t bytes) {
  void* data = nullptr;
  check(*context_.runtime, context_.runtime->allocate_pinned(bytes, &data), "pinned memory");
  return static_cast<std::byte*>(data);
}

void GpuDevice::release_host(std::byte* data, size_t) { context_.runtime->release_pinned(data); }

void GpuDevice::upload(void* device, const void* host, size_t bytes) {
  check(*context_.runtime, context_.runtime->upload(device, host, bytes), "upload");
}

void GpuDevice::download(void* host, const void* device, size_t bytes) {
  const uint64_t sent = context_.uploads.sent();
  check(*context_.runtime, context_.runtime->download(host, device, bytes), "download");
  if (bytes > 0) context_.uploads.finished(sent);
}

void GpuDevice::parallel(int64_t n, const std::function<void(int64_t)>& task) {
  threads_->run(n, [&](int64_t index, int) { task(index); });
}

// --- steps ---------------------------------------------------------------------------------------

void GpuDevice::reserve(const ReserveShape& shape) {
  const gpu::Workspace w = sizes_.workspace(shape);
  gated_.reserve(w.gated);
  context_.mma.reserve(w);
  context_.step_arrays.reserve(w.step);
  context_.head_arrays.reserve(w.heads);
  context_.logit_parts.reserve(w.logit_parts);
  context_.not_finite.reserve(static_cast<size_t>(shape.rows));
}

std::unique_ptr<Step> GpuDevice::begin_step(const StepArrays& arrays) {
  try {
    return std::make_unique<gpu::GpuStep>(context_, arrays);
  } catch (...) {
    context_.runtime->abort();
    throw;
  }
}

}  // namespace prefix::ops
