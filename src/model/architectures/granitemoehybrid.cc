// Granite 4.0-H without experts: Mamba-2 layers and a few of attention, usually without positions;
// multipliers of embedding, scores, residual and logits. The Granite 4.0 models without "H" have
// layers of attention only, which rotate.
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
  names.in = "model.layers.{}.mamba.in_proj";
  names.conv = "model.layers.{}.mamba.conv1d";
  names.dt_bias = "model.layers.{}.mamba.dt_bias";
  names.a = "model.layers.{}.mamba.A_log";
  names.d = "model.layers.{}.mamba.D";
  names.gated_norm = "model.layers.{}.mamba.norm.weight";
  names.recurrent_output = "model.layers.{}.mamba.out_proj";
  return names;
}

constexpr TensorNames gguf() {
  TensorNames names = gguf_llama_names();
  names.in = "blk.{}.ssm_in";
  names.conv = "blk.{}.ssm_conv1d";
  names.dt_bias = "blk.{}.ssm_dt.bias";
  names.a = "blk.{}.ssm_a";
  names.d = "blk.{}.ssm_d";
  names.gated_norm = "blk.{}.ssm_norm.weight";
  names.recurrent_output = "blk.{}.ssm_out";
  return names;
}

const Architecture kArchitecture = {
    .name = "granitemoehybrid",
    .aliases = {"granitehybrid"},
    .recurrent = Mixer::kMamba2,
    .config = {.gguf_permuted = true,
               .named_positions = true,
               .multipliers = true,
               .shared_mlp = true},
    .hugging_face = hugging_face(),
    .gguf = gguf(),
};
const ArchitectureEntry entry(kArchitecture);

}  // namespace
}  // namespace prefix
