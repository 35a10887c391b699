// The memory of steps on a CPU: what an engine says that it took is what its steps took,
// and what it is estimated to take is no less.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/recurrent_support.h"
#include "ops/cpu/attention_states.h"
#include "support/golden.h"

namespace prefix {
namespace {

using namespace testing_support;

struct StepMemory : testing::Test {
  void SetUp() override {
    if (test_device()) GTEST_SKIP() << "tests/kernels/budget_test.cc says it of a GPU, to the byte";
  }

  static Options options_of(const std::vector<std::pair<std::string, std::string>>& list) {
    Options options = make_options({});
    for (const auto& [key, value] : list) options.set(key, value);
    return options;
  }

  // Texts alone and with a prefix in common, all kinds of results, and what continues a state that
  // the cache has.
  void work(Engine& engine, int32_t longest) {
    const EngineInfo& info = engine.info();
    const auto text = [&](int32_t n) {
      return random_tokens(random_, static_cast<size_t>(std::max(1, n)), info.vocab_size);
    };
    std::vector<RequestSpec> batch;
    const auto add = [&](Task task, std::vector<int32_t> tokens) {
      RequestSpec& spec = batch.emplace_back();
      spec.task = info.logits ? task : Task::kEmbed;
      spec.tokens = std::move(tokens);
      spec.sampling.max_tokens = 3;
      spec.sampling.temperature = 1;
      if (spec.task == Task::kLogits) spec.logit_ids = {0, 1};
    };
    const std::vector<int32_t> head = text(std::min(longest, 200) / 2);
    add(Task::kLogits, text(longest - 4));
    for (int round = 0; round < 2; ++round) {
      add(Task::kLogprobs, text(longest / 8));
      add(Task::kLogits, text(1));
      for (int i = 0; i < 40; ++i)
        add(i % 4 == 0 ? Task::kLogits : Task::kGenerate, joined(head, text(1 + i % 9)));
      const auto job = run_all(engine, std::exchange(batch, {}));
      for (size_t i = 0; i < job->count(); ++i)
        ASSERT_EQ(job->result(i).status, Code::kOk) << job->result(i).message;
    }
  }

  // Returns which part of the estimate was taken.
  double expect_estimate_holds(const std::string& model, const Options& options, int32_t longest) {
    const MemoryEstimate estimate = Engine::estimate(model, options);
    const auto engine = Engine::create(model, options, nullptr);
    work(*engine, std::min(longest, engine->info().max_positions));
    const EngineStats stats = engine->stats();
    EXPECT_GE(estimate.activation_bytes, stats.activation_bytes_peak);
    return static_cast<double>(stats.activation_bytes_peak) /
           static_cast<double>(estimate.activation_bytes);
  }

  std::mt19937 random_{3};
};

TEST_F(StepMemory, TheEstimateHoldsForEveryKindOfLayerAndNumber) {
  for (const char* const kind : {"4 heads", "8 heads", "granite", "qwen", "nemotron", "lfm2"}) {
    tools::CheckpointShape shape;
    shape.layers = 3;
    if (kind[0] == '8') shape.heads = 8;
    if (kind[0] > '9') shape = hybrid_shape(kind);
    const TinyCheckpoint checkpoint(shape);
    for (const char* const threads : {"1", "2", "5"}) {
      double least = 1;
      const std::vector<std::vector<std::pair<std::string, std::string>>> all = {
          {},
          {{"dtype", "f32"}},
          {{"compute", "int8"}},
          {{"kv", "int8"}},
          {{"compute", "int8"}, {"kv", "int8"}}};
      for (const auto& numbers : all) {
        if (threads[0] != '2' && numbers.size() == 1) continue;  // they have been there with two
        // Minutes under a sanitizer: there the first and the last, with two threads.
        if (quick() && (threads[0] != '2' || numbers.size() == 1)) continue;
        SCOPED_TRACE(std::string(kind) + " with " + threads + " threads, " +
                     (numbers.empty() ? "bf16" : numbers[0].first + " " + numbers[0].second));
        auto list = numbers;
        // Steps of 600 rows go in blocks, those of 64 do not.
        list.insert(list.end(), {{"threads", threads}, {"max_positions", "4096"}});
        for (const char* const rows : {"64", "600"}) {
          list.emplace_back("rows", rows);
          least = std::min(least, expect_estimate_holds(checkpoint.path(), options_of(list), 2200));
        }
      }
      // Of several threads some may have had nothing to do.
      if (threads[0] == '1') {
        EXPECT_GT(least, 0.3) << kind << ": much more than is taken";
      }
    }
  }
}

TEST_F(StepMemory, TheEstimateHoldsForTheModelsOfAllArchitectures) {
  for (const auto& [name, architecture] : golden_architectures()) {
    if (name.ends_with(".gguf")) continue;  // of the same layers
    if (quick() && name.find("base") == std::string::npos) continue;
    SCOPED_TRACE(name);
    for (const char* const compute : {"auto", "int8"})
      expect_estimate_holds(golden_models() + "/" + name,
                            options_of({{"threads", "2"}, {"rows", "256"}, {"compute", compute}}),
                            200);
  }
}

// One thread, so that what it has for itself is there after the first steps.
TEST_F(StepMemory, StatesThatTasksOfAttentionLeaveAreCounted) {
  const auto engine =
      make_engine(tiny_checkpoint(), {{"threads", "1"}, {"rows", "48"}, {"max_positions", "4096"}});
  const auto peak_after = [&](size_t tokens) {
    std::mt19937 random(static_cast<unsigned>(tokens));
    values_of(*engine, logits_of(random_tokens(random, tokens, 100)));
    return engine->stats().activation_bytes_peak;
  };
  const int64_t before = peak_after(kKeyChunk);
  EXPECT_EQ(peak_after(kKeyChunk), before);
  // 48 rows of two query heads for each key head, in a tile that sees two chunks.
  const ops::SoftmaxStates states(96, 32);
  EXPECT_EQ(peak_after(kKeyChunk + 48) - before, static_cast<int64_t>(states.partial_bytes(2, 2)));
}

}  // namespace
}  // namespace prefix
