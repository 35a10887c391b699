// Example: as Llama, with norms of query and key and names of its own.
#include "model/architectures/llama_names.h"

namespace prefix {
namespace {

constexpr TensorNames hugging_face() {
  TensorNames names = llama_names();
  names.ffn_norm = "model.layers.{}.mlp_norm.weight";
  names.q_norm = "model.layers.{}.self_attn.query_norm.weight";
  names.k_norm = "model.layers.{}.self_attn.key_norm.weight";
  return names;
}

const Architecture kArchitecture = {
    .name = "example",
    .qk_norm = QkNorm::kPerHead,
    .config = {.norm_eps = 1e-5, .rope_theta = 1e6, .unrotated_interval = 4},
    .hugging_face = hugging_face(),
    .gguf = with_qk_norms(gguf_llama_names(), true),
};
const ArchitectureEntry entry(kArchitecture);

}  // namespace
}  // namespace prefix
