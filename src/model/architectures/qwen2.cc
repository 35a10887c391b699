// Qwen2 and Qwen2.5: as Llama, with a bias on query, key and value.
#include "model/architectures/llama_names.h"

namespace prefix {
namespace {

const Architecture kArchitecture = {
    .name = "qwen2",
    .config = {.kv_heads = 32,
               .qkv_bias = true,
               .window = {.layers = WindowLayers::kFromLayer, .absent = 4096}},
    .hugging_face = llama_names(),
    .gguf = gguf_llama_names(),
};
const ArchitectureEntry entry(kArchitecture);

}  // namespace
}  // namespace prefix
