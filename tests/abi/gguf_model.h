// A model in GGUF for tests of what is read.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "model/gguf_writer.h"

namespace prefix_abi {

// A one-layer model in GGUF, the same number everywhere.
inline prefix::testing_support::GgufWriter gguf_model() {
  prefix::testing_support::GgufWriter w;
  w.string("general.architecture", "llama");
  for (const auto& [key, value] :
       std::initializer_list<std::pair<const char*, uint32_t>>{{"embedding_length", 32},
                                                               {"block_count", 1},
                                                               {"attention.head_count", 2},
                                                               {"attention.head_count_kv", 1},
                                                               {"feed_forward_length", 64},
                                                               {"context_length", 128}})
    w.integer(std::string("llama.") + key, value);
  w.number("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  const auto matrix = [&](const char* name, uint64_t columns, uint64_t rows) {
    w.f32(name, {columns, rows}, std::vector<float>(columns * rows, 0.01f));
  };
  const auto norm = [&](const char* name) { w.f32(name, {32}, std::vector<float>(32, 1.0f)); };
  matrix("token_embd.weight", 32, 50);
  norm("output_norm.weight");
  norm("blk.0.attn_norm.weight");
  norm("blk.0.ffn_norm.weight");
  matrix("blk.0.attn_q.weight", 32, 32);
  matrix("blk.0.attn_k.weight", 32, 16);
  matrix("blk.0.attn_v.weight", 32, 16);
  matrix("blk.0.attn_output.weight", 32, 32);
  matrix("blk.0.ffn_gate.weight", 32, 64);
  matrix("blk.0.ffn_up.weight", 32, 64);
  matrix("blk.0.ffn_down.weight", 64, 32);
  return w;
}

}  // namespace prefix_abi
