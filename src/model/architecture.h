// Architectures as data: what a layer does and what its tensors are called.
//
// layer.h resolves these specs, and the forward pass reads nothing else about an architecture, so a
// new one of this family is a file in architectures/ and a golden vector.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "ops/activation.h"

namespace prefix {

// What brings tokens together in a layer: attention, or a recurrence that carries a state along.
enum class Mixer { kNone, kAttention, kMamba2, kGatedDelta, kShortConv };

// down (act (gate x) * (up x)), or down (relu (up x)^2), or a few gated ones of many, as a router
// says for each token.
enum class FeedForward { kNone, kGated, kSquaredRelu, kExperts };

enum class QkNorm { kNone, kPerHead, kWholeWidth };

// Tensor names of one file format; "{}" stands for the layer number, an empty name for "not there".
// Those of the body begin with "model." in Hugging Face files, whatever stands there in a file
// (tensor_names.h).
struct TensorNames {
  std::string_view embedding, output_norm, output;
  std::string_view attention_norm, post_attention_norm;  // before, after the mixer of any kind
  std::string_view ffn_norm, post_ffn_norm;              // before, after the feed-forward block
  std::string_view q, k, v, qkv, attention_output;       // without ".weight" / ".bias"
  std::string_view q_norm, k_norm;
  std::string_view sinks;  // of attention: a score for each head
  std::string_view gate, up, gate_up, down;
  // Of routed experts. Matrices of an expert have "{e}" for its number; without it all experts lie
  // one after the other in one tensor. There expert_gate_up is both, gate above up of each expert.
  // Where their rows take turns, expert_turns is both, and it and expert_down are whole names
  // (expert_rows.h); biases have "_bias" behind them.
  std::string_view router, expert_gate, expert_up, expert_gate_up, expert_turns, expert_down;
  // Of a gated block beside experts, where it is not called what a block alone is called.
  std::string_view shared_gate, shared_up, shared_down;
  // Of a recurrent layer. The projection into it is `in`, or `in_qkv`, `in_z`, `in_b` and `in_a`;
  // it and `conv` go without ".weight" / ".bias", the others are whole.
  std::string_view in, in_qkv, in_z, in_b, in_a, conv;
  std::string_view dt_bias, a, d, gated_norm, recurrent_output;
};

// A size in config.json, and what is taken where the file leaves it out.
struct SizeKey {
  const char* name = nullptr;
  int64_t absent = 0;
};

// Where config.json has the sizes of a recurrent layer (RecurrentConfig).
struct RecurrentKeys {
  SizeKey heads;     // no name: a gated convolution, which has a width only
  SizeKey head_dim;  // absent 0: mamba_expand x hidden_size / heads
  SizeKey groups, state, conv_width;
  const char* conv_bias = nullptr;        // null: there is none
  const char* projection_bias = nullptr;  // of the projections into the layer and out of it
  bool conv_biased = true;                // where the file leaves conv_bias out
};

// Where config.json says which experts there are (ExpertConfig).
struct ExpertKeys {
  SizeKey count;                    // no name: the architecture has no experts
  const char* count_too = nullptr;  // another name of the same key
  SizeKey per_token;
  SizeKey intermediate;              // no name: intermediate_size, and no layer is without experts
  const char* normalized = nullptr;  // a switch, off where the file leaves it out; null: always
  bool biased = false;               // the router and all matrices of experts
};

// Which layers of attention have a window, where the file does not list their types.
enum class WindowLayers {
  kNone,       // the model has no windows; a file with one is of another model
  kAll,        // all, as soon as there is a window, whatever the list says
  kAllIfUsed,  // the same, with use_sliding_window
  kListed,     // as listed; all where there is a window and no list
  kFromLayer,  // with use_sliding_window, those from max_window_layers on
  kPattern,    // all but every n-th: WindowTraits::pattern
};

struct WindowTraits {
  WindowLayers layers = WindowLayers::kNone;
  int32_t absent = 0;     // sliding_window where the file leaves it out; 0: none
  int32_t pattern = 0;    // where the file has no sliding_window_pattern
  bool own_rope = false;  // layers with a window rotate by a table of their own
  double rope_theta = 0;  // of that table where the file has none: 0: that of the other layers
};

// query_pre_attn_scalar, by the root of which scores are divided, and the soft caps.
struct ScoreTraits {
  bool read = false;
  double query_scale = 256, score_cap = 0, logit_cap = 0;  // where the file leaves them out
  // GGUF has no key for the first one: a model of so many layers divides by hidden_size / heads.
  int32_t wide_layers = 0;
  bool caps_scores = false;  // else a cap of scores in the file is not used, as in Transformers
};

// How the configuration of an architecture is read: what its transformers class takes for a key
// that config.json leaves out, and which keys it looks at at all.
struct ConfigTraits {
  const char* norm_eps_key = "rms_norm_eps";
  double norm_eps = 1e-6;
  // Sizes that published files leave to their class; 0 = a file has to have them.
  int32_t vocab_size = 0, heads = 0, max_positions = 0;
  int32_t kv_heads = 0;           // num_key_value_heads; 0 = as many as heads
  int32_t head_dim = 0;           // head_dim; 0 = hidden_size / num_attention_heads
  bool attention_bias = true;     // the key is looked at; false: no bias, whatever it says
  bool attention_biased = false;  // where the file leaves attention_bias out
  bool qkv_bias = false;          // query, key and value always have one, the output never
  bool mlp_bias = false;
  bool partial_rotary = false;  // may rotate a part of each head only
  bool su_is_longrope = false;  // older files name longrope "su" or "yarn"
  bool gguf_permuted = false;   // GGUF stores query and key rows with interleaved halves
  double partial_rotary_factor = 1;
  bool tied = false;  // tie_word_embeddings
  bool rotates = true;
  double rope_theta = 10000;
  // A config.json without rope parameters means yarn by 32 from 4096 positions, between frequencies
  // that are not whole (RopeConfig::truncate). GGUF files, which have no key for that, mean it too.
  bool yarn = false;
  // no_rope_layers: every n-th does not rotate where the file does not list them; 0: all do.
  int32_t unrotated_interval = 0;
  bool named_positions = false;   // rotates only where position_embedding_type is "rope"
  bool multipliers = false;       // of embedding, attention, residual and logits
  bool scaled_embedding = false;  // by the root of hidden_size
  const char* activation_key = "hidden_act";
  // Where the file has no such key. kClampedSwiglu goes by "silu" in files.
  ops::ActivationFn activation = ops::ActivationFn::kSilu;
  bool gelu_is_tanh = false;       // files say "gelu" and mean its tanh form
  bool text_config = false;        // a vision model has its text model under this key
  bool shared_mlp = false;         // shared_intermediate_size: of a block beside experts, if any
  int32_t attention_interval = 0;  // full_attention_interval; 0: no such key
  WindowTraits window = {};
  ScoreTraits scores = {};
  // hybrid_override_pattern: the layers, a letter each. Their number may be left out then.
  bool layer_pattern = false;
  // block_ff_dim and what it becomes; tie_embedding; full_attn_idxs: the first spelling of LFM2.
  bool lfm2_keys = false;
  RecurrentKeys recurrent = {};
  ExpertKeys experts = {};
};

struct Architecture {
  std::string_view name;
  std::array<std::string_view, 2> aliases = {};  // other names in config.json or GGUF
  QkNorm qk_norm = QkNorm::kNone;
  Mixer recurrent = Mixer::kNone;  // kind of its recurrent layers, if it has some
  FeedForward feed_forward = FeedForward::kGated;
  // A token sees those behind it, whatever the file says.
  bool bidirectional = false;
  // A layer is a mixer or a feed-forward block, not both.
  bool single_blocks = false;
  // Each head of the attention is multiplied by the sigmoid of a gate: rows of q [query | gate].
  bool output_gate = false;
  // The architecture that a GGUF file with windows is of, where it is another one.
  std::string_view windowed_gguf = {};
  std::string_view experts_gguf = {};  // the same for one with experts
  // Hugging Face files hold w of norms that multiply by 1 + w. GGUF has 1 + w.
  bool norms_plus_one = false;
  // Tensors of other parts of a Hugging Face file, which are left alone, by what they begin with.
  std::array<std::string_view, 4> left_out = {};
  ConfigTraits config;
  TensorNames hugging_face;
  TensorNames gguf;
};

// By its name or an alias. Throws kUnsupportedModel, listing the supported names.
const Architecture& find_architecture(std::string_view name);

// Makes an architecture known: one at the end of each file in architectures/. The list is complete
// before anything can be asked of it, because entries are static objects.
class ArchitectureEntry {
 public:
  explicit ArchitectureEntry(const Architecture& architecture);

 private:
  friend const Architecture& find_architecture(std::string_view name);
  const Architecture& architecture_;
  const ArchitectureEntry* next_;
};

}  // namespace prefix
