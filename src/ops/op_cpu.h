// The CPU implementation of Device. Private to src/ops and its tests; others use make_cpu_device.
#pragma once

#include <memory>

#include "base/status.h"
#include "base/threads.h"
#include "ops/cpu/context.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/workspace.h"
#include "ops/op.h"
#include "ops/same_bits.h"

namespace prefix::ops {

class CpuSizes final : public DeviceSizes {
 public:
  // The kernels stay as long as these.
  CpuSizes(const NumericTypes& types, const KernelTable& kernels, int32_t workers);
  ComputeType compute_type() const override { return compute_type_; }
  size_t projection_bytes() const override { return sizeof(float); }
  int64_t act_ld(int64_t columns) const override;
  int64_t f32_ld(int64_t columns) const override;
  bool host_memory() const override { return true; }
  int64_t usable_bytes() const override;
  int64_t block_rows(int64_t rows) const override;
  int64_t max_rows_without_blocks(int64_t rows) const override;
  int64_t longest_block(int64_t rows) const override;
  int32_t workers() const override { return workers_; }
  size_t own_bytes() const override { return 0; }
  CpuWorkspace workspace(const ReserveShape& shape) const {
    return cpu_workspace(shape, types_, kernels_, workers_);
  }
  size_t workspace_bytes(const ReserveShape& shape) const override {
    return workspace(shape).bytes(workers_);
  }

 private:
  ComputeType compute_type_;
  NumericTypes types_;
  const KernelTable& kernels_;
  int64_t layer_rows_, block_step_;
  int32_t workers_;
};

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(const CpuOptions& options);
  // With the kernels of another table than that of options.isa, for tests.
  CpuDevice(const CpuOptions& options, const KernelTable& kernels);

  const CpuContext& context() const { return context_; }

  std::string_view name() const override { return "cpu"; }
  std::string_view isa() const override { return isa_name(isa_); }
  std::string numerics() const override {
    const NumericTypes& types = context_.types;
    std::string text(same_bits(types) ? "every level" : isa());
    if (types.int8 != 0) text += cat(" int8 ", types.int8);
    if (types.blocks) text += " blocks 1";
    if (types.kv == KvType::kInt8) text += " kv 3";  // that four pages of weights share a scale
    return text;
  }
  NumericTypes types() const override { return context_.types; }
  // An observer sees all rows.
  bool keeps_rows() const override { return context_.observer == nullptr; }
  const CpuSizes& sizes() const override { return sizes_; }

  std::byte* allocate(size_t bytes) override;
  void release(std::byte* data, size_t bytes) override;
  int64_t free_bytes() const override;
  size_t workspace_now() const override;
  std::unique_ptr<Step> begin_step(const StepArrays& arrays) override;

  PackedWeights pack_sources(WeightFormat format, int64_t n, int64_t k,
                             std::span<const WeightSource* const> sources,
                             const CalibrationRows* calibration) override;

  void rms_norm(const float* x, int64_t ld, const float* weight, float eps, int64_t rows, int64_t n,
                ActivationBuffer out) override;
  void rms_norm_f32(const float* x, int64_t ld, const float* weight, float eps, int64_t rows,
                    int64_t n, float* out, int64_t ld_out, bool add) override;
  void linear(const PackedWeights& w, const float* bias, ActivationBuffer x, int64_t rows, float* y,
              int64_t ld, bool add) override;
  void linear_gated(const PackedWeights& w, int64_t n, const float* bias_gate, const float* bias_up,
                    ActivationFn fn, ActivationBuffer x, int64_t rows,
                    ActivationBuffer out) override;
  void linear_adapted(const PackedWeights& w, const float* bias, const LowRankArgs& adapted,
                      ActivationBuffer x, int64_t rows, float* y, int64_t ld, bool add) override;
  void linear_in_slices(const PackedWeights& w, const float* bias, const LowRankArgs& adapted,
                        ActivationBuffer x, int64_t rows, float* y, int64_t ld, int64_t slice,
                        const std::function<void(int64_t first, int64_t count)>& each) override;
  void linear_gated_adapted(const PackedWeights& w, int64_t n, const float* bias_gate,
                            const float* bias_up, ActivationFn fn, const LowRankArgs& adapted,
                            ActivationBuffer x, int64_t rows, ActivationBuffer out) override;
  void gated_norm(const GatedNormArgs& args, int64_t rows, ActivationBuffer out) override;
  void multiply_sigmoid(const float* gate, int64_t ld, int64_t rows, int64_t n,
                        ActivationBuffer x) override;
  void multiply(const float* x, int64_t ld, int64_t rows, int64_t n, float* y,
                int64_t ld_y) override;
  void soft_cap(float* x, int64_t ld, int64_t rows, int64_t n, float cap) override;
  void squared_relu(const float* x, int64_t ld, int64_t rows, int64_t n,
                    ActivationBuffer out) override;
  void route(const RouteArgs& args, int64_t rows, ExpertSlots& slots) override;
  void experts(const ExpertsArgs& args, const ExpertSlots& slots) override;
  void convert(const float* x, int64_t ld, int64_t rows, int64_t n, ActivationBuffer out) override;
  void over_blocks(int64_t rows, const std::function<void(const RowBlock&)>& task) override;
  void parallel(int64_t n, const std::function<void(int64_t)>& task) override;

 private:
  void multiply_thin(const LowRankArgs& adapted, ActivationBuffer x);

  Isa isa_;
  std::shared_ptr<Threads> threads_;
  std::unique_ptr<Scratch[]> scratch_;  // one per thread
  std::unique_ptr<Scratch[]> wide_;     // as many
  Scratch partials_;
  CpuContext context_;
  CpuSizes sizes_;
  std::vector<std::unique_ptr<CpuDevice>>
      worker_devices_;               // for each of several threads one that has no other
  std::vector<int32_t> not_finite_;  // of each row of the last step
};

}  // namespace prefix::ops
