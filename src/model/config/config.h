// What a model is, read from config.json (in transformers v4 and v5 spelling) or GGUF metadata.
//
// The rule for both: a key that transformers would default is defaulted the same way; whatever
// this library does not run is refused by name; nothing is guessed.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "model/architecture.h"
#include "model/config/quantization_config.h"
#include "model/files/tensor_file.h"

namespace prefix {

class GgufMetadata;

// Caps on untrusted numbers, far above every model of these families.
struct ConfigLimits {
  static constexpr int64_t kVocab = 1 << 24;
  static constexpr int64_t kHidden = 1 << 16;
  static constexpr int64_t kIntermediate = 1 << 20;
  static constexpr int64_t kLayers = 1024;
  static constexpr int64_t kHeads = 1024;
  static constexpr int64_t kHeadDim = 1024;
  static constexpr int64_t kExperts = 4096;
  static constexpr int64_t kPositions = 1 << 24;
  static constexpr size_t kEosIds = 1024;
  static constexpr int64_t kConvWidth = 8;    // taps of the convolution of a recurrent layer
  static constexpr double kMultiplier = 1e4;  // of muP, from 1 in either direction
};

// kDynamic: by another base in sequences longer than max_positions, a new one for each length. No
// key could be shared there, so such a model has the context of kDefault.
enum class RopeType { kDefault, kLinear, kDynamic, kYarn, kLlama3, kLongrope };

struct RopeConfig {
  RopeType type = RopeType::kDefault;
  double theta = 10000;
  double partial_rotary_factor = 1;
  double factor = 1;  // linear, dynamic, yarn, llama3
  double low_freq_factor = 1, high_freq_factor = 4;
  double beta_fast = 32, beta_slow = 1;           // yarn: turns between which it blends
  bool truncate = true;                           // yarn: whole frequencies
  int32_t original_max_positions = 0;             // yarn, llama3, longrope
  std::vector<double> short_factor, long_factor;  // longrope, one per frequency
  double attention_factor = 1;                    // yarn, longrope: multiplies cos and sin
  std::vector<float> frequency_divisors;          // GGUF rope_freqs.weight
};

// Which block a layer begins with; kFeedForward: the layer has no other.
enum class LayerKind : uint8_t { kAttention, kRecurrent, kFeedForward };

// A recurrent layer; those of a model all look the same. Mamba-2 and the gated delta rule have the
// same sizes under different names:
//
//               Mamba-2                  gated delta rule
//   heads       heads                    value heads
//   head_dim    of x                     of a value
//   groups      of B and C               key heads
//   state       numbers of B             of a key
//
//   projection  [ z | x, B, C | dt ]     [ q, k, v | z | b | a ]
//   convolved         x, B, C              q, k, v
//
// A gated short convolution is one head and one group without a state:
// [ B | C | x ], of which B * x is convolved.
struct RecurrentConfig {
  Mixer mixer = Mixer::kNone;
  int32_t heads = 0, head_dim = 0;
  int32_t groups = 0, state = 0;
  int32_t conv_width = 0;
  bool conv_bias = false;
  bool projection_bias = false;  // in and out
  float dt_min = 0, dt_max = 0;  // dt_max 0: no clamp

