// Llama whose tokens see those behind them: the embedders and rerankers of Llama Nemotron
// (LlamaBidirectionalModel, LlamaBidirectionalForSequenceClassification).
#include "model/architectures/llama_names.h"

namespace prefix {
namespace {

const Architecture kArchitecture = {
    .name = "llama_bidirec",
    .bidirectional = true,
    .config = {.mlp_bias = true, .gguf_permuted = true},
    .hugging_face = llama_names(),
    .gguf = gguf_llama_names(),
};
const ArchitectureEntry entry(kArchitecture);

}  // namespace
}  // namespace prefix
