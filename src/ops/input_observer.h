// Who sees what matrices in whole numbers are multiplied with.
#pragma once

#include <cstdint>

#include "ops/weights.h"

namespace prefix::ops {

class InputObserver {
 public:
  virtual ~InputObserver() = default;
  // A row of inputs of w, rotated: whole numbers [w.k] in units of `scale`, which may be NaN. Of a head
  // its first term. Any thread, in any order.
  virtual void row(const PackedWeights& w, const int8_t* numbers, float scale) = 0;
};

}  // namespace prefix::ops
