// Llama 2 and 3, SmolLM2, Mistral-like: norms before each block, no query or key norm.
#include "model/architectures/llama_names.h"

namespace prefix {
namespace {

const Architecture kArchitecture = {
    .name = "llama",
    .experts_gguf = "mixtral",
    .config = {.mlp_bias = true, .gguf_permuted = true},
    .hugging_face = llama_names(),
    .gguf = gguf_llama_names(),
};
const ArchitectureEntry entry(kArchitecture);

}  // namespace
}  // namespace prefix
