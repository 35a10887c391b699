// compute=int8 kv=int8: whole models have the same bits at every level of this machine, besides
// what invariance_test.cc promises, and those of tests/golden/level_bits.json on every machine.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <random>

#include "base/sha256.h"
#include "engine/random_requests.h"
#include "engine/variants.h"
#include "support/golden.h"
#include "support/hex.h"

namespace prefix {
namespace {

using testing_support::golden_folder;
using testing_support::hex_of;
using testing_support::make_options;
using testing_support::OptionList;
using testing_support::run_all;

class EveryLevel : public testing::TestWithParam<std::string> {
 protected:
  static std::shared_ptr<Engine> open(const std::string& isa, const OptionList& list,
                                      const char* keep = "", const char* dtype = "bf16") {
    Options options = make_options(list);
    options.set("isa", isa);
    options.set("dtype", dtype);
    options.set("compute", "int8");
    options.set("kv", "int8");
    options.set("compute_keep", keep);
    return Engine::create(testing_support::golden_models() + "/" + GetParam(), options, nullptr);
  }
  static std::vector<std::string> isas() {
    std::vector<std::string> list;
    for (const ops::IsaLevel& level : ops::cpu_isa_levels())
      if (level.available) list.emplace_back(level.name);
    return list;
  }
};

TEST_P(EveryLevel, BatchesThreadsChunksAndCachesAreEqualBits) {
  constexpr const char* kKeeps[] = {"head", "", "head,down"};
  const char* const keep = kKeeps[GetParam().size() % 3];
  const char* const dtype = GetParam().size() % 4 == 0 ? "f32" : "bf16";
  const auto alone = open("scalar", {{"threads", "1"}, {"cache", "false"}}, keep, dtype);
  std::vector<testing_support::Variant> variants;
  const std::vector<std::string> isas = EveryLevel::isas();
  for (const std::string& isa : isas) {
    variants.push_back({isa.c_str(), open(isa, {{"threads", "2"}}, keep, dtype)});
    variants.push_back({isa.c_str(), open(isa, {{"threads", "1"}, {"rows", "7"}}, keep, dtype)});
    variants.push_back(
        {isa.c_str(), open(isa, {{"sharing", "false"}, {"cache", "false"}}, keep, dtype)});
  }
  testing_support::expect_equal_bits(*alone, variants,
                                     {testing_support::cases(120), GetParam().size()},
                                     testing_support::random_batch);
}

// PREFIX_WRITE_LEVEL_BITS=1 writes the file anew: when bits are meant to change.
TEST_P(EveryLevel, BitsAreThoseOfEveryMachine) {
  const std::string path = golden_folder() + "/level_bits.json";
  for (const std::string& isa : isas()) {
    const auto engine = open(isa, {});
    Sha256 hash;
    for (unsigned seed = 1; seed <= 3; ++seed) {
      std::mt19937 random(seed);
      const std::vector<RequestSpec> batch =
          testing_support::random_batch(random, 1 + random() % 8);
      const auto job = run_all(*engine, batch);
      for (size_t i = 0; i < batch.size(); ++i) {
        const RequestResult& result = job->result(i);
        ASSERT_EQ(result.status, Code::kOk) << result.message;
        hash.update(result.values.data(), result.values.size() * sizeof(float));
        hash.update(result.tokens.data(), result.tokens.size() * sizeof(int32_t));
        hash.update(result.token_logprobs.data(), result.token_logprobs.size() * sizeof(float));
      }
    }
    const std::string digest = hex_of(hash.finish());
    nlohmann::ordered_json bits;
    std::ifstream(path) >> bits;
    if (std::getenv("PREFIX_WRITE_LEVEL_BITS") != nullptr) {
      bits[GetParam()] = digest;
      std::ofstream(path) << bits.dump(1) << '\n';
    }
    ASSERT_TRUE(bits.contains(GetParam())) << path;
    EXPECT_EQ(digest, bits[GetParam()].get<std::string>()) << isa;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, EveryLevel, testing::ValuesIn(testing_support::base_models()),
                         [](const auto& model) { return testing_support::test_name(model.param); });

// Pages of one level are those of another, also on a disk.
TEST(EveryLevelPages, AreOfUseToAnotherLevel) {
  ops::CpuOptions options;
  options.types.int8 = ops::kInt8All;
  options.types.kv = ops::KvType::kInt8;
  const std::string best = ops::make_cpu_device(options)->numerics();
  options.isa = "scalar";
  EXPECT_EQ(ops::make_cpu_device(options)->numerics(), best);
  options.types.kv = ops::KvType::kBf16;
  EXPECT_NE(ops::make_cpu_device(options)->numerics(), best);
}

}  // namespace
}  // namespace prefix
