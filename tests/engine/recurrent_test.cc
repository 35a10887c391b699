// Models with recurrent layers: the promise of invariance_test.cc, and what their states save.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "engine/poisoned_checkpoint.h"
#include "engine/recurrent_support.h"
#include "engine/variants.h"
#include "ops/op.h"

namespace prefix {
namespace {

using testing_support::first_tokens;
using testing_support::generation;
using testing_support::hybrid_shape;
using testing_support::joined;
using testing_support::logits_of;
using testing_support::look_up;
using testing_support::make_engine;
using testing_support::make_options;
using testing_support::random_hybrid_request;
using testing_support::random_tokens;
using testing_support::run_all;
using testing_support::same_bits;
using testing_support::TinyCheckpoint;

using Tokens = std::vector<int32_t>;

struct Level {
  std::string family, isa, dtype;
};

std::vector<Level> levels() {
  std::vector<Level> list;
  for (const char* family : {"granite", "qwen", "nemotron", "lfm2"})
    for (const ops::IsaLevel& level : ops::cpu_isa_levels())
      for (const char* dtype : {"bf16", "f32"})
        list.push_back({family, std::string(level.name), dtype});
  return list;
}

bool available(const std::string& isa) {
  for (const ops::IsaLevel& level : ops::cpu_isa_levels())
    if (level.name == isa) return level.available;
  return false;
}

class HybridInvariance : public testing::TestWithParam<Level> {};

TEST_P(HybridInvariance, AloneBatchedShuffledUnsharedChunkedThreadedCachedAreEqualBits) {
  const auto& [family, isa, dtype] = GetParam();
  if (!available(isa)) GTEST_SKIP() << "this machine lacks " << isa;
  const tools::CheckpointShape shape = hybrid_shape(family);
  const TinyCheckpoint checkpoint(shape);
  const auto make = [&](testing_support::OptionList list) {
    Options options = make_options(list);
    options.set("isa", isa);
    options.set("dtype", dtype);
    return Engine::create(checkpoint.path(), options, nullptr);
  };
  const auto alone = testing_support::one_at_a_time(make);
  auto variants = testing_support::usual_variants(make);
  variants.push_back({"little memory", make({{"threads", "2"},
                                             {"rows", "50"},
                                             {"cache_bytes", dtype == "f32" ? "600K" : "300K"}})});
  testing_support::expect_equal_bits(
      *alone, variants, {testing_support::cases(2000 / 8) + 1, isa.size(), 40},
      [&](std::mt19937& random, size_t count) {
        std::vector<RequestSpec> batch;
        while (batch.size() < count)
          batch.push_back(random_hybrid_request(random, batch, shape.vocab));
        return batch;
      });
  if (HasFatalFailure()) return;
  EXPECT_GT(variants[0].engine->stats().states, 0);
  EXPECT_GT(variants[4].engine->stats().state_evictions, 0);
}

INSTANTIATE_TEST_SUITE_P(Levels, HybridInvariance, testing::ValuesIn(levels()),
                         [](const auto& level) {
                           return level.param.family + "_" + level.param.isa + "_" +
                                  level.param.dtype;
                         });

class Hybrid : public testing::TestWithParam<const char*> {
 protected:
  const tools::CheckpointShape shape = testing_support::hybrid_shape(GetParam());
  const TinyCheckpoint checkpoint{shape};
  std::shared_ptr<Engine> engine = make_engine(checkpoint, {{"threads", "2"}});
  std::mt19937 random{11};

