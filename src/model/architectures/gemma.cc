// Gemma (1): as Llama, with GELU in its tanh form, the embedding times the root of its width, and
// norms of 1 + w. config.json says "gelu" and means that form. Gemma 2: norms after each block too,
// windows in every other layer, soft caps. Gemma 3: query and key normed instead of the caps, more
// windows, which rotate by a table of their own;
// or an embedder, whose tokens see those behind them.
#include "model/architectures/llama_names.h"

namespace prefix {
namespace {

constexpr TensorNames norms_around(TensorNames names, bool gguf) {
  names.post_attention_norm = gguf ? "blk.{}.post_attention_norm.weight"
                                   : "model.layers.{}.post_attention_layernorm.weight";
  if (!gguf) names.ffn_norm = "model.layers.{}.pre_feedforward_layernorm.weight";
  names.post_ffn_norm =
      gguf ? "blk.{}.post_ffw_norm.weight" : "model.layers.{}.post_feedforward_layernorm.weight";
  return names;
}

const Architecture kArchitecture = {
    .name = "gemma",
    .norms_plus_one = true,
    .config = {.kv_heads = 16,
               .head_dim = 256,
               .tied = true,
               .scaled_embedding = true,
               .activation = ops::ActivationFn::kGeluTanh,
               .gelu_is_tanh = true},
    .hugging_face = llama_names(),
    .gguf = gguf_llama_names(),
};
const ArchitectureEntry entry(kArchitecture);

const Architecture kGemma2 = {
    .name = "gemma2",
    .norms_plus_one = true,
    .config = {.kv_heads = 4,
               .head_dim = 256,
               .tied = true,
               .scaled_embedding = true,
               .activation_key = "hidden_activation",
               .activation = ops::ActivationFn::kGeluTanh,
               .window = {.layers = WindowLayers::kPattern, .absent = 4096, .pattern = 2},
               .scores = {.read = true,
                          .score_cap = 50,
                          .logit_cap = 30,
                          .wide_layers = 46,
                          .caps_scores = true}},
    .hugging_face = norms_around(llama_names(), false),
    .gguf = norms_around(gguf_llama_names(), true),
};
const ArchitectureEntry gemma2(kGemma2);

constexpr Architecture kGemma3 = {
    .name = "gemma3_text",
    .aliases = {"gemma3"},
    .qk_norm = QkNorm::kPerHead,
    .norms_plus_one = true,
    .left_out = {"vision_tower.", "multi_modal_projector.", "model.vision_tower.",
                 "model.multi_modal_projector."},
    .config = {.vocab_size = 262208,
               .heads = 8,
               .max_positions = 131072,
               .kv_heads = 4,
               .head_dim = 256,
               .tied = true,
               .rope_theta = 1000000,
               .scaled_embedding = true,
               .activation_key = "hidden_activation",
               .activation = ops::ActivationFn::kGeluTanh,
               .text_config = true,
               .window = {.layers = WindowLayers::kPattern,
                          .absent = 4096,
                          .pattern = 6,
                          .own_rope = true,
                          .rope_theta = 10000},
               .scores = {.read = true, .wide_layers = 62}},
    .hugging_face = with_qk_norms(norms_around(llama_names(), false), false),
    .gguf = with_qk_norms(norms_around(gguf_llama_names(), true), true),
};
const ArchitectureEntry gemma3(kGemma3);

// EmbeddingGemma as llama.cpp calls it; its config.json names Gemma 3.
constexpr Architecture embedding_of(Architecture gemma3) {
  gemma3.name = "gemma-embedding";
  gemma3.aliases = {};
  gemma3.bidirectional = true;
  return gemma3;
}
const Architecture kGemmaEmbedding = embedding_of(kGemma3);
const ArchitectureEntry gemma_embedding(kGemmaEmbedding);

}  // namespace
}  // namespace prefix
