// Log-probs that a request asked for are known to later ones: these get the same bits, and only what
// was not asked for before is computed.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>

#include "recurrent_support.h"
#include "scheduler_fixture.h"
#include "snapshot_support.h"

namespace prefix {
namespace {

using namespace testing_support;
using Tokens = std::vector<int32_t>;

RequestSpec scores(Tokens tokens, int32_t from) {
  RequestSpec spec;
  spec.task = Task::kLogprobs;
  spec.tokens = std::move(tokens);
  spec.from = from;
  return spec;
}

RequestSpec choices_of(Tokens tokens, std::vector<Tokens> choices) {
  RequestSpec spec;
  spec.task = Task::kChoices;
  spec.tokens = std::move(tokens);
  spec.choices = std::move(choices);
  return spec;
}

// Texts and choices that share prefixes, each asked for in some part.
std::vector<RequestSpec> random_scores(std::mt19937& random, size_t count) {
  std::vector<RequestSpec> batch;
  while (batch.size() < count) {
    Tokens tokens = random_prompt(random, batch);
    if (random() % 3 == 0) {
      std::vector<Tokens> choices(1 + random() % 3);
      for (Tokens& choice : choices) choice = random_tokens(random, 1 + random() % 3, 3);
      batch.push_back(choices_of(std::move(tokens), std::move(choices)));
    } else {
      const auto from = static_cast<int32_t>(1 + random() % (tokens.size() - 1));
      batch.push_back(scores(std::move(tokens), from));
    }
  }
  return batch;
}

struct Kind {
  const char* name;
  const char* recurrent = "";  // family; empty: a dense model
  int32_t window = 0;
  const char* kv = "auto";
};

class LogprobCache : public testing::TestWithParam<Kind> {
 protected:
  std::shared_ptr<Engine> open(int64_t pages, EngineOptions more = {}) {
    more.insert({{"rows", "64"}, {"kv", GetParam().kv}});
    return open_engine(pages, more, checkpoint);
  }
  // Checks the bits, and returns what was computed.
  int64_t run(Engine& engine, const std::vector<RequestSpec>& batch) {
    const auto job = run_all(engine, batch);
    int64_t computed = 0;
    for (size_t i = 0; i < batch.size(); ++i) {
      const RequestResult& got = job->result(i);
      EXPECT_EQ(got.status, Code::kOk) << got.message;
      EXPECT_TRUE(same_bits(got, run_all(*cold, {batch[i]})->result(0))) << "request " << i;
      EXPECT_EQ(got.usage.cached + got.usage.shared + got.usage.computed, got.usage.prompt);
      computed += got.usage.computed;
    }
    EXPECT_EQ(job->totals().tokens_computed, computed);
    engine.check();
    return computed;
  }
  // Where each row stands alone; recurrent layers go over all of them from a state on.
  static void expect_rows(int64_t computed, int64_t rows) {
    EXPECT_TRUE(*GetParam().recurrent || computed == rows) << computed << " rows, not " << rows;
  }