  Tokens text(size_t n) { return random_tokens(random, n, shape.vocab); }
};

// Every shared token is computed once; a leaf that only scores leaves no state.
TEST_P(Hybrid, ABatchComputesEachTokenOnce) {
  const Tokens head = text(100);
  std::vector<RequestSpec> batch;
  for (int i = 0; i < 12; ++i) batch.push_back(logits_of(joined(head, joined({i}, text(20)))));
  run_all(*engine, batch);
  const EngineStats s = engine->stats();
  EXPECT_EQ(s.rows, 100 + 12 * 21);
  EXPECT_EQ(s.states, 1);  // where the documents part
  EXPECT_EQ(s.state_bytes, engine->info().state_bytes);
}

TEST_P(Hybrid, AStepThatCutsTheTreeGoesOnFromItsStates) {
  const auto small = make_engine(checkpoint, {{"threads", "2"}, {"rows", "16"}});
  const Tokens head = text(100);
  std::vector<RequestSpec> batch;
  for (int i = 0; i < 12; ++i) batch.push_back(logits_of(joined(head, joined({i}, text(20)))));
  run_all(*small, batch);
  EXPECT_EQ(small->stats().rows, 100 + 12 * 21);
  EXPECT_EQ(small->stats().states, 1);
}

TEST_P(Hybrid, AConversationGoesOnAtTheExactToken) {
  Tokens history = text(37);
  int64_t known = 0;
  for (int turn = 0; turn < 5; ++turn) {
    const auto job = run_all(*engine, {generation(history, 9)});
    const RequestResult& r = job->result(0);
    ASSERT_EQ(r.status, Code::kOk) << r.message;
    EXPECT_EQ(r.usage.cached, known);
    EXPECT_EQ(r.usage.computed, static_cast<int64_t>(history.size()) - known);
    known = static_cast<int64_t>(history.size() + r.tokens.size()) - 1;  // the last is not run
    history = joined(joined(history, r.tokens), text(5));
  }
}

TEST_P(Hybrid, TheSamePromptAgainComputesItsLastToken) {
  const Tokens prompt = text(50);
  run_all(*engine, {generation(prompt, 3)});
  const auto job = run_all(*engine, {generation(prompt, 3)});
  EXPECT_EQ(job->result(0).usage.cached, 49);
  EXPECT_EQ(job->result(0).usage.computed, 1);
}

// The first request that leaves a path where no state is computes up to there once more, and leaves
// one for the next.
TEST_P(Hybrid, TheSecondSightingLeavesAStateAtTheExactToken) {
  const Tokens head = text(75);
  run_all(*engine, {logits_of(joined(head, joined({1}, text(30))))});
  const auto second = run_all(*engine, {logits_of(joined(head, joined({2}, text(30))))});
  EXPECT_EQ(second->result(0).usage.cached, 0);
  EXPECT_EQ(second->result(0).usage.computed, 106);
  EXPECT_EQ(engine->stats().miss_state, 75);
  const auto third = run_all(*engine, {logits_of(joined(head, joined({3}, text(30))))});
  EXPECT_EQ(third->result(0).usage.cached, 75);
  EXPECT_EQ(third->result(0).usage.computed, 31);
}

TEST_P(Hybrid, WarmLeavesAStateAtItsEnd) {
  RequestSpec warm;
  warm.task = Task::kWarm;
  warm.tokens = text(64);
  run_all(*engine, {warm});
  run_all(*engine, {warm});
  EXPECT_EQ(engine->stats().rows, 64);
  const auto job = run_all(*engine, {logits_of(joined(warm.tokens, text(10)))});
  EXPECT_EQ(job->result(0).usage.cached, 64);
  EXPECT_EQ(engine->stats().rows, 74);
}

TEST_P(Hybrid, StatesCountInTheBudgetAndMakeRoom) {
  const int64_t state = engine->info().state_bytes;
  ASSERT_GT(state, 0);
  const int64_t page = 32 * engine->info().kv_bytes_per_token;  // a state may be less than one
  const int64_t budget = std::max(4 * state, 12 * page);
  const auto small =
      make_engine(checkpoint, {{"threads", "2"}, {"cache_bytes", std::to_string(budget)}});
  for (int i = 0; i < 20; ++i) {
    const auto job = run_all(*small, {generation(text(20), 4)});
    ASSERT_EQ(job->result(0).status, Code::kOk) << job->result(0).message;
    const EngineStats s = small->stats();
    EXPECT_LE(s.kv_bytes_peak, s.kv_budget_bytes);
    EXPECT_LE(s.states * state, s.kv_budget_bytes);
    small->check();
  }
  EXPECT_GT(small->stats().state_evictions, 0);
}

TEST_P(Hybrid, ABudgetBelowOneStateIsRefusedWithBothNumbers) {
  const int64_t state = engine->info().state_bytes;
  try {
    make_engine(checkpoint, {{"cache_bytes", std::to_string(state)}});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kOutOfRange);
    EXPECT_NE(e.message().find(std::to_string(state)), std::string::npos) << e.message();
    EXPECT_NE(e.message().find("cache_bytes is"), std::string::npos) << e.message();
  }
}

// The state of a path with a NaN or an infinity is not kept, and no other path meets it.
TEST_P(Hybrid, AValueThatIsNotFiniteStaysWithItsRequests) {
  using testing_support::kBadToken;
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    tools::CheckpointShape untied = shape;
    untied.tied = false;
    const TinyCheckpoint poisoned(untied), clean(untied);
    testing_support::StoredWeights(poisoned.path())
        .set(shape.architecture == "nemotron_h" ? "backbone.embeddings.weight"
                                                : "model.embed_tokens.weight",
             kBadToken, 3, bad);
    const auto alone = make_engine(clean, {{"cache", "false"}});
    const auto small = make_engine(poisoned, {{"threads", "2"}, {"rows", "16"}});
    Tokens head = text(40);
    std::replace(head.begin(), head.end(), kBadToken, kBadToken + 1);
    for (int round = 0; round < 3; ++round) {
      std::vector<RequestSpec> batch;
      for (int32_t i = 0; i < 8; ++i) {
        Tokens tokens = joined(head, joined({20 + i + 8 * round}, text(15)));
        std::replace(tokens.begin(), tokens.end(), kBadToken, kBadToken + 1);
        if (i % 3 == 1) tokens[45] = kBadToken;
        batch.push_back(i % 2 ? logits_of(tokens) : generation(tokens, 3));
      }
      const auto job = run_all(*small, batch);
      for (size_t i = 0; i < batch.size(); ++i) {
        const RequestResult& r = job->result(i);
        if (i % 3 == 1) {
          EXPECT_EQ(r.status, Code::kNotFinite) << r.message;
        } else {
          const auto expected = run_all(*alone, {batch[i]});
          const Tokens& tokens = expected->result(0).tokens;  // it may choose the bad one itself
          const bool chosen = std::find(tokens.begin(), tokens.end(), kBadToken) != tokens.end();
          EXPECT_TRUE(chosen || same_bits(r, expected->result(0))) << r.message;
        }
      }
      small->check();
    }
    // What is in front of the bad token is there, and only that.
    Tokens again = joined(head, joined({21}, text(4)));
    again.push_back(kBadToken);
    EXPECT_EQ(run_all(*small, {logits_of(again)})->result(0).status, Code::kNotFinite);
    EXPECT_EQ(run_all(*small, {logits_of(again)})->result(0).status, Code::kNotFinite);
  }
}

