// The GPU implementation of Device: packs weights, stages a step, plans attention and turns each
// operation into launches of a Runtime (ops/gpu/runtime.h). It knows no CUDA: libprefix_cuda.so
// brings the runtime, and the tests bring one that runs on the CPU.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/threads.h"
#include "ops/devices.h"
#include "ops/gpu/attention_path.h"
#include "ops/gpu/downloads.h"
#include "ops/gpu/launcher.h"
#include "ops/gpu/runtime.h"
#include "ops/gpu/staging.h"
#include "ops/gpu/step_graph.h"
#include "ops/gpu/workspace.h"
#include "ops/op.h"

namespace prefix::ops {

struct GpuOptions {
  NumericTypes types;
  int threads = 1;  // of the host: reading weights, sampling
  bool invariant = false;
  bool graphs = true;  // steps that look alike are replayed
  CudaAttention small_steps = CudaAttention::kAuto;
  CudaAttention wide_items = CudaAttention::kAuto;
};

class GpuDevice final : public Device {
 public:
  GpuDevice(std::unique_ptr<gpu::Runtime> runtime, const GpuOptions& options);
  ~GpuDevice() override;

  gpu::Runtime& runtime() { return *runtime_; }
  const gpu::DevicePlan& attention_plan() const { return mma_.schedule(); }
  const gpu::DecodePlan& decode_plan() const { return clusters_.schedule(); }

  std::string_view name() const override { return "cuda"; }
  std::string_view isa() const override { return isa_; }
  std::string numerics() const override;
  std::string_view page_layout() const override { return gpu::kPageLayout; }
  NumericTypes types() const override { return options_.types; }
  const DeviceSizes& sizes() const override { return sizes_; }

  std::byte* allocate(size_t bytes) override;
  void release(std::byte* data, size_t bytes) override;
  void upload(void* device, const void* host, size_t bytes) override;
  void download(void* host, const void* device, size_t bytes) override;
  void download_all(std::span<const Download> pieces) override { downloads_.run(pieces); }
  int64_t free_bytes() const override { return runtime_->free_bytes(); }
  int32_t tile_rows() const override { return 128; }
  void reserve(const ReserveShape& shape) override;
  void rehearse(int64_t most, const std::function<void(int64_t rows)>& step) override;
  int64_t padded_rows(int64_t rows) const override;
  std::byte* allocate_host(size_t bytes) override;
  void release_host(std::byte* data, size_t bytes) override;
  void begin_step(const StepArrays& step) override;
  std::span<const int32_t> not_finite() override;
  void finish_step() override;
  void abort_step() override { runtime_->abandon(); }
  gpu::StepGraphs::Counts graph_counts() const { return runtime_->counts(); }
  // How often a kernel was asked for, replayed or not.
  int64_t launches(gpu::Kernel kernel) const { return runtime_->launches(kernel); }
  void begin_heads(const HeadArrays& heads) override;

  PackedWeights pack(int64_t n, int64_t k, const WeightSource& rows) override;
  PackedWeights pack_gated(int64_t n, int64_t k, const WeightSource& gate,
                           const WeightSource& up) override;

  void embed(const PackedWeights& w, std::span<const int32_t> ids, float scale, float* out,
             int64_t ld) override;
  void rms_norm(const float* x, int64_t ld, const float* weight, float eps, int64_t rows, int64_t n,
                Act out) override;
  void rms_norm_f32(const float* x, int64_t ld, const float* weight, float eps, int64_t rows,
                    int64_t n, float* out, int64_t ld_out, bool add) override;
  void linear(const PackedWeights& w, const float* bias, Act x, int64_t rows, float* y, int64_t ld,
              bool add) override;
  void project(const PackedWeights& w, const float* bias, Act x, int64_t rows, void* y,
               int64_t ld) override;
  void linear_gated(const PackedWeights& w, int64_t n, const float* bias_gate, const float* bias_up,
                    Activation act, Act x, int64_t rows, Act out) override;
  void qkv(const QkvArgs& args, std::span<const int32_t> positions, std::span<const KvSlot> slots,
           const KvLayout& kv, std::byte* pool, int32_t layer, Act q) override;
  void copy_pages(std::span<const PageCopy> copies, const KvLayout& kv, std::byte* pool,
                  int32_t layer) override;
  void clear_pages(std::span<const int32_t> pages, const KvLayout& kv, std::byte* pool) override;
  void attention(const AttentionArgs& args, const KvLayout& kv, const std::byte* pool) override;
  void gather_rows(const float* x, int64_t ld, std::span<const int32_t> rows, int64_t n, float* out,
                   int64_t ld_out) override;
  void convert(const float* x, int64_t ld, int64_t rows, int64_t n, Act out) override;
  void row_stats(const LogitBlock& block, std::span<const uint8_t> wants, RowStats* out) override;
  void gather_logits(const LogitBlock& block, std::span<const LogitAt> targets,
                     float* out) override;
  void top_candidates(const LogitBlock& block, std::span<const int32_t> rows, int32_t k,
                      Candidate* out) override;
  void parallel(int64_t n, const std::function<void(int64_t)>& task) override;

