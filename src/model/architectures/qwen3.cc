// Qwen3: as Llama, with an RMS norm over each head of query and key before the rotation.
#include "model/architectures/list.h"

namespace prefix {

const Architecture kQwen3 = {
    .name = "qwen3",
    .qk_norm = QkNorm::kPerHead,
    .config = {.kv_heads = 32, .head_dim = 128},
    .hugging_face =
        {
            .embedding = "model.embed_tokens.weight",
            .output_norm = "model.norm.weight",
            .output = "lm_head.weight",
            .attention_norm = "model.layers.{}.input_layernorm.weight",
            .ffn_norm = "model.layers.{}.post_attention_layernorm.weight",
            .q = "model.layers.{}.self_attn.q_proj",
            .k = "model.layers.{}.self_attn.k_proj",
            .v = "model.layers.{}.self_attn.v_proj",
            .attention_output = "model.layers.{}.self_attn.o_proj",
            .q_norm = "model.layers.{}.self_attn.q_norm.weight",
            .k_norm = "model.layers.{}.self_attn.k_norm.weight",
            .gate = "model.layers.{}.mlp.gate_proj",
            .up = "model.layers.{}.mlp.up_proj",
            .down = "model.layers.{}.mlp.down_proj",
        },
    .gguf =
        {
            .embedding = "token_embd.weight",
            .output_norm = "output_norm.weight",
            .output = "output.weight",
            .attention_norm = "blk.{}.attn_norm.weight",
            .ffn_norm = "blk.{}.ffn_norm.weight",
            .q = "blk.{}.attn_q",
            .k = "blk.{}.attn_k",
            .v = "blk.{}.attn_v",
            .attention_output = "blk.{}.attn_output",
            .q_norm = "blk.{}.attn_q_norm.weight",
            .k_norm = "blk.{}.attn_k_norm.weight",
            .gate = "blk.{}.ffn_gate",
            .up = "blk.{}.ffn_up",
            .down = "blk.{}.ffn_down",
        },
};

}  // namespace prefix