  int64_t inner() const { return int64_t{heads} * head_dim; }
  int64_t group_values() const { return int64_t{groups} * state; }
  int64_t conv_channels() const { return inner() + 2 * group_values(); }
  int64_t projection() const {
    if (mixer == Mixer::kShortConv) return 3 * inner();
    return conv_channels() + inner() + (mixer == Mixer::kGatedDelta ? 2 : 1) * int64_t{heads};
  }
  int64_t state_values() const { return inner() * state; }
};

// Routed experts: gated feed-forward blocks of which each token uses a few.
struct ExpertConfig {
  int32_t count = 0;  // 0: none
  int32_t per_token = 0;
  int32_t intermediate = 0;
  bool normalized = false;      // the weights of a token's experts sum to 1
  bool biased = false;          // the router and all matrices
  bool shared = false;          // beside them a gated block that every token uses
  std::vector<uint8_t> layers;  // 1: the layer has them in place of a block of its own
};

struct ModelConfig {
  // Of a layer whose window holds every sequence.
  static constexpr int32_t kWholeWindow = std::numeric_limits<int32_t>::max();

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
  // The tensor of the output matrix where the file lacks it; no logits can be read then.
  std::string missing_output;
  bool attention_bias = false;  // query, key, value
  bool attention_output_bias = false;
  bool mlp_bias = false;
  bool attention_gate = false;  // the output of attention is gated
  bool rotates = true;          // queries and keys; false: no positions
  std::vector<bool> unrotated;  // layers that do not, though others do; empty: none
  RopeConfig rope;
  // A token sees those behind it too; such a model embeds and classifies only.
  bool bidirectional = false;
  bool halved_windows = false;            // then windows count the keys of both sides together
  std::vector<int32_t> windows;           // of each layer, 0: none; empty: none has one
  std::optional<RopeConfig> window_rope;  // of layers with a window, where it is another
  std::vector<LayerKind> layer_kinds;     // of each layer; empty: all are of attention
  FeedForward feed_forward = FeedForward::kGated;           // of the layers that have one
  ops::ActivationFn activation = ops::ActivationFn::kSilu;  // of its gate
  RecurrentConfig recurrent;
  ExpertConfig experts;
  // muP. The logits are divided by the last one.
  double embedding_multiplier = 1, residual_multiplier = 1, logits_scaling = 1;
  double attention_scale = 0;  // of scores; 0: 1 / sqrt(head_dim)
  double score_cap = 0;        // scores and logits become cap * tanh(x / cap); 0: they stay
  double logit_cap = 0;
  int32_t labels = 0;            // of a classification head; 0: there is none
  double head_temperature = 1;   // what its logits are divided by
  int32_t dense_width = 0;       // of what Dense layers make of a vector; 0: there are none
  bool dense_of_tokens = false;  // whether those of single tokens go through them as well
  int32_t draft_layers = 0;      // GGUF: layers behind the last one that predict further tokens
  int32_t bos_id = -1;           // -1: none
  std::vector<int32_t> eos_ids;  // may be empty
  std::string dtype;             // of the weights as the file states it; for information
  QuantConfig quantization;      // of the weights of a directory
  bool from_gguf = false;
  bool qk_permuted = false;  // query and key rows interleave the halves of a head (GGUF "llama")

  LayerKind kind(int32_t layer) const {
    return layer_kinds.empty() ? LayerKind::kAttention : layer_kinds[static_cast<size_t>(layer)];
  }
  int32_t recurrent_count() const;
  bool has_experts(int32_t layer) const {
    return experts.count > 0 && experts.layers[static_cast<size_t>(layer)] != 0;
  }
  // Of the feed-forward block of a layer, as far as a token goes through it.
  int64_t feed_forward_width() const {
    if (experts.count == 0) return intermediate;
    return int64_t{experts.intermediate} * experts.per_token + (experts.shared ? intermediate : 0);
  }
  // Keys that a layer of attention sees, the query's own the last; 0: all, as when the window is no
  // shorter than the longest sequence. A bidirectional one sees as many in the other direction.
  int32_t window(int32_t layer) const {
    int64_t keys = windows.empty() ? 0 : windows[static_cast<size_t>(layer)];
    if (bidirectional && keys > 0) keys = (halved_windows ? keys / 2 : keys) + 1;
    return keys < max_positions ? static_cast<int32_t>(keys) : 0;
  }
  // This, with the rotation of the layers that have a window.
  ModelConfig of_window_rope() const;
  // The residual is held as x / residual_multiplier, so that each block adds its result as it is:
  // rounded weights need no factor. Norms of it see the same numbers with a smaller epsilon.
  float embedding_scale() const {
    return static_cast<float>(embedding_multiplier / residual_multiplier);
  }
  float residual_norm_eps() const {
    return static_cast<float>(double{norm_eps} / (residual_multiplier * residual_multiplier));
  }

  // Dimensions of a head that rotate: head_dim x partial_rotary_factor, rounded down.
  int32_t rotary_dim() const {
    if (!rotates) return 0;
    return static_cast<int32_t>(head_dim * rope.partial_rotary_factor + 1e-9);
  }
};

// Throw kUnsupportedModel for what this library does not run (naming it) and kFormat for values
// that make no sense (naming value and limits).
ModelConfig config_from_json(const Json& json);
ModelConfig config_from_gguf(const GgufMetadata& metadata, const TensorSource& tensors);

// The end-of-sequence ids of generation_config.json, which go before those of config.json.
void apply_generation_config(const Json& json, ModelConfig& config);

// Rules that hold whatever the source; the two readers call it last.
void check_config(const ModelConfig& config);
// sqrt(1 + ln(factor) / ln(original)), at least 1: the attention factor of longrope when the file
// gives none.
double longrope_attention_factor(double factor, int32_t original_max_positions);
// 0.1 mscale ln(factor) + 1, at least 1: that of yarn.
double yarn_attention_factor(double factor, double mscale = 1);

}  // namespace prefix
