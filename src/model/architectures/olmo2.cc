// OLMo-2: norms after each block instead of before it, and query and key normed over their whole
// width.
#include "model/architectures/list.h"

namespace prefix {

const Architecture kOlmo2 = {
    .name = "olmo2",
    .qk_norm = QkNorm::kWholeWidth,
    .config = {.norm_eps = 1e-5},
    .hugging_face =
        {
            .embedding = "model.embed_tokens.weight",
            .output_norm = "model.norm.weight",
            .output = "lm_head.weight",
            .post_attention_norm = "model.layers.{}.post_attention_layernorm.weight",
            .post_ffn_norm = "model.layers.{}.post_feedforward_layernorm.weight",
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
            .post_attention_norm = "blk.{}.post_attention_norm.weight",
            .post_ffn_norm = "blk.{}.post_ffw_norm.weight",
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
