// Attention of a step: which way it takes, and what all of them have in common.
#include <initializer_list>

#include "base/status.h"
#include "ops/gpu/step.h"

namespace prefix::ops::gpu {
namespace {

constexpr float kLog2E = 1.44269504088896340736f;
// Steps of so many rows are padded so that they look alike.
constexpr size_t kSmallRows = 256;

}  // namespace

void GpuStep::plan_attention() {
  context_.mma.forget();
  if (arrays_.attention.empty()) return;
  PREFIX_CHECK(arrays_.attention.size() == 1 && arrays_.attention.front().window == 0);
  StepAttention attention;
  attention.plan = &arrays_.attention.front();
  attention.positions = arrays_.positions;
  attention.heads = arrays_.heads;
  attention.kv = arrays_.kv;
  attention.small = !arrays_.tokens.empty() && arrays_.tokens.size() <= kSmallRows;
  for (AttentionPath* const path :
       std::initializer_list<AttentionPath*>{&context_.clusters, &context_.mma, &context_.slow}) {
    path_ = path;
    if (path->plan(attention)) return;
  }
}

void GpuStep::attention(const AttentionArgs& args) {
  PREFIX_CHECK(args.plan == 0 && args.soft_cap == 0 && args.sinks == nullptr);
  if (arrays_.attention.front().tiles.empty()) return;
  AttentionOperands a{};
  a.positions = context_.step_arrays.at(positions_);
  a.q = args.q.data;
  a.out = args.out.data;
  a.ld_q = args.q.ld;
  a.ld_out = args.out.ld;
  a.group_heads = arrays_.heads / arrays_.kv.kv_heads;
  a.scale_log2 = args.scale * kLog2E;
  a.pages = pages(args.layer);
  path_->launch(context_.launcher, context_.step_arrays, a);
}

}  // namespace prefix::ops::gpu
