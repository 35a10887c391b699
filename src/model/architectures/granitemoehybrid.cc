// Granite 4.0-H: Mamba-2 layers and a few of attention, usually without positions; multipliers of
// embedding, scores, residual and logits; some with routed experts beside the feed-forward block.
// The Granite 4.0 models without "H" have layers of attention only, which rotate.
//
// GGUF ("granitehybrid", as llama.cpp's converter writes it): ssm_a is -exp(A_log); ssm_a and ssm_d
// are [heads, 1], the gated norm [groups, inner / groups], the filters [channels, width]; the fused
// input of the feed-forward part is split; rows of q and k are permuted as those of "llama".
// attention.head_count_kv is a list with 0 where a layer is recurrent.
#include "model/architectures/llama_names.h"

namespace prefix {
namespace {

constexpr TensorNames hugging_face() {
  TensorNames names = llama_names();
  names.gate = names.up = "";
  names.gate_up = "model.layers.{}.shared_mlp.input_linear";
  names.down = "model.layers.{}.shared_mlp.output_linear";
  names.router = "model.layers.{}.block_sparse_moe.router.layer";
  names.expert_gate_up = "model.layers.{}.block_sparse_moe.input_linear";
  names.expert_down = "model.layers.{}.block_sparse_moe.output_linear";
  names.in = "model.layers.{}.mamba.in_proj";
  names.conv = "model.layers.{}.mamba.conv1d";
  names.dt_bias = "model.layers.{}.mamba.dt_bias";
  names.a = "model.layers.{}.mamba.A_log";
  names.d = "model.layers.{}.mamba.D";
  names.gated_norm = "model.layers.{}.mamba.norm.weight";
  names.recurrent_output = "model.layers.{}.mamba.out_proj";
  return names;
}

constexpr TensorNames gguf_names() {
  TensorNames names = with_gguf_experts(with_gguf_ssm(gguf_llama_names()));
  names.shared_gate = "blk.{}.ffn_gate_shexp";
  names.shared_up = "blk.{}.ffn_up_shexp";
  names.shared_down = "blk.{}.ffn_down_shexp";
  return names;
}

const Architecture kArchitecture = {
    .name = "granitemoehybrid",
    .aliases = {"granitehybrid"},
    .recurrent = Mixer::kMamba2,
    .config = {.gguf_permuted = true,
               .named_positions = true,
               .multipliers = true,
               .shared_mlp = true,
               .recurrent = {.heads = {"mamba_n_heads", 128},
                             .head_dim = {"mamba_d_head"},
                             .groups = {"mamba_n_groups", 1},
                             .state = {"mamba_d_state", 256},
                             .conv_width = {"mamba_d_conv", 4},
                             .conv_bias = "mamba_conv_bias",
                             .projection_bias = "mamba_proj_bias"},
               .experts = {.count = {"num_local_experts", 8},
                           .per_token = {"num_experts_per_tok", 2},
                           .intermediate = {"intermediate_size", 11008}}},
    .hugging_face = hugging_face(),
    .gguf = gguf_names(),
};
const ArchitectureEntry entry(kArchitecture);

}  // namespace
}  // namespace prefix
