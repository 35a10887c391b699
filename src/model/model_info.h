// What the files of a model hold, from their headers alone: nothing is loaded.
#pragma once

#include <string>

namespace prefix {

// {"format": "safetensors" or "GGUF",
//  "architecture": name, as the file gives it, "model_type": the architecture here that runs it,
//  "sizes": {"layers", "hidden", "heads", "kv_heads", "head_dim", "intermediate", "vocabulary",
//            "max_positions", "recurrent_layers", "experts", "experts_per_token"},
//  "logits": whether it has an output matrix; without one it embeds only,
//  "tensors": [{"group": "embedding" | "attention" | "mlp" | "norm" | "output" |
//                        "recurrent" | "unused" | "other",
//               "dtype": type in the file, "tensors": n, "parameters": n, "bytes": n in the file}],
//  "parameters": n, "bytes": n, "state_bytes": n, "flops_per_token": n}
//
// state_bytes: what the recurrent layers know after a token, all of them together.
// flops_per_token: two operations for each weight that takes part in a matrix product, the
// embedding among them when it serves as the output. Attention comes on top, in proportion to the
// context. Throws as open_model() and weight_shapes() do.
std::string model_info_json(const std::string& path);

}  // namespace prefix
