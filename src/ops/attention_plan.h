// What one step's attention reads, the same for every layer of one window and every head (shared by
// all backends). A step has a plan for each window that its model's layers have.
//
// Rows are the tokens computed in this step in depth-first order of the tree. A *tile* is a range
// of consecutive rows handled together. A *run* is a list of consecutive KV pages of one tree node
// that a range of the tile's rows reads; each page is read once for all rows of its runs.
//
//   rows (depth first)      pages, by position block (32 positions each)
//                           0    1    2    3    4    5
//   tile ┬ row 0  leaf a    [ shared run  ][  run a  ]
//        ├ row 1  leaf a    [ rows 0..3   ][ rows 0-1]
//        ├ row 2  leaf b    [             ][  run b       ]
//        └ row 3  leaf b    [             ][ rows 2-3     ]
//
// A key at position p is visible to a row at position q iff p <= q and, with a window,
// p > q - window; where rows see what comes behind them too, in a text that is wholly in the step,
// iff p <= the end of the text and, with a window, |p - q| < window. That one rule (seen_keys) is
// the mask, and keys behind a run's last valid position are never visible. Every row sees, over all
// runs that contain it, each position block with a visible key exactly once, in the runs' order.
// With a window runs begin where the first of their rows does:
//
//   window 64             pages 0    1    2    3    4    5
//   row at position 130         .    .  [ x    x    x ]       a run of both rows has pages 2..5;
//   row at position 180         .    .    .  [ x    x    x ]  page 2 weighs nothing in the second
//
// Invariance: keys are summed in blocks of kKeyBlock positions aligned to absolute positions, so a
// row's result depends on its position and the keys alone, never on tiles, runs or companions.
// Blocks and chunks before a row's window leave its state as it is, empty,
// whichever item reads them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/page.h"

namespace prefix {

// Positions per step of the online softmax; a multiple of kPageTokens.
inline constexpr int kKeyBlock = 256;
// Positions after which the running softmax state is merged into a total, so that long paths can be
// split over several work items without changing a bit; a multiple of kKeyBlock.
inline constexpr int kKeyChunk = 2048;

struct AttentionRun {
  int32_t page_begin;   // index of the first page in AttentionPlan::pages
  int32_t block_begin;  // position of the first key / kPageTokens
  int32_t blocks;       // number of pages
  int32_t row_begin;    // rows of the step, inside the tile
  int32_t row_end;
};

struct AttentionTile {
  int32_t row_begin;
  int32_t row_end;
  int32_t run_begin;  // AttentionPlan::runs, sorted by (block_begin, row_begin)
  int32_t run_end;
  int32_t last_position;  // largest position that one of the tile's rows sees
  int32_t first_key = 0;  // smallest one
};

// One unit of work per kv head. chunk < 0: the whole tile. Otherwise only keys
// [chunk * kKeyChunk, (chunk + 1) * kKeyChunk), and the state goes to partial slot `slot`; a tile
// has an item for each chunk from that of first_key to that of last_position, whose slots are
// consecutive and are merged in chunk order afterwards.
struct AttentionItem {
  int32_t tile;
  int32_t chunk;
  int32_t slot;
};

struct AttentionPlan {
  int32_t window = 0;  // keys that a row sees, its own the last; 0: all before it
  // Of each row the last position of its text, where it sees the tokens behind it too, as many as
  // before it. Empty: no row does.
  std::vector<int32_t> ends;
  std::vector<int32_t> pages;
  std::vector<AttentionRun> runs;
  std::vector<AttentionTile> tiles;
  std::vector<AttentionItem> items;
  int32_t partial_slots = 0;
};

// Items for each thread below which tiles are cut into one for each chunk,
// so that all threads have work.
inline constexpr int64_t kLeastItemsPerThread = 4;
// The most tiles of a plan that are cut so: with more of them each is one item for a kv head. The
// order of merging is the same either way.
inline int64_t max_split_tiles(int64_t kv_heads, int64_t threads) {
  return (kLeastItemsPerThread * threads - 1) / kv_heads;
}

// Positions of the first and the last key that the row `row`, at `position`, sees.
struct SeenKeys {
  int32_t first, last;
};
inline SeenKeys seen_keys(const AttentionPlan& plan, size_t row, int32_t position) {
  const int32_t first = plan.window == 0 ? 0 : std::max(0, position - plan.window + 1);
  if (plan.ends.empty()) return {first, position};
  const int32_t end = plan.ends[row];
  return {first, plan.window == 0 ? end : std::min(end, position + plan.window - 1)};
}

}  // namespace prefix
