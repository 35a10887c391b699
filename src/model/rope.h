// Rotary embedding tables: cos and sin of position x frequency, one row per position.
//
//   frequency[i] = theta ^ (-2 i / rotary_dim), then per type
//     linear     / factor
//     yarn       / factor where it turns less than beta_slow times in the original length,
//                unchanged where more than beta_fast times, blended between
//     llama3     / factor for long wavelengths, unchanged for short ones, blended between
//     longrope   / short_factor[i], or / long_factor[i] in sequences longer than the original
//   GGUF may add divisors of its own (rope_freqs.weight), which is how it stores llama3.
#pragma once

#include <vector>

#include "base/resources.h"
#include "model/config/config.h"

namespace prefix {

struct RopeTables {
  int32_t rotary_dim = 0;       // dimensions that turn; the rest passes through
  int32_t regime_switch = 0;    // longrope: longest sequence of the first regime; 0 = one regime
  std::vector<float> cos, sin;  // [regimes * positions, rotary_dim / 2]
};

// longrope has two regimes: a sequence longer than original_max_positions uses the second one for
// all of its positions, so rows [positions, 2 positions) repeat them with the other frequencies.
// Throws kOutOfMemory when the host has not so many bytes free as the tables and a device's copy of
// them take: no weight in the files stands behind the length that a configuration names.
RopeTables rope_tables(const ModelConfig& config, int32_t positions,
                       int64_t free_bytes = resources().available_bytes);

// Bytes of both tables, and of those of layers with a window.
int64_t rope_table_bytes(const ModelConfig& config, int32_t positions);

// Frequencies of one regime as transformers computes them, in float32.
std::vector<float> rope_frequencies(const ModelConfig& config, bool second_regime);

}  // namespace prefix
