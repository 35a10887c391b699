// Reads the golden vectors of tests/golden (its README.md describes the files).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "support/build_folder.h"

namespace prefix::testing_support {

// Written by tools/golden/make_models.py before the tests run.
inline std::string golden_models() { return build_folder() + "/golden-models"; }

struct Golden {
  nlohmann::json index;
  std::vector<float> floats;

  explicit Golden(const std::string& stem) {
    std::ifstream json(stem + ".json");
    index = nlohmann::json::parse(json);
    std::ifstream bin(stem + ".bin", std::ios::binary | std::ios::ate);
    floats.resize(static_cast<size_t>(bin.tellg()) / sizeof(float));
    bin.seekg(0);
    bin.read(reinterpret_cast<char*>(floats.data()),
             static_cast<std::streamsize>(floats.size() * sizeof(float)));
  }
  const float* at(const nlohmann::json& entry, const char* key) const {
    return floats.data() + entry.at(key).get<size_t>();
  }
};

inline std::string golden_folder() { return std::string(PREFIX_TEST_DATA) + "/golden"; }

// The models whose logits are there, below golden_models(), with their architectures.
inline const std::map<std::string, std::string>& golden_architectures() {
  static const std::map<std::string, std::string> models = [] {
    std::map<std::string, std::string> read;
    for (const auto& entry : std::filesystem::directory_iterator(golden_folder() + "/logits")) {
      const std::filesystem::path& path = entry.path();
      if (path.extension() != ".json") continue;
      const Golden golden((path.parent_path() / path.stem()).string());
      read[golden.index.at("path").get<std::string>()] = golden.index.at("architecture");
    }
    return read;
  }();
  return models;
}

// One of each architecture.
inline std::vector<std::string> base_models() {
  std::vector<std::string> names;
  for (const auto& [name, architecture] : golden_architectures())
    if (!name.ends_with(".gguf") && name.find("base") != std::string::npos) names.push_back(name);
  return names;
}

// Of a test over a model: GoogleTest takes letters, digits and _.
inline std::string test_name(std::string model) {
  std::ranges::replace_if(model, [](unsigned char c) { return !std::isalnum(c); }, '_');
  return model;
}

// How far apart two vectors are.
struct Distance {
  double max_abs = 0;
  double error_squares = 0;
  double squares = 0;
  void add(const float* got, const float* expected, size_t n) {
    for (size_t i = 0; i < n; ++i) {
      const double e = static_cast<double>(got[i]) - expected[i];
      max_abs = std::isnan(e) ? INFINITY : std::max(max_abs, std::abs(e));
      error_squares += e * e;
      squares += static_cast<double>(expected[i]) * expected[i];
    }
  }
  double relative() const { return std::sqrt(error_squares / std::max(squares, 1e-30)); }
};

inline size_t best_of(const float* row, size_t n) {
  return static_cast<size_t>(std::max_element(row, row + n) - row);
}

}  // namespace prefix::testing_support
