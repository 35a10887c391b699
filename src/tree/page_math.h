// Positions and the pages they lie in.
#pragma once

#include <cstdint>

#include "plan/attention_plan.h"

namespace prefix {

// Pages that the positions [start, end) touch.
inline int32_t pages_between(int32_t start, int32_t end) {
  return end > start ? (end - 1) / kPageTokens - start / kPageTokens + 1 : 0;
}

}  // namespace prefix
