// Rotary embedding tables: cos and sin of position x frequency, one row per position.
#pragma once

#include <vector>

#include "model/config.h"

namespace prefix {

struct RopeTables {
  int32_t rotary_dim = 0;      // dimensions that turn; the rest passes through
  int32_t regime_switch = 0;   // longrope: longest sequence of the first regime; 0 = one regime
  std::vector<float> cos, sin; // [regimes * positions, rotary_dim / 2]
};

// Frequencies as transformers computes them, in float32. longrope has two sets of factors and takes
// the second one for sequences longer than original_max_positions: rows [positions, 2 positions).
RopeTables rope_tables(const ModelConfig& config, int32_t positions);

}  // namespace prefix
