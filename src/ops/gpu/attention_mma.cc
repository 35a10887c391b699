// Attention by items on tensor cores (kernels/body/attention.h), wide ones by warpgroups where
// there are (kernels/body/attention_hopper.h): then two launches a layer, the second for narrow
// items and for merging.
#include <algorithm>
#include <utility>

#include "ops/gpu/attention_path.h"
#include "ops/gpu/step_graph.h"

namespace prefix::ops::gpu {
namespace {

// For a head size and the packed rows of the largest tile; kCount where there is none.
Kernel kernel_for(const KvLayout& kv, int32_t packed_rows) {
  const bool large = packed_rows > 64;
  if (kv.type != KvType::kBf16 || kv.head_dim > 256) return Kernel::kCount;
  if (kv.head_dim > 128) return Kernel::kAttention256x4;
  if (kv.head_dim > 64) return large ? Kernel::kAttention128x8 : Kernel::kAttention128x4;
  return large ? Kernel::kAttention64x8 : Kernel::kAttention64x4;
}

}  // namespace

void MmaAttention::reserve(const Workspace& workspace) {
  partials_.reserve(workspace.partials);
  arrived_.reserve(workspace.arrived);
  max_partials_ = workspace.max_partials;
}

bool MmaAttention::plan(const StepAttention& step, Staging& staging) {
  schedule_.clear();
  int32_t rows = 0;
  for (const AttentionTile& tile : step.plan->tiles)
    rows = std::max(rows, (tile.row_end - tile.row_begin) * step.group_heads());
  // Invariant results come from one kernel, whatever the company.
  kernel_ = kernel_for(step.kv, options_.invariant ? 64 : rows);
  if (kernel_ == Kernel::kCount) return false;
  wide_kernel_ = Kernel::kCount;
  if (options_.warpgroups && rows > kHopperRows)
    wide_kernel_ = step.of_head(Kernel::kAttentionHopper64, Kernel::kAttentionHopper128);
  AttentionShape shape;
  shape.kv_heads = step.kv.kv_heads;
  shape.group_heads = step.group_heads();
  shape.warps = block_shape(kernel_).threads / 32;
  shape.processors = properties_.processors;
  shape.invariant = options_.invariant;
  shape.warpgroups = wide_kernel_ != Kernel::kCount;
  shape.max_partials = max_partials_;
  plan_attention(*step.plan, step.positions, shape, schedule_);
  if (step.small) pad();
  if (wide_kernel_ != Kernel::kCount) list_wide(step);
  pages_ = staging.place(std::span<const int32_t>(step.plan->pages));
  items_ = staging.place(std::span<const WorkItem>(schedule_.items));
  runs_ = staging.place(std::span<const KvRun>(schedule_.runs));
  groups_ = staging.place(std::span<const ReductionGroup>(schedule_.groups));
  wide_ = staging.place(std::span<const WideItem>(schedule_.wide));
  wide_pages_ = staging.place(std::span<const WidePage>(schedule_.wide_pages));
  return true;
}

// Those with most pages first: the blocks of threads deal them out among themselves. The kernel
// relies on that order too: an item of a single tile for both groups passes a turn on that no group
// takes, which does no harm as long as no longer item follows.
void MmaAttention::list_wide(const StepAttention& step) {
  std::vector<WideItem>& wide = schedule_.wide;
  int32_t begin = 0;
  for (LaunchRange& range : schedule_.launches) {
    const auto first = static_cast<int64_t>(wide.size());
    for (int32_t i = begin; i < range.item_end; ++i) {
      const WorkItem& item = schedule_.items[static_cast<size_t>(i)];
      if (!item.narrow && item.rows > 0) wide.push_back(list_pages(step, item));
    }
    std::sort(wide.begin() + first, wide.end(), [](const WideItem& a, const WideItem& b) {
      return std::pair(a.page_begin - a.page_end, a.page_begin) <
             std::pair(b.page_begin - b.page_end, b.page_begin);
    });
    const auto count = static_cast<int64_t>(wide.size()) - first;
    if (step.small) wide.resize(static_cast<size_t>(first + padded_items(count)), WideItem{});
    range.wide_end = static_cast<int32_t>(wide.size());
    begin = range.item_end;
  }
}

// What the kernel would have to look for, once for all layers and heads.
WideItem MmaAttention::list_pages(const StepAttention& step, const WorkItem& item) {
  std::vector<WidePage>& pages = schedule_.wide_pages;
  struct Rows {
    int32_t begin, end;
    int32_t lowest;  // of their positions
  };
  Rows rows[kHopperGroups];
  for (int32_t group = 0; group < kHopperGroups; ++group) {
    Rows& r = rows[group];
    r = {group * kHopperRows, std::min((group + 1) * kHopperRows, item.rows), INT32_MAX};
    const auto position = [&](int32_t row) {
      return step.positions.begin() + (item.row_begin + row) / step.group_heads();
    };
    if (r.begin < r.end) r.lowest = *std::min_element(position(r.begin), position(r.end - 1) + 1);
  }
  const auto sees_all = [](const Rows& r, const WidePage& page) {
    return page.low <= r.begin && page.high >= r.end &&
           page.block * kPageTokens + kPageTokens - 1 <= r.lowest;
  };
  const auto begin = static_cast<int32_t>(pages.size());
  for (int32_t i = item.run_begin; i < item.run_end; ++i) {
    const KvRun& run = schedule_.runs[static_cast<size_t>(i)];
    for (int32_t j = 0; j < run.blocks; ++j)
      pages.push_back({step.plan->pages[static_cast<size_t>(run.page_begin + j)],
                       run.block_begin + j, static_cast<int16_t>(run.row_begin - item.row_begin),
                       static_cast<int16_t>(run.row_end - item.row_begin), 0});
  }
  while ((pages.size() - static_cast<size_t>(begin)) % kHopperPages != 0)
    pages.push_back({pages.back().page, 0, 0, 0, 0});  // of no row
  for (size_t at = static_cast<size_t>(begin); at < pages.size(); ++at) {
    WidePage& first = pages[at - (at - static_cast<size_t>(begin)) % kHopperPages];
    for (int32_t group = 0; group < kHopperGroups; ++group)
      if (!sees_all(rows[group], pages[at])) first.masked |= 1 << group;
  }
  return {item.row_begin, item.rows, begin, static_cast<int32_t>(pages.size()), item.partial, {}};
}

// Items without rows, which do nothing: the grid of a launch stays the same for many steps.
void MmaAttention::pad() {
  WorkItem nothing{};
  nothing.partial = nothing.group = -1;
  if (schedule_.launches.size() != 1) return;
  const auto items = static_cast<int64_t>(schedule_.items.size());
  schedule_.items.resize(static_cast<size_t>(padded_items(items)), nothing);
  schedule_.launches.back().item_end = static_cast<int32_t>(schedule_.items.size());
  const int64_t states = std::min<int64_t>(padded_items(schedule_.partials), max_partials_);
  schedule_.partials = std::max(schedule_.partials, static_cast<int32_t>(states));
}

void MmaAttention::launch(Runtime& runtime, const Staging& staging,
                          const AttentionOperands& layer) {
  AttentionKernelArgs args{layer};
  args.pages_list = staging.at(pages_);
  args.runs = staging.at(runs_);
  args.wide_pages = staging.at(wide_pages_);
  const auto kv_heads = static_cast<size_t>(args.pages.kv_heads);
  const size_t states = static_cast<size_t>(schedule_.partials) * kv_heads;
  const size_t o_floats = states * static_cast<size_t>(args.pages.d_padded);
  args.partial_o =
      reinterpret_cast<float*>(partials_.reserve((o_floats + 2 * states) * sizeof(float)));
  args.partial_ml = args.partial_o + o_floats;
  args.arrived = reinterpret_cast<int32_t*>(
      arrived_.reserve(schedule_.groups.size() * kv_heads * sizeof(int32_t)));
  LaunchRange begin{0, 0};
  for (const LaunchRange& end : schedule_.launches) {
    args.wide = staging.at(wide_) + begin.wide_end;
    args.wide_count = end.wide_end - begin.wide_end;
    args.items = staging.at(items_) + begin.item_end;
    args.groups = staging.at(groups_) + begin.group_end;
    args.item_count = end.item_end - begin.item_end;
    launch_range(
        runtime,
        std::span(schedule_.items.begin() + begin.item_end, schedule_.items.begin() + end.item_end),
        end.group_end > begin.group_end, args);
    begin = end;
  }
}

// `merges`: some of the items are.
void MmaAttention::launch_range(Runtime& runtime, std::span<const WorkItem> items, bool merges,
                                AttentionKernelArgs args) const {
  const int32_t kv_heads = args.pages.kv_heads;
  if (wide_kernel_ != Kernel::kCount) {
    args.wide_blocks = std::min(args.wide_count * kv_heads, properties_.processors);
    if (args.wide_blocks > 0) gpu::launch(runtime, wide_kernel_, args.wide_blocks, 1, args);
    args.wide_done = 1;
    const bool narrow = std::any_of(items.begin(), items.end(),
                                    [](const WorkItem& item) { return item.narrow != 0; });
    if (!narrow && !merges) return;
  }
  gpu::launch(runtime, kernel_, args.item_count, kv_heads, args);
}

}  // namespace prefix::ops::gpu
