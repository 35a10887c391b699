// Writes a random-weight checkpoint in Hugging Face form (config.json and model.safetensors): the
// model of the tests and benchmarks that need a shape, not an answer. Uses nothing of the library,
// so that it can be a witness for its readers.
#pragma once

#include <cstdint>
#include <string>

namespace prefix::tools {

// Recurrent layers of granitemoehybrid and nemotron_h (Mamba-2), qwen3_5_text (the gated delta rule) or
// lfm2 (a short convolution, of which `conv` alone counts).
struct RecurrentShape {
  std::string layers;  // a letter for each layer: r recurrent, a attention, f (nemotron_h) MLP
  int32_t heads = 4;   // of values
  int32_t head_dim = 16;
  int32_t groups = 2;  // of B and C; key heads
  int32_t state = 16;  // of each group; size of a key
  int32_t conv = 4;
};

struct CheckpointShape {
  // llama, qwen2, qwen3, olmo2, phi3, mistral, granite, gemma, smollm3; olmo3, ministral, gemma2,
  // gemma3_text with `windows`, which qwen2, qwen3, phi3 and mistral may have; granitemoehybrid,
  // qwen3_5_text, nemotron_h, lfm2 with `recurrent`
  std::string architecture = "qwen3";
  int32_t hidden = 64;
  int32_t layers = 2;
  int32_t heads = 4;
  int32_t kv_heads = 2;
  int32_t head_dim = 16;
  int32_t intermediate = 96;
  int32_t vocab = 131;
  int32_t max_positions = 4096;
  bool tied = true;
  RecurrentShape recurrent;
  std::string windows;  // a letter for each layer: s has the window, f has none; empty: none has it
  int32_t window = 0;   // keys that a query sees
  uint64_t seed = 1;
  // The same block of weights over and over in every tensor: gigabytes at the speed of the disk.
  bool repeat = false;
};

// "tiny", "qwen3-0.6b", "granite-4.0-h-350m" and so on; throws std::invalid_argument listing the names.
CheckpointShape named_shape(const std::string& name);

// Creates the directory; throws std::runtime_error when a file cannot be written. Weights are bf16,
// normal with a deviation of 0.5 / sqrt(fan-in) (embeddings: 1), norms 1 with some noise.
void write_checkpoint(const std::string& directory, const CheckpointShape& shape);

}  // namespace prefix::tools
