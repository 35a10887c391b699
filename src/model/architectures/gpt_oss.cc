// gpt-oss: routed experts with biases and a clamped activation in every layer, every second layer
// with a window, and attention with a sink for each head.
#include "model/architectures/llama_names.h"

namespace prefix {
namespace {

constexpr TensorNames hugging_face_names() {
  TensorNames names = llama_names();
  names.sinks = "model.layers.{}.self_attn.sinks";
  names.router = "model.layers.{}.mlp.router";
  names.expert_turns = "model.layers.{}.mlp.experts.gate_up_proj";
  names.expert_down = "model.layers.{}.mlp.experts.down_proj";
  return names;
}

constexpr TensorNames gguf_names() {
  TensorNames names = with_gguf_experts(gguf_llama_names());
  names.ffn_norm = "blk.{}.post_attention_norm.weight";
  names.sinks = "blk.{}.attn_sinks.weight";
  return names;
}

const Architecture kArchitecture = {
    .name = "gpt_oss",
    .aliases = {"gpt-oss"},
    .config = {.norm_eps = 1e-5,
               .kv_heads = 8,
               .head_dim = 64,
               .attention_biased = true,
               .rope_theta = 150000,
               .yarn = true,
               .activation = ops::ActivationFn::kClampedSwiglu,
               .window = {.layers = WindowLayers::kPattern, .absent = 128, .pattern = 2},
               .experts = {.count = {"num_local_experts", 128},
                           .count_too = "num_experts",
                           .per_token = {"num_experts_per_tok", 4},
                           .biased = true}},
    .hugging_face = hugging_face_names(),
    .gguf = gguf_names(),
};
const ArchitectureEntry entry(kArchitecture);

}  // namespace
}  // namespace prefix
