// The tensors of a checkpoint under other names.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace prefix::testing_support {

inline std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path << " is missing; tools/golden/make_models.py writes the golden models";
  return {std::istreambuf_iterator<char>(file), {}};
}

// A safetensors file whose tensors are called something else; those whose new name is empty are
// left out.
inline std::string renamed_tensors(const std::string& safetensors,
                                   const std::function<std::string(const std::string&)>& rename) {
  uint64_t length;
  std::memcpy(&length, safetensors.data(), sizeof length);
  const auto header = nlohmann::json::parse(safetensors.substr(sizeof length, length));
  auto renamed = nlohmann::json::object();
  std::string data;
  for (const auto& [name, tensor] : header.items()) {
    const std::string to = name == "__metadata__" ? "" : rename(name);
    if (to.empty()) continue;
    const auto offsets = tensor.at("data_offsets").get<std::vector<size_t>>();
    const size_t bytes = offsets[1] - offsets[0];
    renamed[to] = tensor;
    renamed[to]["data_offsets"] = {data.size(), data.size() + bytes};
    data += safetensors.substr(sizeof length + length + offsets[0], bytes);
  }
  const std::string text = renamed.dump();
  length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text + data;
}

}  // namespace prefix::testing_support
