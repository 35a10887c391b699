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
  tile_runs_.clear();
  for (size_t t = 0; t < step_->tiles.size(); ++t) {
    const AttentionTile& tile = step_->tiles[t];
    std::fill(tile_of_row_.begin() + tile.row_begin, tile_of_row_.begin() + tile.row_end,
              static_cast<int32_t>(t));
    tile_runs_.insert(tile_runs_.end(), {tile.run_begin, tile.run_end});
  }
  return true;
}

void SlowAttention::place(Staging& staging) {
  pages_ = staging.place(std::span<const int32_t>(step_->pages));
  staged_tiles_ = staging.place(std::span<const int32_t>(tile_of_row_));
  staged_tile_runs_ = staging.place(std::span<const int32_t>(tile_runs_));
  runs_ = staging.place(std::span<const AttentionRun>(step_->runs));
}

void SlowAttention::launch(Launcher& launcher, const Staging& staging, AttentionKernelArgs args,
                           int64_t rows) {
  static_assert(sizeof(AttentionRun) == sizeof(KvRun));
  args.rows = static_cast<int32_t>(rows);
  args.pages_list = staging.at(pages_);
  args.runs = reinterpret_cast<const KvRun*>(staging.at(runs_));
  args.tile_of_row = staging.at(staged_tiles_);
  args.tile_runs = staging.at(staged_tile_runs_);
  launcher.launch(Kernel::kAttentionSlow, rows, args.group_heads * args.pages.kv_heads, args);
}

}  // namespace prefix::ops::gpu
