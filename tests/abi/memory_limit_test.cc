// Out of memory as the system tells it: a child process with a limit on its address space.
#include <cstdio>

#include "abi_support.h"
#include "support/build_folder.h"
#include "support/sanitized.h"

namespace prefix_abi {
namespace {

// The lines that memory_limit.c prints; it must end well.
std::vector<std::string> lines_of(const char* name) {
  const std::string command = prefix::testing_support::build_folder() + "/bin/abi_memory_limit" +
                              " " + name + " " + model_path();
  FILE* const child = popen(command.c_str(), "r");
  std::vector<std::string> lines;
  char line[1024];
  while (child && std::fgets(line, sizeof(line), child)) lines.emplace_back(line);
  EXPECT_EQ(child ? pclose(child) : -1, 0) << "the child did not end well";
  return lines;
}

#define EXPECT_LINES(lines, ...)                                         \
  do {                                                                   \
    const std::vector<std::string> expected = {__VA_ARGS__};             \
    EXPECT_EQ(lines.size(), expected.size());                            \
    for (size_t i = 0; i < std::min(lines.size(), expected.size()); ++i) \
      EXPECT_EQ(lines[i].substr(0, expected[i].size()), expected[i]);    \
  } while (false)

class MemoryLimit : public testing::Test {
 protected:
  void SetUp() override {
    if (prefix::testing_support::is_sanitized())
      GTEST_SKIP() << "a sanitizer maps more than any limit allows";
  }
};

TEST_F(MemoryLimit, AtLoad) {
  const auto lines = lines_of("load");
  EXPECT_LINES(lines, "load with a large cache: PREFIX_ERR_OUT_OF_MEMORY, there is no memory for ",
               "load with a small cache: PREFIX_OK", "small run: PREFIX_OK");
  EXPECT_NE(lines.at(0).find("option cache_bytes"), std::string::npos) << lines[0];
}

TEST_F(MemoryLimit, ForThreads) {
  const auto lines = lines_of("threads");
  EXPECT_LINES(lines, "load with 1000 threads: PREFIX_ERR_OUT_OF_MEMORY, ",
               "load with 2 threads: PREFIX_OK", "small run: PREFIX_OK");
}

TEST_F(MemoryLimit, AtEveryPlaceOfALoad) {
  const auto lines = lines_of("sweep");
  EXPECT_LINES(lines, "sweep: some out of memory, then some loaded");
}

TEST_F(MemoryLimit, ForABatch) {
  const auto lines = lines_of("batch");
  EXPECT_LINES(lines, "load: PREFIX_OK", "batch that grows: PREFIX_ERR_OUT_OF_MEMORY, ",
               "run of the full batch: PREFIX_ERR_OUT_OF_MEMORY, ", "small run: PREFIX_OK");
}

TEST_F(MemoryLimit, ForAStep) {
  const auto lines = lines_of("step");
  EXPECT_LINES(lines, "load: PREFIX_OK", "small run: PREFIX_OK",
               "run with a large step: PREFIX_ERR_OUT_OF_MEMORY, ", "small run: PREFIX_OK",
               "the same with more memory: PREFIX_OK");
}

}  // namespace
}  // namespace prefix_abi
