// Inputs of a matrix in whole numbers, by which its own numbers are
// rounded (cpu/calibrated_rounding.h).
#pragma once

#include <cstdint>
#include <vector>

#include "ops/weights.h"

namespace prefix::ops {

// That rounding goes by, at most.
inline constexpr int64_t kCalibrationRows = 16;

// A few rows of inputs, rotated: row r is numbers[r * k ...] times scales[r].
struct CalibrationRows {
  std::vector<int8_t> numbers;
  std::vector<float> scales;

  friend bool operator==(const CalibrationRows&, const CalibrationRows&) = default;
};

// Sees what matrices in whole numbers are multiplied with.
class InputObserver {
 public:
  virtual ~InputObserver() = default;
  // A row of inputs of w: numbers [w.k] in units of `scale`, which may be NaN. Of a head its first
  // term. Any thread, in any order.
  virtual void row(const PackedWeights& w, const int8_t* numbers, float scale) = 0;
};

}  // namespace prefix::ops
