// What is told without loading is what loading tells: mutants of the headers of good models through
// both, which must agree in status and message.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "base/status.h"
#include "model/architecture.h"
#include "model/files/model_files.h"
#include "model/load/weights.h"
#include "model/model.h"
#include "ops/devices.h"
#include "random_checkpoint.h"
#include "support/build_folder.h"
#include "support/cases.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace prefix {
namespace {

using testing_support::cases;
using testing_support::TempFolder;

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

template <typename Action>
std::string outcome_of(const Action& action) {
  try {
    action();
    return "good";
  } catch (const Error& e) {
    return cat(static_cast<int32_t>(e.code()), ": ", e.message());
  }
}

class CheckWeights : public testing::Test {
 protected:
  CheckWeights() : device_(ops::make_device({.name = "cpu"})) {}

  // Mutates the first `header` bytes of `file`, from byte `from` on.
  void compare(const std::string& model, const std::string& file, size_t from, size_t header) {
    const std::string good = read(file);
    int refused = 0, accepted = 0, by_tensors = 0;
    for (int seed = 0; seed < cases(3000); ++seed) {
      std::mt19937 random(static_cast<uint32_t>(seed));
      std::string bytes = good;
      for (uint32_t n = 1 + random() % 2; n > 0; --n) {
        char& byte = bytes[from + random() % (header - from)];
        const bool digit = byte >= '0' && byte <= '9';
        byte = digit               ? static_cast<char>('0' + random() % 10)
               : random() % 2 == 0 ? static_cast<char>(byte ^ (1 << random() % 8))
                                   : static_cast<char>(random() % 128);
      }
      std::ofstream(file, std::ios::binary) << bytes;
      const std::string opened = outcome_of([&] { open_model(model); });
      const std::string checked = outcome_of([&] {
        const ModelFiles files = open_model(model);
        weight_shapes(files, find_architecture(files.config.architecture), ops::kBf16Types);
      });
      const std::string loaded =
          outcome_of([&] { Model(open_model(model), *device_, 64, nullptr); });
      ASSERT_EQ(checked, loaded) << "seed " << seed;
      (loaded == "good" ? accepted : refused) += 1;
      by_tensors += opened == "good" && loaded != "good";
    }
    EXPECT_GT(accepted, 0);
    EXPECT_GT(refused, 0);
    EXPECT_GT(by_tensors, 0) << "names and shapes that only the architecture refuses";
  }

  TempFolder folder_;
  std::unique_ptr<ops::Device> device_;
};

TEST_F(CheckWeights, AgreesWithTheLoadOfSafetensors) {
  tools::write_checkpoint(folder_.path(), {});
  const std::string file = folder_ / "model.safetensors";
  const std::string bytes = read(file);
  compare(folder_.path(), file, 8, bytes.find("}}") + 2);
}

TEST_F(CheckWeights, NamesTheGgufFile) {
  const std::string whole = testing_support::build_folder() + "/golden-models/llama-gguf-q8_0.gguf";
  if (!std::filesystem::exists(whole))
    GTEST_SKIP() << whole << " is missing; tools/golden writes it";
  std::string bytes = read(whole);
  bytes.replace(bytes.find("blk.1.attn_q.weight"), 19, "blk.1.attn_Q.weight");
  const std::string file = folder_ / "model.gguf";
  std::ofstream(file, std::ios::binary) << bytes;
  testing_support::expect_error(Code::kFormat, {file, "blk.1.attn_q.weight", "missing"},
                                [&] { Model(open_model(file), *device_, 64, nullptr); });
}

TEST_F(CheckWeights, AgreesWithTheLoadOfGguf) {
  const std::string whole = testing_support::build_folder() + "/golden-models/llama-gguf-q8_0.gguf";
  if (!std::filesystem::exists(whole))
    GTEST_SKIP() << whole << " is missing; tools/golden writes it";
  const std::string file = folder_ / "model.gguf";
  std::filesystem::copy_file(whole, file);
  const std::string bytes = read(file);
  // From the first tensor on: a model of another size would load, but take its memory.
  const size_t at = bytes.find("token_embd.weight");
  ASSERT_NE(at, std::string::npos);
  compare(file, file, at, at + 1500);
}

}  // namespace
}  // namespace prefix
