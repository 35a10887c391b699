// Routed experts: a feed-forward block of which each row uses a few of many parts.
//
//   rows     their experts        slots: by expert, then by row          results
//   row 0    2, 5                 expert 1   [ row 2 ]                   row 0 += w y[1] + w y[3]
//   row 1    2, 7          ──>    expert 2   [ row 0 | row 1 ]     ──>   row 1 += w y[2] + w y[5]
//   row 2    1, 5                 expert 5   [ row 0 | row 2 ]           row 2 += w y[0] + w y[4]
//                                 expert 7   [ row 1 ]
//
// The slots of an expert lie side by side, so that its matrices are read once for all rows that use
// it. A row's results are added in ascending order of experts: they do not depend on other rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/weights.h"

namespace prefix::ops {

// One part: down (fn (gate x, up x)). Biases may be null.
struct ExpertWeights {
  PackedWeights gate_up;  // of pack_gated()
  PackedWeights down;
  const float* gate_bias = nullptr;
  const float* up_bias = nullptr;
  const float* down_bias = nullptr;
};

// Which rows use which experts. It grows and does not shrink: made again for each layer.
struct ExpertSlots {
  int32_t per_row = 0;
  std::vector<int32_t> begin;    // [experts + 1]: of the slots of an expert
  std::vector<int32_t> row;      // [slots]: whose input is in it
  std::vector<int32_t> of_rows;  // [rows, per_row]: slots of a row, in ascending order of experts
  std::vector<float> weights;    // [rows, per_row]: of these slots

  int64_t count() const { return static_cast<int64_t>(row.size()); }
  int64_t experts() const { return static_cast<int64_t>(begin.size()) - 1; }
};

}  // namespace prefix::ops
