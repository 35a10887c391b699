// Option kv: engines whose keys and values are whole numbers keep the promise of
// invariance_test.cc, stay near the others, take the memory they say, and share no page with them.
#include <gtest/gtest.h>

#include <random>

#include "base/failure.h"
#include "engine/snapshot_support.h"
#include "engine/variants.h"
#include "support/expect_error.h"
#include "support/golden.h"
#include "support/relative_error.h"

namespace prefix {
namespace {

using testing_support::expect_error;
using testing_support::make_options;
using testing_support::open_over;
using testing_support::OptionList;
using testing_support::relative_error;
using testing_support::run_all;

struct Case {
  const char* model;
  const char* compute;
  const char* dtype;
};

// Heads of several sizes, windows, caps, sinks, recurrent layers beside attention.
constexpr Case kCases[] = {{"qwen3-base", "int8", "bf16"},  {"llama-base", "auto", "bf16"},
                           {"gemma2-base", "auto", "bf16"}, {"gpt-oss-base", "auto", "f32"},
                           {"qwen35-base", "int8", "bf16"}, {"qwen2-base", "auto", "f32"}};

class KvInt8 : public testing::TestWithParam<Case> {
 protected:
  static std::shared_ptr<Engine> open(const OptionList& list, const char* kv = "int8") {
    Options options = make_options(list);
    options.set("compute", GetParam().compute);
    options.set("dtype", GetParam().dtype);
    options.set("kv", kv);
    return Engine::create(testing_support::golden_models() + "/" + GetParam().model, options,
                          nullptr);
  }
};

TEST_P(KvInt8, AloneBatchedShuffledUnsharedChunkedThreadedCachedAreEqualBits) {
  const auto make = [](const OptionList& list) { return open(list); };
  const auto alone = testing_support::one_at_a_time(make);
  const auto variants = testing_support::usual_variants(make);
  testing_support::expect_equal_bits(*alone, variants, {testing_support::cases(80), 5},
                                     testing_support::random_batch);
}

RequestSpec long_request() { return testing_support::many_logits(90, 60); }

std::vector<float> logits(Engine& engine) {
  return testing_support::values_of(engine, long_request());
}

TEST_P(KvInt8, IsNearTheOtherAtEveryLevelInLessMemory) {
  const auto other = open({}, "auto");
  const std::vector<float> want = logits(*other);
  for (const ops::IsaLevel& level : ops::cpu_isa_levels()) {
    if (!level.available) continue;
    SCOPED_TRACE(level.name);
    const auto whole = open({{"isa", std::string(level.name).c_str()}});
    const double apart = relative_error(logits(*whole), want);
    RecordProperty(std::string(level.name), std::to_string(apart));
    EXPECT_LT(apart, 0.05);
    EXPECT_GT(apart, 1e-6);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, KvInt8, testing::ValuesIn(kCases), [](const auto& c) {
  std::string name = cat(c.param.model, '_', c.param.compute, '_', c.param.dtype);
  std::ranges::replace(name, '-', '_');
  return name;
});

TEST(KvInt8Options, AreCheckedByName) {
  const auto open = [&](const OptionList& list) {
    return Engine::create(testing_support::tiny_checkpoint().path(), make_options(list), nullptr);
  };
  expect_error(Code::kInvalidArgument, {"kv", "int4", "auto|int8"},
               [&] { open({{"kv", "int4"}}); });
  expect_error(Code::kUnsupportedDevice, {"kv=int8", "cuda:1"},
               [&] { open({{"kv", "int8"}, {"device", "cuda:1"}}); });
}

// d_padded of int8 is a multiple of 64, and a token and head has 4 bytes more for K and for V.
TEST(KvInt8Options, AreInTheEstimate) {
  tools::CheckpointShape shape;
  shape.head_dim = 64;
  const testing_support::TinyCheckpoint checkpoint(shape);
  const auto of = [&](const char* kv) {
    const Options options = make_options({{"kv", kv}});
    const int64_t token = Engine::estimate(checkpoint.path(), options).kv_bytes_per_token;
    EXPECT_EQ(Engine::create(checkpoint.path(), options, nullptr)->info().kv_bytes_per_token,
              token);
    return token;
  };
  EXPECT_EQ(of("auto"), int64_t{2} * shape.layers * shape.kv_heads * 64 * 2);
  EXPECT_EQ(of("int8"), int64_t{2} * shape.layers * shape.kv_heads * (64 + 4));
}

// Some steps have work items of 2,048 keys, whose states are merged; others walk all keys in one.
TEST(KvInt8Options, LongPathsAreEqualBitsHoweverTheyAreSplit) {
  tools::CheckpointShape shape;
  shape.max_positions = 8192;
  const testing_support::TinyCheckpoint checkpoint(shape);
  std::mt19937 random(8);
  RequestSpec spec;
  for (int i = 0; i < 4400; ++i) spec.tokens.push_back(static_cast<int32_t>(1 + random() % 60));
  spec.task = Task::kLogits;
  spec.logit_ids = {1, 2, 3, 4, 5, 6, 7, 8};
  const auto run = [&](const OptionList& list) {
    const auto engine = Engine::create(checkpoint.path(), make_options(list), nullptr);
    const auto job = run_all(*engine, {spec});
    EXPECT_EQ(job->result(0).status, Code::kOk) << job->result(0).message;
    return job->result(0).values;
  };
  const auto want = run({{"kv", "int8"}, {"threads", "1"}, {"rows", "1024"}});
  EXPECT_EQ(run({{"kv", "int8"}, {"threads", "2"}, {"rows", "4399"}}), want);
  EXPECT_LT(relative_error(want, run({})), 0.05);
}

// Pages of one are nothing to the other, on a disk and in a snapshot.
TEST(KvInt8Pages, AreAMissToOtherTypes) {
  const testing_support::TempFolder folder;
  const auto run = [&](const char* kv) {
    const auto engine = open_over(folder.path() + "/disk", 1000, {{"kv", kv}});
    const auto job = run_all(*engine, {long_request()});
    EXPECT_EQ(job->result(0).status, Code::kOk) << job->result(0).message;
    return std::pair(job->result(0).usage.cached, job->result(0).values);
  };
  const auto first = run("int8"), again = run("int8"), other = run("auto");
  EXPECT_EQ(first.first, 0);
  EXPECT_GE(again.first, 64);
  EXPECT_EQ(again.second, first.second);
  EXPECT_EQ(other.first, 0);
  EXPECT_NE(other.second, first.second);

  const std::string path = folder.path() + "/snapshot";
  const auto from = testing_support::open_engine(1000, {{"kv", "int8"}});
  const auto values = logits(*from);
  from->save_snapshot(path, {});
  const auto to = testing_support::open_engine(1000, {{"kv", "int8"}});
  to->load_snapshot(path);
  const auto job = run_all(*to, {long_request()});
  EXPECT_GE(job->result(0).usage.cached, 64);
  EXPECT_EQ(job->result(0).values, values);
  const auto other_type = testing_support::open_engine(1000);
  EXPECT_THROW(other_type->load_snapshot(path), std::exception);
  // Not by the size of a page alone.
  logits(*other_type);
  other_type->save_snapshot(path + "2", {});
  EXPECT_NE(testing_support::SnapshotBytes(path).shape.fingerprint,
            testing_support::SnapshotBytes(path + "2").shape.fingerprint);
}

}  // namespace
}  // namespace prefix