 private:
  gpu::Element element() const {
    return compute_type() == ComputeType::kBf16 ? gpu::Element::kBf16 : gpu::Element::kF32;
  }
  void multiply(const gpu::GemmArgs& args);
  gpu::Pages pages(const KvLayout& kv, const std::byte* pool, int32_t layer) const;
  PackedWeights pack_from(PackedWeights shape, std::span<const WeightSource* const> sources,
                          int64_t n);
  // Which way the attention of the step takes.
  void plan_attention(const StepArrays& step);
  // Rows that an operation works on: those of the step are padded, so that steps look alike.
  int64_t padded(int64_t rows) const { return rows == rows_ ? padded_rows_ : rows; }
  bool is_small() const { return rows_ > 0 && rows_ <= 256; }
  void order_copies(std::span<const PageCopy> copies);
  void fetch_flags();
  void reserve_flags(size_t rows);
  // The device address of an array that the step, its heads or the call have staged. The interface
  // names operands by their host arrays; a plan's own arrays need no such search (gpu::Staged).
  template <typename T>
  const T* on_device(std::span<const T> array) const {
    if (const T* known = step_.find(array.data())) return known;
    if (const T* known = heads_.find(array.data())) return known;
    if (const T* known = call_.find(array.data())) return known;
    PREFIX_CHECK(array.empty());
    return nullptr;
  }
  // Arrays that neither the step nor its heads announced go up with the call.
  template <typename... Spans>
  void stage_call(const Spans&... spans) {
    const auto known = [&](const auto& span) {
      return span.empty() || step_.find(span.data()) || heads_.find(span.data());
    };
    if ((known(spans) && ...)) return;
    call_.begin();
    (call_.place(spans), ...);
    call_.send();
  }

  std::unique_ptr<gpu::StepGraphs> runtime_;
  GpuOptions options_;
  gpu::GpuSizes sizes_;
  Threads threads_;
  std::string isa_;
  const bool by_clusters_;    // small steps are done so
  const bool by_warpgroups_;  // wide items are
  gpu::Launcher launcher_;
  gpu::Uploads uploads_;
  gpu::Downloads downloads_;
  gpu::Staging step_;
  gpu::Staging heads_;
  gpu::Staging call_;

  bool rehearsing_ = false;
  // Of the step, until its rows are selected.
  int64_t rows_ = 0, padded_rows_ = 0;
  // Of each row of the step: what Device::not_finite() tells, in pinned memory, and zeros as long.
  int32_t* flags_ = nullptr;
  size_t flags_room_ = 0;
  std::vector<int32_t> no_flags_;
  bool flags_coming_ = false, flags_here_ = false;
  const AttentionPlan* planned_ = nullptr;
  gpu::ClusterAttention clusters_;
  gpu::MmaAttention mma_;
  gpu::SlowAttention slow_;
  gpu::AttentionPath* path_ = &slow_;  // of the step
  const PageCopy* ordered_ = nullptr;  // whose waves these are
  std::vector<PageCopy> copies_;       // in waves
  std::vector<int32_t> waves_;         // ends in copies_

  gpu::Buffer gated_;
  gpu::Buffer logit_parts_;  // of row_stats() and top_candidates()
};

}  // namespace prefix::ops
