// Attention of small steps by clusters (kernels/body/attention_decode.h).
#include "ops/gpu/attention_path.h"

namespace prefix::ops::gpu {
namespace {

// kCount where there is none.
Kernel kernel_for(const KvLayout& kv) {
  if (kv.type != KvType::kBf16) return Kernel::kCount;
  if (kv.head_dim == 64) return Kernel::kAttentionDecode64;
  if (kv.head_dim == 128) return Kernel::kAttentionDecode128;
  return Kernel::kCount;
}

}  // namespace

bool ClusterAttention::plan(const StepAttention& step) {
  schedule_.clear();
  if (!enabled_) return false;
  kernel_ = kernel_for(step.kv);
  if (kernel_ == Kernel::kCount) return false;
  const DecodeShape shape{step.kv.kv_heads, step.group_heads(), properties_.clusters};
  return plan_decode(*step.plan, step.positions, shape, schedule_);
}

void ClusterAttention::place(Staging& staging) {
  splits_ = staging.place(std::span<const DecodeSplit>(schedule_.splits));
  pages_ = staging.place(std::span<const DecodePage>(schedule_.pages));
}

void ClusterAttention::launch(Launcher& launcher, const Staging& staging, AttentionKernelArgs args,
                              int64_t) {
  DecodeKernelArgs d{};
  d.splits = staging.at(splits_);
  d.list = staging.at(pages_);
  d.positions = args.positions;
  d.q = args.q;
  d.out = args.out;
  d.ld_q = args.ld_q;
  d.ld_out = args.ld_out;
  d.group_heads = args.group_heads;
  d.cluster = schedule_.cluster;
  d.scale_log2 = args.scale_log2;
  d.pages = args.pages;
  launcher.launch(kernel_, static_cast<int64_t>(schedule_.splits.size()), args.pages.kv_heads, d, 0,
                  d.cluster);
}

}  // namespace prefix::ops::gpu
