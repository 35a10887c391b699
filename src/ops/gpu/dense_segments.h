// Dense pieces of a step's attention, many rows by many keys, which a library's fused attention can
// do by one call each (Runtime::sdpa):
//
//                   pages by position ──────────────────────>
//   rows    0..99   [                        ][ suffix a ]
//         100..199  [  shared: every row     ][ suffix b ]
//            ...    [  sees all of it        ]     ...
//        4000..4099 [                        ][ suffix z ]
//
//   rows 4100..     [ ancestors       ]\    causal: the rows' own tokens are the
//                   [ or what came    ]  \  last keys, each row sees one more than
//                   [ before          ]    \  the row before it, the last one all
//
// A row is in one segment at most. What it sees besides stays in items (attention_plan.h), which go
// on from the segment's result.
//
// A library prepares each shape, which takes it a while, so lengths are rounded downwards to few
// different ones; the rest, at most an eighth, stays in items, too. Nothing is ever padded or
// masked by length.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "ops/attention_plan.h"

namespace prefix::ops::gpu {

// What is worth a call: guesses until a GPU has measured them.
struct DenseLimits {
  int32_t shared_rows = 512;  // at least
  int32_t shared_keys = 1024;
  int32_t causal_rows = 1024;
  int32_t step = 128;           // rows and keys come in multiples of this many; of whole pages
  int32_t most_keys = 1 << 15;  // that there is room for
};

// The next length below that a shape may have: of each power of two, at most eight.
int32_t dense_length(int32_t length, int32_t step);

struct DenseSegment {
  bool causal;                  // row i sees keys 0 .. keys - rows + i; otherwise all
  int32_t row_begin, rows;      // of the step
  int32_t block_begin, blocks;  // positions, in pages
  int32_t page_begin;           // of `blocks` in the list that find_dense() fills

  int32_t keys() const { return blocks * kPageTokens; }
};

// In ascending order of rows. `accepts`: whether there is something that does this segment. Rows
// of a shared segment see at least one more key.
void find_dense(const AttentionPlan& plan, std::span<const int32_t> positions,
                const DenseLimits& limits, const std::function<bool(const DenseSegment&)>& accepts,
                std::vector<DenseSegment>& segments, std::vector<int32_t>& pages);

}  // namespace prefix::ops::gpu
