// Qwen3: as Llama, with an RMS norm over each head of query and key before the rotation.
#include "model/architectures/llama_names.h"

namespace prefix {
namespace {

const Architecture kArchitecture = {
    .name = "qwen3",
    .qk_norm = QkNorm::kPerHead,
    .config = {.kv_heads = 32, .head_dim = 128},
    .hugging_face = with_qk_norms(llama_names(), false),
    .gguf = with_qk_norms(gguf_llama_names(), true),
};
const ArchitectureEntry entry(kArchitecture);

}  // namespace
}  // namespace prefix
