// What heads read of a row of logits, so that the row itself can stay where it is. Plain structs:
// kernels write them, and nvcc compiles this file too.
#pragma once

#include <cstdint>

namespace prefix::ops {

struct RowStats {
  double sum;     // of exp(x - top) over the row; 0 when top is not finite
  float top;      // the largest value
  int32_t first;  // where it is: the first one among equals; -1 when any value is NaN
};

// One logit: of a row, counted among the selected ones, and of a token.
struct LogitAt {
  int32_t row;
  int32_t id;
};

// Of the most likely tokens of a row: logit descending, id ascending among equals.
struct Candidate {
  int32_t id;
  float logit;
};

constexpr int32_t kMaxCandidates = 256;

}  // namespace prefix::ops
