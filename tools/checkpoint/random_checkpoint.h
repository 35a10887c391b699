// Writes a random-weight checkpoint in Hugging Face form (config.json and model.safetensors): the
// model of the tests and benchmarks that need a shape, not an answer. Uses nothing of the library,
// so that it can be a witness for its readers.
#pragma once

#include <cstdint>
#include <string>

namespace prefix::tools {

struct CheckpointShape {
  std::string architecture = "qwen3";  // llama, qwen2, qwen3, olmo2, phi3
  int32_t hidden = 64;
  int32_t layers = 2;
  int32_t heads = 4;
  int32_t kv_heads = 2;
  int32_t head_dim = 16;
  int32_t intermediate = 96;
  int32_t vocab = 131;
  int32_t max_positions = 4096;
  bool tied = true;
  uint64_t seed = 1;
  // The same block of weights over and over in every tensor: gigabytes at the speed of the disk.
  bool repeat = false;
};

// "qwen3-0.6b", "qwen3-4b", "qwen3-8b", "tiny"; throws std::invalid_argument listing the names.
CheckpointShape named_shape(const std::string& name);

// Creates the directory; throws std::runtime_error when a file cannot be written. Weights are bf16,
// normal with a deviation of 0.5 / sqrt(fan-in) (embeddings: 1), norms 1 with some noise.
void write_checkpoint(const std::string& directory, const CheckpointShape& shape);

}  // namespace prefix::tools
