// Pages that leave memory and come back: a later engine, or another machine, gets the same bits.
#include <gtest/gtest.h>

#include <filesystem>

#include "cache/disk_format.h"
#include "engine_support.h"

namespace prefix {
namespace {

using namespace testing_support;
using Tokens = std::vector<int32_t>;

const TinyCheckpoint& checkpoint() {
  static const TinyCheckpoint* const kCheckpoint = new TinyCheckpoint;
  return *kCheckpoint;
}

struct Tiers : testing::Test {
  Tiers() {
    static int serial = 0;
    folder = (std::filesystem::temp_directory_path() /
              ("prefix-tier-" + std::to_string(getpid()) + "-" + std::to_string(serial++)))
                 .string();
  }
  ~Tiers() override { std::filesystem::remove_all(folder); }

  std::shared_ptr<Engine> open(const char* isa = "auto", const std::string& cache = "64M") {
    return make_engine(checkpoint(),
                       {{"cache_disk", folder}, {"cache_bytes", cache}, {"isa", isa}});
  }
  static RequestSpec generate(const Tokens& tokens, int32_t name_space = 0) {
    RequestSpec spec;
    spec.tokens = tokens;
    spec.name_space = name_space;
    spec.sampling.max_tokens = 4;
    spec.sampling.ignore_eos = true;
    spec.sampling.logprobs = true;
    return spec;
  }

  std::string folder;
  std::mt19937 random{7};
};

TEST_F(Tiers, ALaterEngineComputesOnlyWhatIsNotOnDisk) {
  const Tokens prompt = random_tokens(random, 100, 128);
  const auto cold = run_all(*open(), {generate(prompt)});
  const auto engine = open();
  const auto warm = run_all(*engine, {generate(prompt)});
  EXPECT_TRUE(same_bits(cold->result(0), warm->result(0)));
  EXPECT_EQ(cold->result(0).usage.cached, 0);
  EXPECT_EQ(warm->result(0).usage.cached, 96);
  EXPECT_EQ(warm->result(0).usage.computed, 4);
}

}  // namespace
}  // namespace prefix