  const TinyCheckpoint checkpoint{[] {
    tools::CheckpointShape shape;
    if (*GetParam().recurrent) return hybrid_shape(GetParam().recurrent);
    if (GetParam().window > 0) {
      shape.architecture = "mistral";
      shape.windows = "ss";
      shape.window = GetParam().window;
    }
    return shape;
  }()};
  const std::shared_ptr<Engine> cold = open(400, {{"cache", "false"}, {"sharing", "false"}});
  std::mt19937 random{5};
};

TEST_P(LogprobCache, AskedForAgainNothingIsComputed) {
  const auto engine = open(2000);
  for (int round = 0; round < cases(8); ++round) {
    std::vector<RequestSpec> batch = random_scores(random, 12);
    run(*engine, batch);
    std::shuffle(batch.begin(), batch.end(), random);
    const EngineStats before = engine->stats();
    EXPECT_EQ(run(*engine, batch), 0);
    const EngineStats after = engine->stats();
    EXPECT_EQ(after.steps, before.steps);
    EXPECT_EQ(after.rows, before.rows);
    EXPECT_EQ(after.miss_granularity, before.miss_granularity);
    EXPECT_EQ(after.miss_state, before.miss_state);
    EXPECT_EQ(after.tokens_cached - before.tokens_cached, after.tokens_given - before.tokens_given);
    if (HasFailure()) return;
  }
}

// In memory for a few of the paths, which are cut, part and come again; with windows they slide.
TEST_P(LogprobCache, WhateverIsLeftOfThemTheBitsAreTheSame) {
  for (const char* rows : {"7", "64"}) {
    const auto engine = open(*GetParam().recurrent ? 60 : 14, {{"rows", rows}});
    std::vector<RequestSpec> pool = random_scores(random, 12);
    for (size_t i = 0; i < pool.size(); i += 4)
      if (pool[i].task == Task::kLogprobs) pool[i].top_logprobs = 3;
    int64_t unread = 0;
    for (int round = 0; round < 24 + cases(36); ++round) {
      std::vector<RequestSpec> batch;
      do batch.push_back(pool[random() % pool.size()]);
      while (random() % 3 != 0);
      if (random() % 16 == 0) engine->cache_trim(0);
      if (random() % 8 == 0) {
        const Tokens& tokens = batch.front().tokens;
        engine->cache_evict(0, tokens.data(), 1 + random() % tokens.size());
      }
      unread += run(*engine, batch) == 0;
      if (HasFailure()) return;
    }
    EXPECT_GT(unread, 0);
    EXPECT_GT(engine->stats().evicted_tokens, 0);
  }
}

TEST_P(LogprobCache, OnlyWhatIsAskedForFirstIsComputed) {
  const auto engine = open(400);
  const Tokens text = random_tokens(random, 100, 131);
  run(*engine, {scores(text, 60)});
  const int64_t front = run(*engine, {scores(text, 1)});
  expect_rows(front, 59);  // the rows before tokens 1 to 59
  const Tokens longer = joined(text, random_tokens(random, 5, 131));
  const int64_t end = run(*engine, {scores(longer, 1)});
  expect_rows(end, 6);  // the last one of the text, and those of the new tokens
  const Tokens branch = joined(first_tokens(text, 50), {1, 2, 3});
  const int64_t fork = run(*engine, {scores(branch, 1)});
  expect_rows(fork, 4);
  for (const Tokens& tokens : {text, longer, branch})
    EXPECT_EQ(run(*engine, {scores(tokens, 1)}), 0);
}

TEST_P(LogprobCache, ChoicesAndTextsHaveThemInCommon) {
  const auto engine = open(400);
  const Tokens prompt = random_tokens(random, 70, 131);
  const Tokens a = {5, 6, 7}, b = {5, 8}, c = {9, 6};
  run(*engine, {choices_of(prompt, {a, b})});
  EXPECT_EQ(run(*engine, {scores(joined(prompt, a), 70), scores(joined(prompt, b), 71)}), 0);
  EXPECT_EQ(run(*engine, {choices_of(joined(prompt, {5}), {{6, 7}, {8}})}), 0);
  const int64_t rows = engine->stats().rows;
  const int64_t computed = run(*engine, {choices_of(prompt, {a, c, b})});
  expect_rows(computed, 3);  // the prompt's last token, and the new choice
  EXPECT_EQ(engine->stats().rows - rows, computed - 1);  // none for its last token
  // As many as the new choice takes alone.
  const auto twin = open(400);
  run(*twin, {choices_of(prompt, {a, b})});
  EXPECT_EQ(run(*twin, {choices_of(prompt, {c})}), computed);
}

TEST_P(LogprobCache, WhatLeftTheCacheIsComputedAgain) {
  const auto engine = open(400);
  const Tokens text = random_tokens(random, 100, 131);
  run(*engine, {scores(text, 1)});
  engine->cache_evict(0, text.data(), 40);
  const int64_t end = run(*engine, {scores(text, 1)});
  expect_rows(end, 61);
  engine->cache_trim(0);
  run(*engine, {logits_of(text)});  // the keys are there, and no log-probs
  const int64_t all = run(*engine, {scores(text, 1)});
  expect_rows(all, 99);
}

// What is known are the log-probs alone, with the same bits.
TEST_P(LogprobCache, TheLikeliestTokensAreReadWhateverIsKnown) {
  const auto engine = open(400);
  const Tokens text = random_tokens(random, 100, 131);
  RequestSpec spec = scores(text, 60);
  run(*engine, {spec});
  spec.top_logprobs = 4;
  expect_rows(run(*engine, {spec}), 40);
  EXPECT_GT(run(*engine, {spec, spec}), 0);
  spec.top_logprobs = 0;
  EXPECT_EQ(run(*engine, {spec}), 0);
}

INSTANTIATE_TEST_SUITE_P(Models, LogprobCache,
                         testing::Values(Kind{"dense"}, Kind{"kv_int8", "", 0, "int8"},
                                         Kind{"window", "", 40}, Kind{"granite", "granite"},
                                         Kind{"qwen", "qwen"}),
                         [](const auto& kind) { return kind.param.name; });

// The front of a path whose pages were given back: no keys are needed for what is known, and what
// can be continued stays.
TEST(LogprobCacheOf, TextsBehindAWindowNeedNoKeys) {
  tools::CheckpointShape shape;
  shape.architecture = "mistral";
  shape.windows = "ss";
  shape.window = 40;
  const TinyCheckpoint checkpoint(shape);
  const auto engine = open_engine(8, {}, checkpoint);
  const auto cold = open_engine(200, {{"cache", "false"}}, checkpoint);
  std::mt19937 random(9);
  const Tokens text = random_tokens(random, 900, 131);
  for (const size_t length : {900u, 500u, 512u}) {
    const RequestSpec spec = scores(first_tokens(text, length), 1);
    const auto job = run_all(*engine, {spec});
    EXPECT_EQ(job->result(0).usage.computed, length == 900 ? 900 : 0);
    EXPECT_TRUE(same_bits(job->result(0), run_all(*cold, {spec})->result(0)));
    EXPECT_EQ(look_up(*engine, text).cached_tokens, 899);  // the last one is only scored
    engine->check();
  }
  run_all(*engine, {logits_of(random_tokens(random, 200, 131))});
  engine->check();
}

using LogprobScheduler = SchedulerTest;

// A state behind an answer may be thinned out as before; one at the end of a prompt to warm may
// not.
TEST_F(LogprobScheduler, ARequestThatComputesNothingLeavesNoStateForGood) {
  open(TinyCheckpoint(granite_shape()), 400, 2048);
  const auto job = submit({generation(text(1, 20), 5)});
  finish_all();
  Tokens tokens = joined(text(1, 20), job->result(0).tokens);
  tokens.pop_back();
  const auto length = static_cast<int32_t>(tokens.size());
  for (const int64_t computed : {length - 1, 0}) {  // the last one is there, and only scored
    const auto scored = submit({scores(tokens, 1)});
    finish_all();
    EXPECT_EQ(scored->result(0).usage.computed, computed);
  }
  const NodeId root = scheduler->roots().root_of(0, length, 0);
  const NodeId node = tree->match(root, tokens).node;
  ASSERT_TRUE(tree->has_state(node));
  EXPECT_FALSE(tree->state_is_exempt(node));
}

TEST(LogprobCacheOf, OneNamespaceIsNotThatOfAnother) {
  const auto engine = open_engine(100);
  RequestSpec spec = scores({1, 2, 3, 4}, 1);
  spec.name_space = engine->open_namespace("other");
  for (const int64_t computed : {4, 0})
    EXPECT_EQ(run_all(*engine, {spec})->result(0).usage.computed, computed);
  spec.name_space = 0;
  EXPECT_EQ(run_all(*engine, {spec})->result(0).usage.computed, 4);
}

TEST(LogprobCacheOf, AnEngineThatKeepsNothingComputesAll) {
  for (const char* option : {"cache", "sharing"}) {
    const auto engine = open_engine(100, {{option, "false"}});
    for (int i = 0; i < 2; ++i)
      EXPECT_EQ(run_all(*engine, {scores({1, 2, 3, 4}, 1)})->result(0).usage.computed, 4);
  }
}

// Pages come 1024 at a time.
TEST(LogprobCacheOf, ThoseThatWereAskedForTakeFourBytesAToken) {
  const auto engine = open_engine(100);
  run_all(*engine, {logits_of({1, 2, 3, 4})});
  const int64_t before = engine->stats().metadata_bytes;
  run_all(*engine, {scores({1, 2, 3, 4}, 1)});
  EXPECT_EQ(engine->stats().metadata_bytes - before, 1024 * 32 * 4);
}

TEST(LogprobCacheOf, ARequestThatComputesNothingHasTimesAndEvents) {
  const auto engine = open_engine(100);
  run_all(*engine, {scores({1, 2, 3, 4}, 1)});
  const auto job = run_all(*engine, {scores({1, 2, 3, 4}, 1)});
  const Timing& timing = job->result(0).timing;
  EXPECT_LE(timing.queue_us, timing.first_us);
  EXPECT_LE(timing.first_us, timing.total_us);
  EXPECT_EQ(job->next_event(0)->kind, Event::kStarted);
  EXPECT_EQ(job->next_event(0)->kind, Event::kFinished);
  EXPECT_EQ(job->totals().steps, 0);
}

}  // namespace
}  // namespace prefix
