// Tensor names as Llama has them; most architectures change a few.
#pragma once

#include "model/architecture.h"

namespace prefix {

constexpr TensorNames llama_names() {
  return {
      .embedding = "model.embed_tokens.weight",
      .output_norm = "model.norm.weight",
      .output = "lm_head.weight",
      .attention_norm = "model.layers.{}.input_layernorm.weight",
      .ffn_norm = "model.layers.{}.post_attention_layernorm.weight",
      .q = "model.layers.{}.self_attn.q_proj",
      .k = "model.layers.{}.self_attn.k_proj",
      .v = "model.layers.{}.self_attn.v_proj",
      .attention_output = "model.layers.{}.self_attn.o_proj",
      .gate = "model.layers.{}.mlp.gate_proj",
      .up = "model.layers.{}.mlp.up_proj",
      .down = "model.layers.{}.mlp.down_proj",
  };
}

constexpr TensorNames gguf_llama_names() {
  return {
      .embedding = "token_embd.weight",
      .output_norm = "output_norm.weight",
      .output = "output.weight",
      .attention_norm = "blk.{}.attn_norm.weight",
      .ffn_norm = "blk.{}.ffn_norm.weight",
      .q = "blk.{}.attn_q",
      .k = "blk.{}.attn_k",
      .v = "blk.{}.attn_v",
      .attention_output = "blk.{}.attn_output",
      .gate = "blk.{}.ffn_gate",
      .up = "blk.{}.ffn_up",
      .down = "blk.{}.ffn_down",
  };
}

// Routed experts: all of a layer in one tensor.
constexpr TensorNames with_gguf_experts(TensorNames names) {
  names.router = "blk.{}.ffn_gate_inp";
  names.expert_gate = "blk.{}.ffn_gate_exps";
  names.expert_up = "blk.{}.ffn_up_exps";
  names.expert_down = "blk.{}.ffn_down_exps";
  return names;
}

// A Mamba-2 layer.
constexpr TensorNames with_gguf_ssm(TensorNames names) {
  names.in = "blk.{}.ssm_in";
  names.conv = "blk.{}.ssm_conv1d";
  names.dt_bias = "blk.{}.ssm_dt.bias";
  names.a = "blk.{}.ssm_a";
  names.d = "blk.{}.ssm_d";
  names.gated_norm = "blk.{}.ssm_norm.weight";
  names.recurrent_output = "blk.{}.ssm_out";
  return names;
}

// RMS norms of query and key.
constexpr TensorNames with_qk_norms(TensorNames names, bool gguf) {
  names.q_norm = gguf ? "blk.{}.attn_q_norm.weight" : "model.layers.{}.self_attn.q_norm.weight";
  names.k_norm = gguf ? "blk.{}.attn_k_norm.weight" : "model.layers.{}.self_attn.k_norm.weight";
  return names;
}

}  // namespace prefix
