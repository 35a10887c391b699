// Attention of a step: which way it takes, what all of them have in common, and the two short ones.
#include <algorithm>
#include <initializer_list>

#include "base/status.h"
#include "ops/gpu/step.h"

namespace prefix::ops::gpu {
namespace {

constexpr float kLog2E = 1.44269504088896340736f;
// Steps of so many rows are padded so that they look alike.
constexpr size_t kSmallRows = 256;
constexpr int32_t kMaxHead = 1024;  // columns that the kernel of SlowAttention keeps in registers

}  // namespace

void GpuStep::plan_attention() {
  context_.mma.forget();
  if (arrays_.attention.empty()) return;
  PREFIX_CHECK(arrays_.attention.size() == 1 && arrays_.attention.front().window == 0);
  const bool small = !arrays_.tokens.empty() && arrays_.tokens.size() <= kSmallRows;
  const StepAttention attention{&arrays_.attention.front(), arrays_.positions, arrays_.heads,
                                arrays_.kv, small};
  for (AttentionPath* const path :
       std::initializer_list<AttentionPath*>{&context_.clusters, &context_.mma, &context_.slow}) {
    path_ = path;
    if (path->plan(attention, context_.step_arrays)) return;
  }
}

void GpuStep::attention(const AttentionArgs& args) {
  PREFIX_CHECK(args.plan == 0 && args.soft_cap == 0 && args.sinks == nullptr);
  if (arrays_.attention.front().tiles.empty()) return;
  const AttentionOperands a{context_.step_arrays.at(positions_),
                            args.q.data,
                            args.out.data,
                            args.q.ld,
                            args.out.ld,
                            arrays_.heads / arrays_.kv.kv_heads,
                            args.scale * kLog2E,
                            pages(args.layer)};
  path_->launch(*context_.runtime, context_.step_arrays, a);
}

// --- small steps by clusters (kernels/body/attention_decode.h) -----------------------------------

bool ClusterAttention::plan(const StepAttention& step, Staging& staging) {
  schedule_.clear();
  if (!enabled_) return false;
  kernel_ = step.of_head(Kernel::kAttentionDecode64, Kernel::kAttentionDecode128);
  if (kernel_ == Kernel::kCount) return false;
  const DecodeShape shape{step.kv.kv_heads, step.group_heads(), properties_.clusters};
  if (!plan_decode(*step.plan, step.positions, shape, schedule_)) return false;
  splits_ = staging.place(std::span<const DecodeSplit>(schedule_.splits));
  pages_ = staging.place(std::span<const DecodePage>(schedule_.pages));
  return true;
}

void ClusterAttention::launch(Runtime& runtime, const Staging& staging,
                              const AttentionOperands& layer) {
  const DecodeKernelArgs args{layer, staging.at(splits_), staging.at(pages_), schedule_.cluster, 0};
  gpu::launch(runtime, kernel_, static_cast<int64_t>(schedule_.splits.size()), layer.pages.kv_heads,
              args, 0, args.cluster);
}

// --- f32, and heads that no other kernel has: a reference, not for speed --------------------------

bool SlowAttention::plan(const StepAttention& step, Staging& staging) {
  if (step.kv.head_dim > kMaxHead)
    fail(Code::kUnsupportedModel, "head_dim is ", step.kv.head_dim, "; device=cuda has at most ",
         kMaxHead);
  const std::vector<AttentionTile>& tiles = step.plan->tiles;
  rows_ = tiles.empty() ? 0 : tiles.back().row_end;
  tile_of_row_.resize(step.positions.size());
  for (size_t t = 0; t < tiles.size(); ++t) {
    const AttentionTile& tile = tiles[t];
    std::fill(tile_of_row_.begin() + tile.row_begin, tile_of_row_.begin() + tile.row_end,
              static_cast<int32_t>(t));
  }
  pages_ = staging.place(std::span<const int32_t>(step.plan->pages));
  staged_tile_of_row_ = staging.place(std::span<const int32_t>(tile_of_row_));
  tiles_ = staging.place(std::span<const AttentionTile>(tiles));
  runs_ = staging.place(std::span<const KvRun>(step.plan->runs));
  return true;
}

void SlowAttention::launch(Runtime& runtime, const Staging& staging,
                           const AttentionOperands& layer) {
  AttentionKernelArgs args{layer};
  args.pages_list = staging.at(pages_);
  args.runs = staging.at(runs_);
  args.tile_of_row = staging.at(staged_tile_of_row_);
  args.tiles = staging.at(tiles_);
  gpu::launch(runtime, Kernel::kAttentionSlow, rows_, args.group_heads * args.pages.kv_heads, args);
}

}  // namespace prefix::ops::gpu
