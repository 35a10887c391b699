// A copy of a golden model that a test may change.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "model/architecture.h"
#include "model/files/model_files.h"
#include "model/load/weights.h"
#include "support/golden.h"
#include "support/temp_folder.h"

namespace prefix::testing_support {

struct Copied {
  explicit Copied(const std::string& name) {
    for (const char* file : {"config.json", "model.safetensors"}) {
      const std::string from = golden_models() + "/" + name + "/" + file;
      EXPECT_TRUE(std::filesystem::exists(from)) << "tools/golden/make_models.py writes the models";
      std::filesystem::copy_file(from, folder / file);
    }
  }
  static std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // In either file: the name of a tensor, a number. Of the same length, so that offsets stay.
  void replace(const char* file, const std::string& from, const std::string& to) {
    std::string bytes = read(folder / file);
    const size_t at = bytes.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    ASSERT_EQ(from.size(), to.size());
    bytes.replace(at, from.size(), to);
    folder.write(file, bytes);
  }
  void check() const {
    const ModelFiles files = open_model(folder.path());
    weight_shapes(files, find_architecture(files.config.architecture), ops::kBf16Types);
  }
  TempFolder folder;
};

}  // namespace prefix::testing_support
