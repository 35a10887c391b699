// The ways in which the attention of a step is computed. A step takes the first that suits it:
//
//   ClusterAttention   small steps, by clusters of blocks           sm_90a, heads of 64 and 128
//   MmaAttention       wide and narrow items on tensor cores;       bf16, heads up to 256
//                      wide ones by warpgroups where there are      sm_90a, heads of 64 and 128
//   SlowAttention      a warp a row and head                        any type, heads up to 1024
//
//   plan(step, staging) ──> send ──> launch(...) for each layer
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/attention_plan.h"
#include "ops/gpu/attention_schedule.h"
#include "ops/gpu/decode_schedule.h"
#include "ops/gpu/staging.h"
#include "ops/gpu/workspace.h"
#include "ops/op.h"

namespace prefix::ops::gpu {

// The attention of a step; it outlives the use of its plan.
struct StepAttention {
  const AttentionPlan* plan = nullptr;
  std::span<const int32_t> positions;  // of all rows
  int32_t heads = 0;
  KvLayout kv;
  bool small = false;  // padded so that steps look alike

  int32_t group_heads() const { return heads / kv.kv_heads; }
  // Of two kernels for sm_90a that for the size of a head; kCount where there is none.
  Kernel of_head(Kernel of_64, Kernel of_128) const {
    if (kv.type != KvType::kBf16) return Kernel::kCount;
    return kv.head_dim == 64 ? of_64 : kv.head_dim == 128 ? of_128 : Kernel::kCount;
  }
};

class AttentionPath {
 public:
  virtual ~AttentionPath() = default;
  // Whether the step suits: then the arrays of its plan are among those that go up with it, and
  // launches are about it.
  virtual bool plan(const StepAttention& step, Staging& staging) = 0;
  virtual void launch(Runtime& runtime, const Staging& staging, const AttentionOperands& layer) = 0;
};

class ClusterAttention final : public AttentionPath {
 public:
  ClusterAttention(const Properties& properties, bool enabled)
      : properties_(properties), enabled_(enabled) {}

  bool plan(const StepAttention& step, Staging& staging) override;
  void launch(Runtime& runtime, const Staging& staging, const AttentionOperands& layer) override;
  const DecodePlan& schedule() const { return schedule_; }

 private:
  const Properties& properties_;
  const bool enabled_;
  Kernel kernel_ = Kernel::kCount;
  DecodePlan schedule_;
  Staged<DecodeSplit> splits_;
  Staged<DecodePage> pages_;
};

class MmaAttention final : public AttentionPath {
 public:
  struct Options {
    bool warpgroups = false;
    bool invariant = false;
  };
  MmaAttention(Runtime& runtime, const Options& options)
      : properties_(runtime.properties()),
        options_(options),
        partials_(runtime),
        arrived_(runtime) {}

  // Takes the memory that plans keep to.
  void reserve(const Workspace& workspace);

  bool plan(const StepAttention& step, Staging& staging) override;
  void launch(Runtime& runtime, const Staging& staging, const AttentionOperands& layer) override;
  const DevicePlan& schedule() const { return schedule_; }
  void forget() { schedule_.clear(); }

 private:
  void pad();
  void launch_range(Runtime& runtime, std::span<const WorkItem> items, bool merges,
                    AttentionKernelArgs args) const;
  void list_wide(const StepAttention& step);
  WideItem list_pages(const StepAttention& step, const WorkItem& item);

  const Properties& properties_;
  const Options options_;
  int32_t max_partials_ = INT32_MAX;
  Buffer partials_;
  Buffer arrived_;
  Kernel kernel_ = Kernel::kCount;
  Kernel wide_kernel_ = Kernel::kCount;  // of wide items, if it is another one
  DevicePlan schedule_;
  Staged<WorkItem> items_;
  Staged<WideItem> wide_;
  Staged<WidePage> wide_pages_;
  Staged<KvRun> runs_;
  Staged<ReductionGroup> groups_;
  Staged<int32_t> pages_;
};

class SlowAttention final : public AttentionPath {
 public:
  bool plan(const StepAttention& step, Staging& staging) override;
  void launch(Runtime& runtime, const Staging& staging, const AttentionOperands& layer) override;

 private:
  int64_t rows_ = 0;
  std::vector<int32_t> tile_of_row_;
  Staged<int32_t> staged_tile_of_row_, pages_;
  Staged<AttentionTile> tiles_;
  Staged<KvRun> runs_;
};

}  // namespace prefix::ops::gpu
