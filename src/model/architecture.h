// Architectures as data: what a layer does and what its tensors are called.
//
// layer.h resolves these specs, and the forward pass reads nothing else about an architecture, so a
// new one of this family is a file in architectures/ and a golden vector.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace prefix {

// What brings tokens together in a layer: attention, or a recurrence that carries a state along.
enum class Mixer { kNone, kAttention, kMamba2, kGatedDelta, kShortConv };

// down (silu (gate x) * (up x)), or down (relu (up x)^2).
enum class FeedForward { kNone, kGated, kSquaredRelu };

enum class QkNorm { kNone, kPerHead, kWholeWidth };

// Tensor names of one file format; "{}" stands for the layer number, an empty name for "not there".
struct TensorNames {
  std::string_view embedding, output_norm, output;
  std::string_view attention_norm, post_attention_norm;  // before, after the mixer of any kind
  std::string_view ffn_norm, post_ffn_norm;              // before, after the feed-forward block
  std::string_view q, k, v, qkv, attention_output;       // without ".weight" / ".bias"
  std::string_view q_norm, k_norm;
  std::string_view gate, up, gate_up, down;
  // Of a recurrent layer. The projection into it is `in`, or `in_qkv`, `in_z`, `in_b` and `in_a`; it
  // and `conv` go without ".weight" / ".bias", the others are whole.
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

// How the configuration of an architecture is read: what its transformers class takes for a key
// that config.json leaves out, and which keys it looks at at all.
struct ConfigTraits {
  const char* norm_eps_key = "rms_norm_eps";
  double norm_eps = 1e-6;
  int32_t kv_heads = 0;        // num_key_value_heads; 0 = as many as heads
  int32_t head_dim = 0;        // head_dim; 0 = hidden_size / num_attention_heads
  bool attention_bias = true;  // the key is looked at; false: no bias, whatever it says
  bool qkv_bias = false;       // query, key and value always have one, the output never
  bool mlp_bias = false;
  bool partial_rotary = false;  // may rotate a part of each head only
  bool su_is_longrope = false;  // older files name longrope "su" or "yarn"
  bool gguf_permuted = false;   // GGUF stores query and key rows with interleaved halves
  double partial_rotary_factor = 1;
  bool tied = false;  // tie_word_embeddings
  bool rotates = true;
  double rope_theta = 10000;
  bool named_positions = false;    // rotates only where position_embedding_type is "rope"
  bool multipliers = false;        // of embedding, attention, residual and logits
  bool text_config = false;        // a vision model has its text model under this key
  bool shared_mlp = false;         // shared_intermediate_size, beside experts that must be none
  int32_t attention_interval = 0;  // full_attention_interval; 0: no such key
  // hybrid_override_pattern: the layers, a letter each. Their number may be left out then.
  bool layer_pattern = false;
  // block_ff_dim and what it becomes; tie_embedding; full_attn_idxs: the first spelling of LFM2.
  bool lfm2_keys = false;
  RecurrentKeys recurrent = {};
};

struct Architecture {
  std::string_view name;
  std::array<std::string_view, 2> aliases = {};  // other names in config.json or GGUF
  QkNorm qk_norm = QkNorm::kNone;
  Mixer recurrent = Mixer::kNone;  // kind of its recurrent layers, if it has some
  FeedForward feed_forward = FeedForward::kGated;
  // A layer is a mixer or a feed-forward block, not both.
  bool single_blocks = false;
  // Each head of the attention is multiplied by the sigmoid of a gate: rows of q [query | gate].
  bool output_gate = false;
  // Hugging Face files hold w of norms that multiply by 1 + w. GGUF has 1 + w.
  bool norms_plus_one = false;
  // Tensors of other parts of a Hugging Face file, which are left alone, by what they begin with.
  std::array<std::string_view, 2> left_out = {};
  // What stands before the text model's names instead of "model." in some files.
  std::string_view nested = {};
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
