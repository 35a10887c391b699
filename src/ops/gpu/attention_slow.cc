// Attention of f32 and of heads that no other kernel has: a reference, not for speed.
#include <algorithm>

#include "base/status.h"
#include "ops/gpu/attention_path.h"

namespace prefix::ops::gpu {
namespace {

constexpr int32_t kMaxHead = 1024;  // columns that the kernel keeps in registers

}  // namespace

bool SlowAttention::plan(const StepAttention& step) {
  if (step.kv.head_dim > kMaxHead)
    fail(Code::kUnsupportedModel, "head_dim is ", step.kv.head_dim, "; device=cuda has at most ",
         kMaxHead);
  step_ = step.plan;
  tile_of_row_.resize(step.positions.size());
  for (size_t t = 0; t < step_->tiles.size(); ++t) {
    const AttentionTile& tile = step_->tiles[t];
    std::fill(tile_of_row_.begin() + tile.row_begin, tile_of_row_.begin() + tile.row_end,
              static_cast<int32_t>(t));
  }
  return true;
}

void SlowAttention::place(Staging& staging) {
  pages_ = staging.place(std::span<const int32_t>(step_->pages));
  staged_tile_of_row_ = staging.place(std::span<const int32_t>(tile_of_row_));
  tiles_ = staging.place(std::span<const AttentionTile>(step_->tiles));
  runs_ = staging.place(std::span<const KvRun>(step_->runs));
}

void SlowAttention::launch(Launcher& launcher, const Staging& staging,
                           const AttentionOperands& layer) {
  AttentionKernelArgs args{layer};
  args.pages_list = staging.at(pages_);
  args.runs = staging.at(runs_);
  args.tile_of_row = staging.at(staged_tile_of_row_);
  args.tiles = staging.at(tiles_);
  launcher.launch(Kernel::kAttentionSlow, step_->tiles.back().row_end,
                  args.group_heads * args.pages.kv_heads, args);
}

}  // namespace prefix::ops::gpu
