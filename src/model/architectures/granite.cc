// Granite 3, dense: as Llama, with multipliers of embedding, scores, residual and logits.
#include "model/architectures/llama_names.h"

namespace prefix {
namespace {

const Architecture kArchitecture = {
    .name = "granite",
    .config = {.mlp_bias = true, .gguf_permuted = true, .multipliers = true},
    .hugging_face = llama_names(),
    .gguf = gguf_llama_names(),
};
const ArchitectureEntry entry(kArchitecture);

}  // namespace
}  // namespace prefix
