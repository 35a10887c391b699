#include "ops/op_gpu.h"

#include <algorithm>

#include "base/log.h"
#include "base/status.h"

namespace prefix::ops {
namespace {

// Whether the kernels of capability 9.0 are taken.
bool takes_hopper(CudaAttention wanted, const gpu::Properties& p, bool invariant) {
  if (wanted == CudaAttention::kMma) return false;
  if (wanted == CudaAttention::kAuto) return p.hopper && !invariant;
  if (invariant) fail(Code::kInvalidArgument, "cuda_attention=hopper does not keep invariant=true");
  if (!p.hopper)
    fail(Code::kUnsupportedDevice, "cuda_attention=hopper needs compute capability 9.0; \"", p.name,
         "\" has ", p.capability / 10, ".", p.capability % 10);
  return true;
}

}  // namespace

GpuDevice::GpuDevice(std::unique_ptr<gpu::Runtime> runtime, const GpuOptions& options)
    : runtime_(std::make_unique<gpu::StepGraphs>(std::move(runtime), options.graphs)),
      options_(options),
      sizes_(options.types, runtime_->properties().processors, runtime_->properties().total_bytes),
      threads_(std::max(1, options.threads)),
      isa_(cat("sm_", runtime_->properties().capability)),
      by_clusters_(takes_hopper(options.small_steps, runtime_->properties(), options.invariant)),
      by_warpgroups_(takes_hopper(options.wide_items, runtime_->properties(), options.invariant)),
      launcher_(*runtime_),
      downloads_(*runtime_, uploads_, threads_),
      step_(*runtime_, uploads_),
      heads_(*runtime_, uploads_),
      call_(*runtime_, uploads_),
      clusters_(runtime_->properties(), by_clusters_),
      mma_(*runtime_, {by_warpgroups_, options.invariant}),
      gated_(*runtime_),
      logit_parts_(*runtime_) {
  const gpu::Properties& p = runtime_->properties();
  if (p.capability < 80)
    fail(Code::kUnsupportedDevice, "device \"", p.name, "\" has compute capability ",
         p.capability / 10, ".", p.capability % 10, "; bf16 tensor cores need 8.0");
  if (by_clusters_ && p.clusters[0] == 0)
    log_message(LogLevel::kWarning,
                "the device says that no cluster runs at once; attention of small steps is left to "
                "the other kernel");
}

GpuDevice::~GpuDevice() { runtime_->release_pinned(flags_); }

// Processors, clusters and the versions of the libraries decide how attention is cut and which
// algorithms multiply matrices.
std::string GpuDevice::numerics() const {
  const gpu::Properties& p = runtime_->properties();
  std::string text = cat(isa_, options_.invariant ? " invariant " : " ", p.processors, ' ',
                         p.products_version, by_warpgroups_ ? " warpgroups" : "");
  if (!by_clusters_) return text;
  text += " clusters";
  for (const int32_t count : p.clusters) text += cat(' ', count);
  return text;
}

// --- memory --------------------------------------------------------------------------------------

std::byte* GpuDevice::allocate(size_t bytes) {
  void* data = nullptr;
  check(*runtime_, runtime_->allocate(bytes, &data), "device memory");
  return static_cast<std::byte*>(data);
}

void GpuDevice::release(std::byte* data, size_t) { runtime_->release(data); }

std::byte* GpuDevice::allocate_host(size_t bytes) {
  void* data = nullptr;
  check(*runtime_, runtime_->allocate_pinned(bytes, &data), "pinned memory");
  return static_cast<std::byte*>(data);
}

void GpuDevice::release_host(std::byte* data, size_t) { runtime_->release_pinned(data); }

void GpuDevice::upload(void* device, const void* host, size_t bytes) {
  check(*runtime_, runtime_->upload(device, host, bytes), "upload");
}

void GpuDevice::download(void* host, const void* device, size_t bytes) {
  const uint64_t sent = uploads_.sent();
  check(*runtime_, runtime_->download(host, device, bytes), "download");
  if (bytes > 0) uploads_.finished(sent);
  flags_here_ = flags_here_ || (flags_coming_ && bytes > 0);
}

void GpuDevice::finish_step() {
  fetch_flags();
  const uint64_t sent = uploads_.sent();
  check(*runtime_, runtime_->synchronize(), "a step");
  uploads_.finished(sent);
  flags_here_ = flags_coming_;
}

// The flags went up as zeros with the other arrays of the step. They come back with whatever is
// waited for next, so that they cost no wait of their own.
void GpuDevice::fetch_flags() {
  const std::span<const int32_t> flags(no_flags_);
  if (flags_coming_ || flags.empty()) return;
  reserve_flags(flags.size());
  check(*runtime_, runtime_->begin_download(flags_, on_device(flags), flags.size_bytes()),
        "the flags of a step");
  flags_coming_ = true;
}

void GpuDevice::reserve_flags(size_t rows) {
  if (rows <= flags_room_) return;
  runtime_->release_pinned(flags_);
  flags_ = nullptr;
  flags_room_ = 0;
  flags_ = reinterpret_cast<int32_t*>(allocate_host(rows * sizeof(int32_t)));
  flags_room_ = rows;
}

std::span<const int32_t> GpuDevice::not_finite() {
  if (!flags_here_) finish_step();
  return {flags_, no_flags_.size()};
}

void GpuDevice::parallel(int64_t n, const std::function<void(int64_t)>& task) {
  threads_.run(n, [&](int64_t index, int) { task(index); });
}

// --- steps ---------------------------------------------------------------------------------------

void GpuDevice::reserve(const ReserveShape& shape) {
  const gpu::Workspace w = sizes_.workspace(shape);
  gated_.reserve(w.gated);
  mma_.reserve(w);
  step_.reserve(w.step);
  call_.reserve(w.call);
  heads_.reserve(w.heads);
  logit_parts_.reserve(w.logit_parts);
  reserve_flags(static_cast<size_t>(shape.rows));
}

void GpuDevice::begin_step(const StepArrays& step) {
  runtime_->launches_here();
  rows_ = static_cast<int64_t>(step.tokens.size());
  padded_rows_ = gpu::padded_rows(rows_);
  heads_.forget();
  step_.begin();
  step_.place(step.tokens, padded_rows_, 0);
  step_.place(step.positions, padded_rows_, 0);
  step_.place(step.rope_rows, padded_rows_, 0);
  step_.place(step.slots, padded_rows_, 0xff);  // page -1: none
  no_flags_.assign(step.tokens.size(), 0);
  flags_coming_ = flags_here_ = false;
  step_.place(std::span<const int32_t>(no_flags_), padded_rows_, 0);
  plan_attention(step);
  path_->place(step_);
  // What not every step has comes last: the rest keeps its addresses.
  step_.place(step.reads);
  if (step.clear.size() <= gpu::kMostCleared) step_.place(step.clear);
  order_copies(step.copies);
  step_.place(std::span<const PageCopy>(copies_));
  step_.send();
}

}  // namespace prefix::ops
