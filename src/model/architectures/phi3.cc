// Phi-3 and Phi-4-mini: as Llama, with fused projections; partial rotation and longrope come from
// the configuration.
#include "model/architectures/llama_names.h"

namespace prefix {
namespace {

constexpr TensorNames fused(TensorNames names, bool gguf) {
  names.q = names.k = names.v = names.gate = names.up = "";
  names.qkv = gguf ? "blk.{}.attn_qkv" : "model.layers.{}.self_attn.qkv_proj";
  names.gate_up = gguf ? "blk.{}.ffn_up" : "model.layers.{}.mlp.gate_up_proj";
  return names;
}

const Architecture kArchitecture = {
    .name = "phi3",
    .config = {.norm_eps = 1e-5,
               .attention_bias = false,
               .partial_rotary = true,
               .su_is_longrope = true,
               .window = {.layers = WindowLayers::kAll}},
    .hugging_face = fused(llama_names(), false),
    .gguf = fused(gguf_llama_names(), true),
};
const ArchitectureEntry entry(kArchitecture);

}  // namespace
}  // namespace prefix
