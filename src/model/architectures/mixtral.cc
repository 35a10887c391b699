// Mixtral: as Llama, with routed experts in every layer. GGUF files of it say "llama".
#include "model/architectures/llama_names.h"

namespace prefix {
namespace {

constexpr TensorNames hugging_face_names() {
  TensorNames names = llama_names();
  names.router = "model.layers.{}.block_sparse_moe.gate";
  names.expert_gate = "model.layers.{}.block_sparse_moe.experts.{e}.w1";
  names.expert_up = "model.layers.{}.block_sparse_moe.experts.{e}.w3";
  names.expert_down = "model.layers.{}.block_sparse_moe.experts.{e}.w2";
  return names;
}

const Architecture kArchitecture = {
    .name = "mixtral",
    .config = {.norm_eps = 1e-5,
               .kv_heads = 8,
               .gguf_permuted = true,
               .rope_theta = 1000000,
               .window = {.layers = WindowLayers::kAll},
               .experts = {.count = {"num_local_experts", 8},
                           .per_token = {"num_experts_per_tok", 2}}},
    .hugging_face = hugging_face_names(),
    .gguf = with_gguf_experts(gguf_llama_names()),
};
const ArchitectureEntry entry(kArchitecture);

}  // namespace
}  // namespace prefix
