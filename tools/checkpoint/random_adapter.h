// Writes adapters as PEFT does, with random matrices for the modules that they name: those of the
// tests and benchmarks that need a shape, not an answer. Uses nothing of the library.
#pragma once

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "random_checkpoint.h"

namespace prefix::tools {

struct PeftTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> values;
};

inline void write_adapter_files(const std::string& folder, const std::string& config,
                                const std::vector<PeftTensor>& tensors) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/adapter_config.json") << config;
  std::string header = "{";
  size_t at = 0;
  for (const PeftTensor& t : tensors) {
    const size_t bytes = t.values.size() * sizeof(float);
    if (header.size() > 1) header += ",";
    header += "\"" + t.name + "\":{\"dtype\":\"F32\",\"shape\":[";
    for (size_t i = 0; i < t.shape.size(); ++i)
      header += (i > 0 ? "," : "") + std::to_string(t.shape[i]);
    header += "],\"data_offsets\":[" + std::to_string(at) + "," + std::to_string(at + bytes) + "]}";
    at += bytes;
  }
  header += "}";
  std::ofstream file(folder + "/adapter_model.safetensors", std::ios::binary);
  const uint64_t length = header.size();
  file.write(reinterpret_cast<const char*>(&length), sizeof(length));
  file << header;
  for (const PeftTensor& t : tensors)
    file.write(reinterpret_cast<const char*>(t.values.data()),
               static_cast<std::streamsize>(t.values.size() * sizeof(float)));
}

struct PeftAdapter {
  int64_t rank = 4;
  double alpha = 8;
  std::vector<std::string> modules = {"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                      "gate_proj", "up_proj", "down_proj"};
  unsigned seed = 1;
  float deviation = 0.3f;  // of B; A is about 1 / sqrt(k)
};

// For a model of llama's names.
inline void write_adapter(const std::string& folder, const CheckpointShape& s,
                          const PeftAdapter& adapter) {
  std::mt19937 random(adapter.seed);
  std::normal_distribution<float> normal;
  const int64_t q = int64_t{s.heads} * s.head_dim, kv = int64_t{s.kv_heads} * s.head_dim;
  const auto size_of = [&](const std::string& module) -> std::pair<int64_t, int64_t> {
    if (module == "q_proj") return {q, s.hidden};
    if (module == "o_proj") return {s.hidden, q};
    if (module == "k_proj" || module == "v_proj") return {kv, s.hidden};
    if (module == "down_proj") return {s.hidden, s.intermediate};
    return {s.intermediate, s.hidden};
  };
  std::vector<PeftTensor> tensors;
  std::string targets;
  for (const std::string& module : adapter.modules)
    targets += (targets.empty() ? "\"" : ",\"") + module + "\"";
  for (int32_t layer = 0; layer < s.layers; ++layer) {
    for (const std::string& module : adapter.modules) {
      const auto [n, k] = size_of(module);
      const bool attention =
          module[0] == 'q' || module[0] == 'k' || module[0] == 'v' || module[0] == 'o';
      const std::string stem = "base_model.model.model.layers." + std::to_string(layer) +
                               (attention ? ".self_attn." : ".mlp.") + module;
      PeftTensor a{stem + ".lora_A.weight", {adapter.rank, k}, {}};
      PeftTensor b{stem + ".lora_B.weight", {n, adapter.rank}, {}};
      const float scale = 1 / std::sqrt(static_cast<float>(k));
      for (int64_t i = 0; i < adapter.rank * k; ++i) a.values.push_back(normal(random) * scale);
      for (int64_t i = 0; i < adapter.rank * n; ++i)
        b.values.push_back(normal(random) * adapter.deviation);
      tensors.push_back(std::move(a));
      tensors.push_back(std::move(b));
    }
  }
  write_adapter_files(folder,
                      "{\"peft_type\": \"LORA\", \"r\": " + std::to_string(adapter.rank) +
                          ", \"lora_alpha\": " + std::to_string(adapter.alpha) +
                          ", \"target_modules\": [" + targets + "], \"bias\": \"none\"}",
                      tensors);
}

}  // namespace prefix::tools
