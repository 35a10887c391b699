// A step of the GPU device: its arrays staged, its attention planned, each operation some launches.
// Its operations are in rows.cc, pages.cc, attention.cc and heads.cc. Context is what it shares with
// other steps and with the device.
#pragma once

#include <memory>
#include <vector>

#include "base/status.h"
#include "ops/devices.h"
#include "ops/gpu/attention_path.h"
#include "ops/gpu/staging.h"
#include "ops/gpu/step_graph.h"
#include "ops/step.h"

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

class GpuStep final : public Step {
 public:
  GpuStep(Context& context, const StepArrays& arrays);
  ~GpuStep() override;

  int64_t rows() const override { return rows_; }
  void clear_pages() override;
  void embed(const PackedWeights& w, float scale, float* out, int64_t ld) override;
  void qkv(const QkvArgs& args) override;
  void copy_pages(int32_t layer) override;
  void attention(const AttentionArgs& args) override;
  // Models with recurrent layers are refused before a step of theirs begins.
  void conv(const ConvArgs&) override { PREFIX_CHECK(false); }
  void scan(const Mamba2Args&) override { PREFIX_CHECK(false); }
  void scan(const GatedDeltaArgs&) override { PREFIX_CHECK(false); }
  std::span<const int32_t> not_finite() override;

  void begin_heads(const HeadArrays& arrays) override;
  void gather_rows(const float* x, int64_t ld, int64_t n, float* out, int64_t ld_out) override;
  void row_stats(const LogitBlock& block, RowStats* out) override;
  void gather_logits(const LogitBlock& block, float* out) override;
  void top_candidates(const LogitBlock& block, Candidate* out) override;
  void wait() override;

 private:
  // Chooses which way the attention of the step takes, and stages its plan.
  void plan_attention();
  // The copies in waves, whose ends go to copy_launches_.
  std::vector<PageCopy> ordered_copies();
  void fetch_not_finite();
  Pages pages(int32_t layer) const;

  Context& context_;
  const StepArrays arrays_;
  const int64_t rows_;  // with padding
  AttentionPath* path_ = nullptr;
  std::vector<int32_t> copy_launches_;
  // On the device.
  Staged<int32_t> tokens_, positions_, rope_rows_, not_finite_, reads_, clear_;
  Staged<KvSlot> slots_;
  Staged<PageCopy> copies_;

  HeadArrays heads_;
  const int32_t* selected_ = nullptr;  // heads_.rows, on the device
  Staged<LogitAt> targets_;
  Staged<int32_t> candidate_rows_;
};

}  // namespace gpu
}  // namespace prefix::ops
