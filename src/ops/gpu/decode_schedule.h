// The plan of attention for small steps (decoding) on Hopper: body/attention_decode.h executes it.
//
//                      pages ──────────────────────────────>
//   packed rows  0..15 [ shared prefix          ][a a][b b]        a block: up to 128 packed rows
//               16..31 [ 0 1 2 3 0 1 2 3 0 1 2 3][c c][d d]  ...   and all that they read
//               32..47 [ dealt to the splits    ][e e][f f]
//
//   split 0   0 0 0  a b c e ...      a block of threads each; the splits of a block of rows are a
//   split 1   1 1 1  a c d f ...      cluster and merge what they have, through shared memory
//   ...
//
// A page of one row tile is taken by one warp,
// that of several by four warps together where there are more than two row tiles.
//
// Nothing is left in global memory, and no block waits for another cluster. Each split gets the
// same number of pages, +-1; first those that several row tiles (16 rows) read, then the others,
// with the row tiles in turn: they are different warps.
//
// Larger blocks read the shared pages less often, smaller ones have less to merge: what the longest
// split takes, by an estimate, decides. Blocks are cut in equal parts, as many as there are
// clusters of some size that run at once: five blocks with clusters of three where four of four do
// not run. Steps that do not suit take the other plan (attention_plan.h): those of many rows,
// and very long ones that would use few processors.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/attention_plan.h"
#include "ops/gpu/launch.h"

namespace prefix::ops::gpu {

// Rows of a step that still counts as small.
inline constexpr int32_t kMaxDecodeRows = 256;
// Entries of a plan, each a page of a block of rows: making them takes the host about 7 ns, sending
// them 16 bytes. A step that reads more lasts so long that merging does not matter.
inline constexpr int32_t kMaxDecodePages = 1 << 14;
// Pages of a split, where processors are idle.
inline constexpr int32_t kLongDecode = 64;

struct DecodeShape {
  int32_t kv_heads = 1;
  int32_t group_heads = 1;            // query heads per kv head
  std::span<const int32_t> clusters;  // [n - 1]: of n splits, that run at once
};

struct DecodePlan {
  std::vector<DecodeSplit> splits;  // of a block side by side; the last blocks may be empty
  std::vector<DecodePage> pages;
  int32_t cluster = 0;  // splits of a block; 0: there is no plan
  int64_t cost = 0;     // of the longest split with merging, in half pages: an estimate

  void clear() {
    splits.clear();
    pages.clear();
    cluster = 0;
    cost = 0;
  }
};

// Returns whether the step suits. `positions`: of all its rows.
bool plan_decode(const AttentionPlan& plan, std::span<const int32_t> positions,
                 const DecodeShape& shape, DecodePlan& out);

}  // namespace prefix::ops::gpu
