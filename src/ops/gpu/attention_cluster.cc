// Attention of small steps by clusters (kernels/body/attention_decode.h).
#include "ops/gpu/attention_path.h"

namespace prefix::ops::gpu {

bool ClusterAttention::plan(const StepAttention& step) {
  schedule_.clear();
  if (!enabled_) return false;
  kernel_ = step.of_head(Kernel::kAttentionDecode64, Kernel::kAttentionDecode128);
  if (kernel_ == Kernel::kCount) return false;
  const DecodeShape shape{step.kv.kv_heads, step.group_heads(), properties_.clusters};
  return plan_decode(*step.plan, step.positions, shape, schedule_);
}

void ClusterAttention::place(Staging& staging) {
  splits_ = staging.place(std::span<const DecodeSplit>(schedule_.splits));
  pages_ = staging.place(std::span<const DecodePage>(schedule_.pages));
}

void ClusterAttention::launch(Launcher& launcher, const Staging& staging,
                              const AttentionOperands& layer) {
  const DecodeKernelArgs args{layer, staging.at(splits_), staging.at(pages_), schedule_.cluster, 0};
  launcher.launch(kernel_, static_cast<int64_t>(schedule_.splits.size()), layer.pages.kv_heads,
                  args, 0, args.cluster);
}

}  // namespace prefix::ops::gpu
