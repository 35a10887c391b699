// Mistral, the first of which had a window: as Llama, and the text part of "mistral3", which sees
// as well. GGUF files of it say "llama", and no window.
#include "model/architectures/llama_names.h"

namespace prefix {
namespace {

const Architecture kArchitecture = {
    .name = "mistral",
    .aliases = {"mistral3"},
    .config = {.kv_heads = 8,
               .attention_bias = false,
               .text_config = true,
               .window = {.layers = WindowLayers::kAll, .absent = 4096}},
    .hugging_face = llama_names(),
    .gguf = gguf_llama_names(),
};
const ArchitectureEntry entry(kArchitecture);

}  // namespace
}  // namespace prefix
