// Every input of corpus/ through its target: a test on every compiler, and under the sanitizers.
// What a fuzzer once found stays there and is found again here.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "target.h"
#include "target_names.h"  // PREFIX_FUZZ_TARGETS(X), made by CMakeLists.txt

namespace prefix::fuzz {

#define DECLARE(name) void run_##name(Input input);
PREFIX_FUZZ_TARGETS(DECLARE)
#undef DECLARE

namespace {

struct Target {
  const char* name;
  void (*run)(Input);
};
constexpr Target kTargets[] = {
#define ENTRY(name) {#name, run_##name},
    PREFIX_FUZZ_TARGETS(ENTRY)
#undef ENTRY
};

class Corpus : public testing::TestWithParam<Target> {};

TEST_P(Corpus, Replays) {
  const Target& target = GetParam();
  std::vector<std::filesystem::path> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(PREFIX_FUZZ_CORPUS) / target.name))
    files.push_back(entry.path());
  ASSERT_FALSE(files.empty());
  std::sort(files.begin(), files.end());
  for (const std::filesystem::path& path : files) {
    SCOPED_TRACE(path);
    std::ifstream file(path, std::ios::binary);
    const std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(file), {}};
    target.run(bytes);
    // Cut short and with a bit changed it is an input too.
    for (size_t i = 1; i <= 8; ++i) {
      std::vector<uint8_t> other = bytes;
      if (other.empty()) break;
      other[other.size() * i / 9] ^= static_cast<uint8_t>(1 << i % 8);
      target.run(other);
      target.run(Input(bytes).first(bytes.size() * i / 9));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, Corpus, testing::ValuesIn(kTargets),
                         [](const auto& target) { return std::string(target.param.name); });

}  // namespace
}  // namespace prefix::fuzz
