// Ministral: as Llama, with windows.
#include "model/architectures/llama_names.h"

namespace prefix {
namespace {

const Architecture kArchitecture = {
    .name = "ministral",
    .config = {.kv_heads = 8,
               .attention_bias = false,
               .window = {.layers = WindowLayers::kListed, .absent = 4096}},
    .hugging_face = llama_names(),
    .gguf = gguf_llama_names(),
};
const ArchitectureEntry entry(kArchitecture);

}  // namespace
}  // namespace prefix
