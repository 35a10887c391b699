// Qwen3: as Llama, with an RMS norm over each head of query and key before the rotation. The text
// part of "qwen3_vl" is the same: its three positions of a token are one where there is only text.
#include "model/architectures/llama_names.h"

namespace prefix {
namespace {

const Architecture kArchitecture = {
    .name = "qwen3",
    .aliases = {"qwen3_vl", "qwen3_vl_text"},
    .qk_norm = QkNorm::kPerHead,
    .config = {.kv_heads = 32,
               .head_dim = 128,
               .text_config = true,
               .window = {.layers = WindowLayers::kFromLayer, .absent = 4096}},
    .hugging_face = with_qk_norms(llama_names(), false),
    .gguf = with_qk_norms(gguf_llama_names(), true),
};
const ArchitectureEntry entry(kArchitecture);

}  // namespace
}  // namespace prefix
