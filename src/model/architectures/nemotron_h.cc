// Nemotron-H and Nemotron Nano without experts: a layer is Mamba-2, attention or a feed-forward
// block without a gate, each behind one norm; no positions. Several groups of B and C, each normed
// by itself behind the gate. The published files say "backbone." where transformers has "model.".
//
// time_step_limit clamps as the published code does it: transformers 5 takes time_step_min, which
// only makes weights to begin a training with, for whole texts, and nothing for single tokens.
//
// GGUF ("nemotron_h", as llama.cpp's converter writes it): as that of Granite 4.0-H, but that
// feed_forward_length is a list, with 0 where a layer is a mixer. Rows of q and k are permuted as
// those of "llama": that changes no score, as nothing rotates, but adapters take rows in order.
#include "model/architectures/llama_names.h"

namespace prefix {
namespace {

constexpr TensorNames hugging_face() {
  TensorNames names;
  names.embedding = "model.embeddings.weight";
  names.output_norm = "model.norm_f.weight";
  names.output = "lm_head.weight";
  names.attention_norm = names.ffn_norm = "model.layers.{}.norm.weight";
  names.q = "model.layers.{}.mixer.q_proj";
  names.k = "model.layers.{}.mixer.k_proj";
  names.v = "model.layers.{}.mixer.v_proj";
  names.attention_output = "model.layers.{}.mixer.o_proj";
  names.up = "model.layers.{}.mixer.up_proj";
  names.down = "model.layers.{}.mixer.down_proj";
  names.in = "model.layers.{}.mixer.in_proj";
  names.conv = "model.layers.{}.mixer.conv1d";
  names.dt_bias = "model.layers.{}.mixer.dt_bias";
  names.a = "model.layers.{}.mixer.A_log";
  names.d = "model.layers.{}.mixer.D";
  names.gated_norm = "model.layers.{}.mixer.norm.weight";
  names.recurrent_output = "model.layers.{}.mixer.out_proj";
  return names;
}

constexpr TensorNames gguf() {
  TensorNames names = with_gguf_ssm(gguf_llama_names());
  names.ffn_norm = names.attention_norm;
  return names;
}

const Architecture kArchitecture = {
    .name = "nemotron_h",
    .recurrent = Mixer::kMamba2,
    .feed_forward = FeedForward::kSquaredRelu,
    .single_blocks = true,
    .left_out = {"mtp."},
    .config = {.norm_eps_key = "layer_norm_epsilon",
               .norm_eps = 1e-5,
               .kv_heads = 8,
               .head_dim = 128,
               .attention_bias = false,
               .mlp_bias = true,
               .gguf_permuted = true,
               .rotates = false,
               .layer_pattern = true,
               .recurrent = {.heads = {"mamba_num_heads", 128},
                             .head_dim = {"mamba_head_dim", 64},
                             .groups = {"n_groups", 8},
                             .state = {"ssm_state_size", 128},
                             .conv_width = {"conv_kernel", 4},
                             .conv_bias = "use_conv_bias",
                             .projection_bias = "use_bias"}},
    .hugging_face = hugging_face(),
    .gguf = gguf(),
};
const ArchitectureEntry entry(kArchitecture);

}  // namespace
}  // namespace prefix
