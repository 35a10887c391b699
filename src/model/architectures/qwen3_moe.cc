// Qwen3 with routed experts: as Qwen3, with a few of many feed-forward blocks for each token.
#include "model/architectures/llama_names.h"

namespace prefix {
namespace {

constexpr TensorNames hugging_face_names() {
  TensorNames names = with_qk_norms(llama_names(), false);
  names.router = "model.layers.{}.mlp.gate";
  names.expert_gate = "model.layers.{}.mlp.experts.{e}.gate_proj";
  names.expert_up = "model.layers.{}.mlp.experts.{e}.up_proj";
  names.expert_down = "model.layers.{}.mlp.experts.{e}.down_proj";
  return names;
}

const Architecture kArchitecture = {
    .name = "qwen3_moe",
    .aliases = {"qwen3moe"},
    .qk_norm = QkNorm::kPerHead,
    .config = {.kv_heads = 4,
               .window = {.layers = WindowLayers::kAllIfUsed, .absent = 4096},
               .experts = {.count = {"num_experts", 128},
                           .count_too = "num_local_experts",
                           .per_token = {"num_experts_per_tok", 8},
                           .intermediate = {"moe_intermediate_size", 768},
                           .normalized = "norm_topk_prob"}},
    .hugging_face = hugging_face_names(),
    .gguf = with_gguf_experts(with_qk_norms(gguf_llama_names(), true)),
};
const ArchitectureEntry entry(kArchitecture);

}  // namespace
}  // namespace prefix
