// Architectures as data: what a layer does and what its tensors are called.
//
// layer.h resolves these specs, and the forward pass reads nothing else about an architecture, so a
// new one of this family is a file in architectures/ and a golden vector.
#pragma once

#include <cstdint>
#include <string_view>

namespace prefix {

enum class QkNorm { kNone, kPerHead, kWholeWidth };

// Tensor names of one file format; "{}" stands for the layer number, an empty name for "not there".
struct TensorNames {
  std::string_view embedding, output_norm, output;
  std::string_view attention_norm, post_attention_norm;  // before, after the attention block
  std::string_view ffn_norm, post_ffn_norm;
  std::string_view q, k, v, qkv, attention_output;  // without ".weight" / ".bias"
  std::string_view q_norm, k_norm;
  std::string_view gate, up, gate_up, down;
};

// How the configuration of an architecture is read: what its transformers class takes for a key
// that config.json leaves out, and which keys it looks at at all.
struct ConfigTraits {
  double norm_eps = 1e-6;      // rms_norm_eps
  int32_t kv_heads = 0;        // num_key_value_heads; 0 = as many as heads
  int32_t head_dim = 0;        // head_dim; 0 = hidden_size / num_attention_heads
  bool attention_bias = true;  // the key is looked at; false: no bias, whatever it says
  bool qkv_bias = false;       // query, key and value always have one, the output never
  bool mlp_bias = false;
  bool partial_rotary = false;  // may rotate a part of each head only
  bool su_is_longrope = false;  // older files name longrope "su" or "yarn"
  bool gguf_permuted = false;   // GGUF stores query and key rows with interleaved halves
};

struct Architecture {
  std::string_view name;
  QkNorm qk_norm = QkNorm::kNone;
  ConfigTraits config;
  TensorNames hugging_face;
  TensorNames gguf;
};

// Throws kUnsupportedModel, listing the supported names.
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
