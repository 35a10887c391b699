// The GPU implementation of Device: packs weights, begins steps (gpu/step.h) and turns each
// operation into launches of a Runtime (ops/gpu/runtime.h). It knows no CUDA: libprefix_cuda.so
// brings the runtime, and the tests bring one that runs on the CPU.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/threads.h"
#include "ops/gpu/downloads.h"
#include "ops/gpu/step.h"
#include "ops/gpu/workspace.h"
#include "ops/op.h"

namespace prefix::ops {

class GpuDevice final : public Device {
 public:
  GpuDevice(std::unique_ptr<gpu::Runtime> runtime, const GpuOptions& options);

  gpu::Runtime& runtime() { return *context_.runtime; }
  const gpu::DevicePlan& attention_plan() const { return context_.mma.schedule(); }
  const gpu::DecodePlan& decode_plan() const { return context_.clusters.schedule(); }

  std::string_view name() const override { return "cuda"; }
  std::string_view isa() const override { return isa_; }
  std::string numerics() const override;
  std::string_view page_layout() const override { return gpu::kPageLayout; }
  NumericTypes types() const override { return context_.options.types; }
  const DeviceSizes& sizes() const override { return sizes_; }

  std::byte* allocate(size_t bytes) override;
  void release(std::byte* data, size_t bytes) override;
  void upload(void* device, const void* host, size_t bytes) override;
  void download(void* host, const void* device, size_t bytes) override;
  void download_all(std::span<const Download> pieces) override { downloads_.run(pieces); }
  int64_t free_bytes() const override { return context_.runtime->free_bytes(); }
  int32_t tile_rows() const override { return gpu::kPlanTileRows; }
  void reserve(const ReserveShape& shape) override;
  void warm_up(int64_t max_rows, const std::function<void(int64_t rows)>& step) override;
  int64_t padded_rows(int64_t rows) const override;
  std::byte* allocate_host(size_t bytes) override;
  void release_host(std::byte* data, size_t bytes) override;
  std::unique_ptr<Step> begin_step(const StepArrays& arrays) override;
  gpu::StepGraphs::Counts graph_counts() const { return context_.runtime->counts(); }
  // How often a kernel was asked for, replayed or not.
  int64_t launches(gpu::Kernel kernel) const { return context_.runtime->launches(kernel); }

  PackedWeights pack_sources(WeightFormat format, int64_t n, int64_t k,
                             std::span<const WeightSource* const> sources,
                             const CalibrationRows* calibration) override;

  void rms_norm(const float* x, int64_t ld, const float* weight, float eps, int64_t rows, int64_t n,
                ActivationBuffer out) override;
  void rms_norm_f32(const float* x, int64_t ld, const float* weight, float eps, int64_t rows,
                    int64_t n, float* out, int64_t ld_out, bool add) override;
  void linear(const PackedWeights& w, const float* bias, ActivationBuffer x, int64_t rows, float* y,
              int64_t ld, bool add) override;
  void project(const PackedWeights& w, const float* bias, ActivationBuffer x, int64_t rows, void* y,
               int64_t ld) override;
  void linear_gated(const PackedWeights& w, int64_t n, const float* bias_gate, const float* bias_up,
                    ActivationFn fn, ActivationBuffer x, int64_t rows,
                    ActivationBuffer out) override;
  // Of recurrent layers, gated attention, feed-forward without a gate or with experts: refused on a
  // GPU.
  void gated_norm(const GatedNormArgs&, int64_t, ActivationBuffer) override { PREFIX_CHECK(false); }
  void multiply_sigmoid(const float*, int64_t, int64_t, int64_t, ActivationBuffer) override {
    PREFIX_CHECK(false);
  }
  void multiply(const float*, int64_t, int64_t, int64_t, float*, int64_t) override {
    PREFIX_CHECK(false);
  }
  void squared_relu(const float*, int64_t, int64_t, int64_t, ActivationBuffer) override {
    PREFIX_CHECK(false);
  }
  void route(const RouteArgs&, int64_t, ExpertSlots&) override { PREFIX_CHECK(false); }
  void experts(const ExpertsArgs&, const ExpertSlots&) override { PREFIX_CHECK(false); }
  void soft_cap(float*, int64_t, int64_t, int64_t, float) override { PREFIX_CHECK(false); }
  void convert(const float* x, int64_t ld, int64_t rows, int64_t n, ActivationBuffer out) override;
  void parallel(int64_t n, const std::function<void(int64_t)>& task) override;

 private:
  void product(const PackedWeights& w, int64_t columns, const float* bias, ActivationBuffer x,
               int64_t rows, void* y, int64_t ld, gpu::Output output);

  gpu::Context context_;
  gpu::GpuSizes sizes_;
  std::shared_ptr<Threads> threads_;
  std::string isa_;
  gpu::Downloads downloads_;
  gpu::Buffer gated_;
  bool warming_up_ = false;
};

}  // namespace prefix::ops
