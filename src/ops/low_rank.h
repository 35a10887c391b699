// What is added to a product for some of its rows only (LoRA, Hu et al. 2021):
//
//   y = x W^T + (x A^T) B^T          A [rank, k] and B [n, rank] are thin; rank << n, k
//
//   rows of a step   [ 0 .. 40 )  W alone
//                    [40 .. 97 )  W, then A and B of one adapter      a range each
//                    [97 .. 99 )  W, then those of another
//
// A result is one sum: over k of W as without an adapter, and then over the rank. So W is read once
// for all rows, whichever request they belong to, and what a row gets depends on no other row.
#pragma once

#include <cstdint>

#include "ops/weights.h"

namespace prefix::ops {

struct LowRank {
  PackedWeights a, b;  // no data: nothing is added

  bool empty() const { return a.data == nullptr; }
  int64_t rank() const { return a.n; }
};

// Rows [begin, end) of a product and what they get.
struct LowRankRows {
  int64_t begin = 0, end = 0;
  const LowRank* matrices = nullptr;
};

}  // namespace prefix::ops
