// From the attention plan of a step (ops/attention_plan.h) to what one launch per layer executes.
//
// A *packed row* is (row, query head inside its group): row * G + g. An *item* is what one block of
// threads does for one kv head: some packed rows, some runs of pages, some positions.
//
//                        pages by position ─────────────>
//   packed rows  0..15 [ shared prefix, all 64 rows    ][a ][b ]   wide items: W warps of 16 rows,
//               16..31 [                               ][c ][d ]   every warp reads the same page
//               32..47 [    item 0     |    item 1     ][e ][f ]
//               48..63 [                               ][g ][h ]   narrow items: 16 rows, the warps
//                                      ^ split          items 2 .. 5         take pages in turn
//
// A run that covers more than 16 rows of a tile is walked by wide items; what belongs to fewer rows
// (the answers below a shared context) by narrow ones, because a wide block would leave all but one
// warp idle. Both kinds are cut so that the whole GPU has work: wide ones by position, narrow ones
// also between leaves, each with the rows that its runs have.
//
// Several items with rows in common write partial states and form a *group*; the block that arrives
// last merges them in the order of the list, so the sum never depends on timing.
//
// `invariant`: wide items only, cut at fixed positions, so that the bits of a row depend on its
// position and keys alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "ops/attention_plan.h"
#include "ops/gpu/launch.h"

namespace prefix::ops::gpu {

// Packed rows of a tile of the plan of a step: several of the largest blocks, which are cut out of
// it, so that small steps are one tile and can be cut anywhere.
inline constexpr int32_t kPlanTileRows = 512;

struct AttentionShape {
  int32_t kv_heads = 1;
  int32_t group_heads = 1;  // query heads per kv head
  int32_t warps = 4;
  int32_t processors = 1;
  bool invariant = false;
  bool warpgroups = false;           // wide items are done by them
  int32_t max_partials = INT32_MAX;  // that there is memory for
};

// Items [end of the launch before, item_end) are one launch, and their groups and states have
// numbers of its own: a plan has more than one launch when its states do not fit at once.
struct LaunchRange {
  int32_t item_end, group_end;
  int32_t wide_end = 0;  // of DevicePlan::wide
};

struct DevicePlan {
  std::vector<WorkItem> items;
  std::vector<KvRun> runs;
  std::vector<ReductionGroup> groups;
  std::vector<LaunchRange> launches;
  // For kAttentionHopper, instead of the wide ones among the items: with their pages.
  std::vector<WideItem> wide;
  std::vector<WidePage> wide_pages;
  int32_t partials = 0;  // rows of partial states per kv head, of the launch that has most

  void clear() {
    items.clear();
    runs.clear();
    groups.clear();
    launches.clear();
    wide.clear();
    wide_pages.clear();
    partials = 0;
  }
};

// Positions are cut into pieces of a multiple of this many pages, at absolute positions.
inline constexpr int32_t kSplitPages = 8;
// So many pages of narrow runs are done with the wide ones of their block of rows, by warpgroups: a
// few pages more for all its rows cost less than states to merge. Never more than a piece is long.
inline constexpr int32_t kFoldedPages = 32;
// The cut of invariant plans.
inline constexpr int32_t kInvariantPages = kKeyChunk / kPageTokens;

// The plan of a step by packed rows.
struct PackedPlan {
  const AttentionPlan& plan;
  std::span<const int32_t> positions;  // of all rows of the step
  int32_t group_heads;                 // query heads per kv head

  // Calls f(tile, first, last) for the packed rows of each tile, cut into blocks of so many.
  template <typename F>
  void each_block(int32_t rows, const F& f) const {
    for (const AttentionTile& tile : plan.tiles) {
      const int32_t end = tile.row_end * group_heads;
      for (int32_t at = tile.row_begin * group_heads; at < end; at += rows)
        f(tile, at, std::min(end, at + rows));
    }
  }
  // The part of a run that packed rows [begin, end) need; no blocks when it is none.
  KvRun clip(int32_t number, int32_t begin, int32_t end) const;
};

// `positions`: of all rows of the step.
void plan_attention(const AttentionPlan& plan, std::span<const int32_t> positions,
                    const AttentionShape& shape, DevicePlan& out);

}  // namespace prefix::ops::gpu
