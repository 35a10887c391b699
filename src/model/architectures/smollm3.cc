// SmolLM3: as Llama, with layers that do not rotate:
// each fourth, where no_rope_layers does not list them. GGUF has no key for them.
#include "model/architectures/llama_names.h"

namespace prefix {
namespace {

const Architecture kArchitecture = {
    .name = "smollm3",
    .config = {.kv_heads = 4,
               .mlp_bias = true,
               .gguf_permuted = true,
               .tied = true,
               .rope_theta = 2e6,
               .unrotated_interval = 4},
    .hugging_face = llama_names(),
    .gguf = gguf_llama_names(),
};
const ArchitectureEntry entry(kArchitecture);

}  // namespace
}  // namespace prefix
