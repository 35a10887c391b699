// LFM2 and LFM2.5 without experts: gated short convolutions and a few layers of attention, with
// norms of query and key. A convolution's layer carries its last inputs along and nothing else.
//
// GGUF ("lfm2", as llama.cpp's converter writes it): the filters are [channels, width];
// attention.head_count_kv is a list with 0 where a layer is a convolution; feed_forward_length is
// what the size in config.json becomes; the last norm is named for the embedding.
#include "model/architectures/llama_names.h"

namespace prefix {
namespace {

constexpr TensorNames hugging_face() {
  TensorNames names = llama_names();
  names.output_norm = "model.embedding_norm.weight";
  names.attention_norm = "model.layers.{}.operator_norm.weight";
  names.ffn_norm = "model.layers.{}.ffn_norm.weight";
  names.attention_output = "model.layers.{}.self_attn.out_proj";
  names.q_norm = "model.layers.{}.self_attn.q_layernorm.weight";
  names.k_norm = "model.layers.{}.self_attn.k_layernorm.weight";
  names.gate = "model.layers.{}.feed_forward.w1";
  names.up = "model.layers.{}.feed_forward.w3";
  names.down = "model.layers.{}.feed_forward.w2";
  names.in = "model.layers.{}.conv.in_proj";
  names.conv = "model.layers.{}.conv.conv";
  names.recurrent_output = "model.layers.{}.conv.out_proj";
  return names;
}

constexpr TensorNames gguf() {
  TensorNames names = with_qk_norms(gguf_llama_names(), true);
  names.output_norm = "token_embd_norm.weight";
  names.in = "blk.{}.shortconv.in_proj";
  names.conv = "blk.{}.shortconv.conv";
  names.recurrent_output = "blk.{}.shortconv.out_proj";
  return names;
}

const Architecture kArchitecture = {
    .name = "lfm2",
    .qk_norm = QkNorm::kPerHead,
    .recurrent = Mixer::kShortConv,
    .config = {.norm_eps_key = "norm_eps",
               .norm_eps = 1e-5,
               .kv_heads = 8,
               .attention_bias = false,
               .tied = true,
               .rope_theta = 1e6,
               .lfm2_keys = true,
               .recurrent = {.conv_width = {"conv_L_cache", 3},
                             .conv_bias = "conv_bias",
                             .projection_bias = "conv_bias",
                             .conv_biased = false}},
    .hugging_face = hugging_face(),
    .gguf = gguf(),
};
const ArchitectureEntry entry(kArchitecture);

}  // namespace
}  // namespace prefix
