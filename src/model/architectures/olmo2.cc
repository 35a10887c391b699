// OLMo-2: norms after each block instead of before it, and query and key normed over their whole
// width. OLMo-3: the same with windows, and rotation scaled in layers without one;
// GGUF calls it by the name of the other, and has windows.
#include "model/architectures/llama_names.h"

namespace prefix {
namespace {

constexpr TensorNames norms_after(TensorNames names, bool gguf) {
  names.attention_norm = names.ffn_norm = "";
  names.post_attention_norm = gguf ? "blk.{}.post_attention_norm.weight"
                                   : "model.layers.{}.post_attention_layernorm.weight";
  names.post_ffn_norm =
      gguf ? "blk.{}.post_ffw_norm.weight" : "model.layers.{}.post_feedforward_layernorm.weight";
  return with_qk_norms(names, gguf);
}

const Architecture kArchitecture = {
    .name = "olmo2",
    .qk_norm = QkNorm::kWholeWidth,
    .windowed_gguf = "olmo3",
    .config = {.norm_eps = 1e-5},
    .hugging_face = norms_after(llama_names(), false),
    .gguf = norms_after(gguf_llama_names(), true),
};
const ArchitectureEntry entry(kArchitecture);

const Architecture kOlmo3 = {
    .name = "olmo3",
    .qk_norm = QkNorm::kWholeWidth,
    .config = {.norm_eps = 1e-5,
               .rope_theta = 500000,
               .window = {.layers = WindowLayers::kPattern,
                          .absent = 4096,
                          .pattern = 4,
                          .own_rope = true}},
    .hugging_face = norms_after(llama_names(), false),
    .gguf = norms_after(gguf_llama_names(), true),
};
const ArchitectureEntry olmo3(kOlmo3);

}  // namespace
}  // namespace prefix
