// What Sentence Transformers puts beside a model: a pooling and Dense layers behind it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace prefix::testing_support {

struct DenseModule {
  std::string folder;
  int64_t in = 0, out = 0;
  std::string activation = "torch.nn.modules.linear.Identity";
  std::vector<float> weight;  // [out, in]
  std::vector<float> bias;    // empty: none
};

inline void write_file(const std::string& path, const std::string& bytes) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary).write(bytes.data(), std::ssize(bytes));
}

inline std::string dense_safetensors(const DenseModule& dense) {
  const auto bytes_of = [](const std::vector<float>& v) {
    return std::string(reinterpret_cast<const char*>(v.data()), v.size() * sizeof(float));
  };
  const std::string weight = bytes_of(dense.weight), bias = bytes_of(dense.bias);
  nlohmann::json header;
  header["linear.weight"] = {
      {"dtype", "F32"}, {"shape", {dense.out, dense.in}}, {"data_offsets", {0, weight.size()}}};
  if (!bias.empty())
    header["linear.bias"] = {{"dtype", "F32"},
                             {"shape", {dense.out}},
                             {"data_offsets", {weight.size(), weight.size() + bias.size()}}};
  const std::string text = header.dump();
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + text + weight + bias;
}

inline nlohmann::json dense_config(const DenseModule& dense) {
  return {{"in_features", dense.in},
          {"out_features", dense.out},
          {"bias", !dense.bias.empty()},
          {"activation_function", dense.activation}};
}

// modules.json: the model, the pooling, these, and what stands behind them.
inline void write_modules(const std::string& folder, const std::vector<DenseModule>& dense) {
  auto list = nlohmann::json::array();
  const auto add = [&](const std::string& kind, const std::string& path) {
    list.push_back({{"idx", list.size()},
                    {"name", std::to_string(list.size())},
                    {"path", path},
                    {"type", "sentence_transformers.models." + kind}});
  };
  add("Transformer", "");
  add("Pooling", "1_Pooling");
  for (const DenseModule& d : dense) {
    add("Dense", d.folder);
    write_file(folder + "/" + d.folder + "/config.json", dense_config(d).dump());
    write_file(folder + "/" + d.folder + "/model.safetensors", dense_safetensors(d));
  }
  add("Normalize", "9_Normalize");
  write_file(folder + "/modules.json", list.dump());
  write_file(folder + "/1_Pooling/config.json", R"({"pooling_mode_mean_tokens": true})");
}

}  // namespace prefix::testing_support
