// What a model is, read from config.json (in transformers v4 and v5 spelling) or GGUF metadata.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "model/gguf.h"

namespace prefix {

enum class RopeType { kDefault, kLinear, kLlama3, kLongrope };

struct RopeConfig {
  RopeType type = RopeType::kDefault;
  double theta = 10000;
  double partial_rotary_factor = 1;
  double factor = 1;  // linear, llama3
  double low_freq_factor = 1, high_freq_factor = 4;
  int32_t original_max_positions = 0;  // llama3, longrope
  std::vector<double> short_factor, long_factor;  // longrope, one per frequency
  double attention_factor = 0;                    // longrope; 0 = from the lengths
  std::vector<float> frequency_divisors;          // GGUF rope_freqs.weight
};

struct ModelConfig {
  std::string architecture;
  int32_t vocab_size = 0;
  int32_t hidden = 0;
  int32_t layers = 0;
  int32_t heads = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  int32_t intermediate = 0;
  int32_t max_positions = 0;
  float norm_eps = 1e-6f;
  bool tie_embeddings = false;
  bool attention_bias = false;         // query, key, value
  bool attention_output_bias = false;
  bool mlp_bias = false;
  RopeConfig rope;
  std::vector<int32_t> eos_ids;
  bool from_gguf = false;
  bool qk_permuted = false;  // query and key rows interleave the halves of a head (GGUF "llama")
};

// Throw kUnsupportedModel for what this library does not run (naming it) and kFormat for values
// that make no sense (naming value and limits).
ModelConfig config_from_json(const Json& json);
ModelConfig config_from_gguf(const GgufMetadata& metadata, const TensorSource& tensors);

}  // namespace prefix
