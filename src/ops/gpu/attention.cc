// Attention of a step: which way it takes, and what all of them have in common.
#include <initializer_list>

#include "base/status.h"
#include "ops/op_gpu.h"

namespace prefix::ops {
namespace {

constexpr float kLog2E = 1.44269504088896340736f;

}  // namespace

void GpuDevice::plan_attention(const StepArrays& step) {
  gpu::StepAttention attention;
  attention.plan = step.attention;
  attention.positions = step.positions;
  attention.heads = step.heads;
  attention.kv = step.kv;
  attention.small = is_small();
  planned_ = step.attention;
  mma_.forget();
  for (gpu::AttentionPath* const path :
       std::initializer_list<gpu::AttentionPath*>{&clusters_, &mma_, &slow_}) {
    path_ = path;
    if (path->plan(attention)) return;
  }
}

void GpuDevice::attention(const AttentionArgs& args, const KvLayout& kv, const std::byte* pool) {
  const AttentionPlan& plan = *args.plan;
  if (plan.tiles.empty()) return;
  const auto rows = static_cast<size_t>(plan.tiles.back().row_end);
  const std::span<const int32_t> positions(args.positions, rows);
  const bool staged = planned_ == &plan && step_.find(args.positions);
  if (!staged) {
    StepArrays alone;  // as a step of its own
    alone.positions = positions;
    alone.attention = &plan;
    alone.heads = args.heads;
    alone.kv = kv;
    begin_step(alone);
  }
  gpu::AttentionArguments a{};
  a.positions = on_device(positions);
  a.q = args.q.data;
  a.out = args.out.data;
  a.ld_q = args.q.ld;
  a.ld_out = args.out.ld;
  a.group_heads = args.heads / kv.kv_heads;
  a.rows = static_cast<int32_t>(padded(static_cast<int64_t>(rows)));
  a.scale_log2 = args.scale * kLog2E;
  a.pages = pages(kv, pool, args.layer);
  path_->launch(launcher_, step_, a, static_cast<int64_t>(rows));
  if (!staged) step_.forget();
}

}  // namespace prefix::ops