TEST_P(Hybrid, LiveStatesAreAStack) {
  // A comb: each path leaves the one before it one token later.
  const Tokens trunk = text(40);
  std::vector<RequestSpec> batch;
  for (size_t i = 1; i < 30; ++i)
    batch.push_back(logits_of(joined(first_tokens(trunk, i), text(4))));
  run_all(*engine, batch);
  const EngineInfo& info = engine->info();
  const int64_t layer = info.state_bytes / info.recurrent_layers;
  // What a convolution remembers is read where it lies.
  if (shape.architecture == "lfm2")
    EXPECT_EQ(engine->stats().live_state_bytes_peak, 0);
  else
    EXPECT_GT(engine->stats().live_state_bytes_peak, 0);
  EXPECT_LE(engine->stats().live_state_bytes_peak, 31 * layer);
  // Many leaves below one trunk: a depth of two.
  const auto flat = make_engine(checkpoint, {{"threads", "2"}});
  batch.clear();
  for (int32_t i = 0; i < 60; ++i) batch.push_back(logits_of(joined(trunk, joined({i}, text(3)))));
  run_all(*flat, batch);
  EXPECT_LE(flat->stats().live_state_bytes_peak, 2 * layer);
}

INSTANTIATE_TEST_SUITE_P(Families, Hybrid, testing::Values("granite", "qwen", "nemotron", "lfm2"),
                         [](const auto& family) { return family.param; });

}  // namespace
}  // namespace prefix
