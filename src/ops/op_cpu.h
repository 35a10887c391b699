// The CPU implementation of Device. Private to src/ops and its tests; others use make_cpu_device.
#pragma once

#include <memory>

#include "base/threads.h"
#include "ops/cpu/context.h"
#include "ops/cpu/isa.h"
#include "ops/op.h"

namespace prefix::ops {

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(const CpuOptions& options);

  const CpuContext& context() const { return context_; }

  std::string_view name() const override { return "cpu"; }
  std::string_view isa() const override { return isa_name(isa_); }
  DType dtype() const override { return context_.dtype; }
  size_t act_bytes() const override { return context_.act_bytes(); }
  int64_t act_ld(int64_t columns) const override;

  std::byte* allocate(size_t bytes) override;
  void release(std::byte* data, size_t bytes) override;
  int64_t free_bytes() const override;
  void begin_step(const StepArrays& step) override { not_finite_.assign(step.tokens.size(), 0); }
  std::span<const int32_t> not_finite() override { return not_finite_; }

  Matrix pack(int64_t n, int64_t k, const RowReader& rows) override;
  Matrix pack_gated(int64_t n, int64_t k, const RowReader& gate, const RowReader& up) override;

  void embed(const Matrix& w, std::span<const int32_t> ids, float scale, float* out,
             int64_t ld) override;
  void rms_norm(const float* x, int64_t ld, const float* weight, float eps, int64_t rows, int64_t n,
                Act out) override;
  void rms_norm_f32(const float* x, int64_t ld, const float* weight, float eps, int64_t rows,
                    int64_t n, float* out, int64_t ld_out, bool add) override;
  void linear(const Matrix& w, const float* bias, Act x, int64_t rows, float* y, int64_t ld,
              bool add) override;
  void linear_gated(const Matrix& w, int64_t n, const float* bias_gate, const float* bias_up,
                    Activation act, Act x, int64_t rows, Act out) override;
  void qkv(const QkvArgs& args, std::span<const int32_t> positions, std::span<const KvSlot> slots,
           const KvLayout& kv, std::byte* pool, int32_t layer, Act q) override;
  void copy_pages(std::span<const PageCopy> copies, const KvLayout& kv, std::byte* pool,
                  int32_t layer) override;
  void clear_pages(std::span<const int32_t> pages, const KvLayout& kv, std::byte* pool) override;
  void attention(const AttentionArgs& args, const KvLayout& kv, const std::byte* pool) override;
  void convert(const float* x, int64_t ld, int64_t rows, int64_t n, Act out) override;
  void parallel(int64_t n, const std::function<void(int64_t)>& task) override;
  void gather_rows(const float* x, int64_t ld, std::span<const int32_t> rows, int64_t n, float* out,
                   int64_t ld_out) override;
  void row_stats(const LogitBlock& block, std::span<const uint8_t> wants, RowStats* out) override;
  void gather_logits(const LogitBlock& block, std::span<const LogitAt> targets,
                     float* out) override;
  void top_candidates(const LogitBlock& block, std::span<const int32_t> rows, int32_t k,
                      Candidate* out) override;

 private:
  Matrix pack_from(int64_t n_total, int64_t k, std::span<const RowReader* const> readers,
                   int64_t n_each);

  Isa isa_;
  Threads threads_;
  std::unique_ptr<Scratch[]> scratch_;  // one per thread
  Scratch partials_;
  CpuContext context_;
  std::vector<int32_t> not_finite_;  // of each row of the step
};

}  // namespace prefix::ops
