// The text part of dense Qwen3.5: three layers of the gated delta rule to one of attention, whose
// output is gated; norms of 1 + w; a quarter of each head rotates. The published files are of
// vision models ("qwen3_5", the text model under text_config and behind "model.language_model.").
//
// GGUF ("qwen35", as llama.cpp's converter writes it): norms hold 1 + w, but for the gated norm,
// which never lacked it; ssm_a is -exp(A_log); the filters are [channels, width]; where there are
// more value heads than key heads, value heads are stored in turns of the key heads (tensor_rows.h)
// in every tensor that has them. Blocks of further-token prediction come last and are counted in
// nextn_predict_layers.
#include "model/architectures/llama_names.h"

namespace prefix {
namespace {

constexpr TensorNames hugging_face() {
  TensorNames names = with_qk_norms(llama_names(), false);
  names.in_qkv = "model.layers.{}.linear_attn.in_proj_qkv";
  names.in_z = "model.layers.{}.linear_attn.in_proj_z";
  names.in_b = "model.layers.{}.linear_attn.in_proj_b";
  names.in_a = "model.layers.{}.linear_attn.in_proj_a";
  names.conv = "model.layers.{}.linear_attn.conv1d";
  names.dt_bias = "model.layers.{}.linear_attn.dt_bias";
  names.a = "model.layers.{}.linear_attn.A_log";
  names.gated_norm = "model.layers.{}.linear_attn.norm.weight";
  names.recurrent_output = "model.layers.{}.linear_attn.out_proj";
  return names;
}

constexpr TensorNames gguf() {
  TensorNames names = with_qk_norms(gguf_llama_names(), true);
  names.ffn_norm = "blk.{}.post_attention_norm.weight";
  names.in_qkv = "blk.{}.attn_qkv";
  names.in_z = "blk.{}.attn_gate";
  names.in_b = "blk.{}.ssm_beta";
  names.in_a = "blk.{}.ssm_alpha";
  names.conv = "blk.{}.ssm_conv1d";
  names.dt_bias = "blk.{}.ssm_dt.bias";
  names.a = "blk.{}.ssm_a";
  names.gated_norm = "blk.{}.ssm_norm.weight";
  names.recurrent_output = "blk.{}.ssm_out";
  return names;
}

const Architecture kArchitecture = {
    .name = "qwen3_5",
    .aliases = {"qwen3_5_text", "qwen35"},
    .qk_norm = QkNorm::kPerHead,
    .recurrent = Mixer::kGatedDelta,
    .output_gate = true,
    .norms_plus_one = true,
    .left_out = {"mtp."},
    .config = {.kv_heads = 4,
               .head_dim = 256,
               .partial_rotary = true,
               .partial_rotary_factor = 0.25,
               .text_config = true,
               .attention_interval = 4,
               .recurrent = {.heads = {"linear_num_value_heads", 32},
                             .head_dim = {"linear_value_head_dim", 128},
                             .groups = {"linear_num_key_heads", 16},
                             .state = {"linear_key_head_dim", 128},
                             .conv_width = {"linear_conv_kernel_dim", 4}}},
    .hugging_face = hugging_face(),
    .gguf = gguf(),
};
const ArchitectureEntry entry(kArchitecture);

}  // namespace
}  // namespace prefix
