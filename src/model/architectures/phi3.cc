// Phi-3 and Phi-4-mini: as Llama, with fused projections; partial rotation and longrope come from
// the configuration.
#include "model/architectures/list.h"

namespace prefix {

const Architecture kPhi3 = {
    .name = "phi3",
    .qk_norm = QkNorm::kNone,
    .config = {.norm_eps = 1e-5,
               .attention_bias = false,
               .partial_rotary = true,
               .su_is_longrope = true},
    .hugging_face =
        {
            .embedding = "model.embed_tokens.weight",
            .output_norm = "model.norm.weight",
            .output = "lm_head.weight",
            .attention_norm = "model.layers.{}.input_layernorm.weight",
            .ffn_norm = "model.layers.{}.post_attention_layernorm.weight",
            .qkv = "model.layers.{}.self_attn.qkv_proj",
            .attention_output = "model.layers.{}.self_attn.o_proj",
            .gate_up = "model.layers.{}.mlp.gate_up_proj",
            .down = "model.layers.{}.mlp.down_proj",
        },
    .gguf =
        {
            .embedding = "token_embd.weight",
            .output_norm = "output_norm.weight",
            .output = "output.weight",
            .attention_norm = "blk.{}.attn_norm.weight",
            .ffn_norm = "blk.{}.ffn_norm.weight",
            .qkv = "blk.{}.attn_qkv",
            .attention_output = "blk.{}.attn_output",
            .gate_up = "blk.{}.ffn_up",
            .down = "blk.{}.ffn_down",
        },
};

}  // namespace prefix
