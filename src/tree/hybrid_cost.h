// What the cache of a hybrid model costs and saves: bytes of a state and of keys and values, and
// the FLOPs of computing tokens. A hybrid model has recurrent layers, whose state has one size at
// every length, attention layers, whose keys and values grow with it, and multilayer perceptrons.
//
// Counts are integers, so that two replays of a trace agree to the last bit.
#pragma once

#include <cstdint>

namespace prefix {

// FLOPs of one layer for the first L tokens: linear x L + quadratic x L^2.
struct LayerFlops {
  int64_t linear = 0;
  int64_t quadratic = 0;

  int64_t of(int64_t tokens) const { return (linear + quadratic * tokens) * tokens; }
  bool operator==(const LayerFlops&) const = default;
};

struct HybridCost {
  int64_t recurrent_layers = 0;
  int64_t attention_layers = 0;
  int64_t mlp_layers = 0;
  LayerFlops recurrent;
  LayerFlops attention;
  LayerFlops mlp;
  int64_t state_bytes = 0;  // of all recurrent layers at one position
  int64_t kv_bytes = 0;     // of one token in all attention layers
  // The published artifact subtracts the attention of the parent from an MLP. For comparison only.
  bool mlp_minus_attention = false;

  // Computing the first `tokens` tokens.
  int64_t flops(int64_t tokens) const;
  // Computing tokens [begin, end) after the ones before them.
  int64_t flops_between(int64_t begin, int64_t end) const;
  // Beyond it a count could leave 64 bits.
  int64_t max_tokens() const;

  bool operator==(const HybridCost&) const = default;
};

// The formulas of Marconi (Pan et al. 2024, arXiv 2411.19379) for layers of width D and state width
// N, in 16 bits: Mamba-1 with expansion 2, attention without grouping, an MLP of two matrices.
struct MarconiModel {
  int64_t recurrent_layers = 24;
  int64_t attention_layers = 4;
  int64_t mlp_layers = 28;
  int64_t width = 4096;
  int64_t state_width = 128;
};
HybridCost marconi_cost(const MarconiModel& model);

}  // namespace prefix
