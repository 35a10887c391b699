// Warming up: a prompt is computed once and for nothing else, and the answer comes even when there
// is nothing to do. And looking up many prompts at once.
#include <gtest/gtest.h>

#include "snapshot_support.h"
#include "support/expect_error.h"
#include "support/manual_clock.h"

namespace prefix {
namespace {

using namespace testing_support;

RequestSpec warm(std::vector<int32_t> tokens, int32_t name_space = 0) {
  RequestSpec spec = logits_of(std::move(tokens), name_space);
  spec.task = Task::kWarm;
  return spec;
}

struct WarmTest : testing::Test {
  std::mt19937 random{81};
  const std::vector<int32_t> prompt = random_tokens(random, 100, kVocab);
};

TEST_F(WarmTest, ComputesOnceAndThenNothing) {
  const auto engine = open_engine(100);
  const auto first = run_all(*engine, {warm(prompt)});
  EXPECT_EQ(first->result(0).status, Code::kOk);
  EXPECT_EQ(first->result(0).usage.computed, 100);
  EXPECT_TRUE(first->result(0).values.empty());
  EXPECT_EQ(look_up(*engine, prompt).cached_tokens, 100);
  const EngineStats before = engine->stats();
  EXPECT_EQ(before.rows, 100);
  for (const size_t n : {100u, 70u, 1u}) {
    const auto again = run_all(*engine, {warm(first_tokens(prompt, n))});
    EXPECT_EQ(again->result(0).usage.cached, static_cast<int64_t>(n));
    EXPECT_EQ(again->result(0).usage.computed, 0);
    EXPECT_EQ(again->result(0).status, Code::kOk);
  }
  EXPECT_EQ(engine->stats().rows, before.rows) << "nothing was run";
  EXPECT_EQ(engine->stats().requests_finished, 4);
  EXPECT_EQ(engine->stats().requests_running + engine->stats().requests_waiting, 0);
  const auto used = run_all(*engine, {logits_of(prompt)});
  EXPECT_EQ(used->result(0).usage.cached, 99);
}

TEST_F(WarmTest, EveryoneOfABatchIsAnswered) {
  const auto engine = open_engine(1000);
  std::vector<RequestSpec> batch(20, warm(prompt));
  batch.push_back(warm({}));
  batch.push_back(warm({kVocab}));
  batch.push_back(warm(std::vector<int32_t>(5000, 1)));
  batch.push_back(warm(prompt, 7));
  const auto job = run_all(*engine, batch);
  for (size_t i = 0; i < 20; ++i) EXPECT_EQ(job->result(i).status, Code::kOk) << i;
  EXPECT_EQ(job->result(20).status, Code::kInvalidArgument);
  EXPECT_EQ(job->result(21).status, Code::kOutOfRange);
  EXPECT_EQ(job->result(22).status, Code::kPromptTooLong);
  EXPECT_EQ(job->result(23).status, Code::kNotFound);
  EXPECT_EQ(job->totals().tokens_computed, 100);
  EXPECT_EQ(job->totals().tokens_shared, 19 * 100);
  EXPECT_EQ(job->totals().failed, 4);
  EXPECT_EQ(engine->stats().rows, 100);
  // All of it is there: finished before anything is planned.
  EXPECT_EQ(run_all(*engine, std::vector<RequestSpec>(20, warm(prompt)))->totals().failed, 0);
}

TEST_F(WarmTest, EndsEarlyLikeAnyRequest) {
  ManualClock clock;
  const auto engine =
      make_engine(tiny_checkpoint(), {{"rows", "1"}, {"threads", "1"}}, clock.now());
  RequestSpec spec = warm(random_tokens(random, 4000, kVocab));
  spec.deadline_ms = 100;
  const auto late = engine->submit({spec});
  clock.advance(std::chrono::milliseconds(101));
  late->wait(-1);
  EXPECT_EQ(late->result(0).status, Code::kDeadline);
  spec.deadline_ms = 0;
  const auto job = engine->submit({spec});
  job->cancel();
  job->wait(-1);
  EXPECT_EQ(job->result(0).status, Code::kCancelled);
  const int64_t kept = look_up(*engine, spec.tokens).cached_tokens;
  EXPECT_LT(kept, 4000);
  EXPECT_EQ(engine->stats().tree_tokens, kept) << "what was computed stays, and no more";
  engine->cache_trim(0);
  EXPECT_EQ(engine->stats().pages_used, 0);
}

TEST_F(WarmTest, WithoutACacheNothingStays) {
  for (const char* option : {"sharing", "cache"}) {
    const auto engine = open_engine(100, {{option, "false"}});
    const auto job = run_all(*engine, {warm(prompt), warm(prompt)});
    EXPECT_EQ(job->result(0).status, Code::kOk);
    EXPECT_EQ(job->result(1).status, Code::kOk);
    EXPECT_EQ(engine->stats().pages_used, 0);
  }
}

TEST_F(WarmTest, ThatWhichDoesNotFitIsAnError) {
  const auto engine = open_engine(3);
  EXPECT_EQ(run_all(*engine, {warm(prompt)})->result(0).status, Code::kCacheFull);
  EXPECT_EQ(run_all(*engine, {warm(first_tokens(prompt, 96))})->result(0).status, Code::kOk);
}

TEST_F(WarmTest, ChangesNoResultOfWhatComesAfterOrBeside) {
  int warmed = 0;
  for (int round = 0; round < cases(20); ++round) {
    const KnownRequests known(random, 30);
    const auto engine = open_engine(60);
    for (int i = 0; i < 40; ++i) {
      std::vector<RequestSpec> batch;
      std::vector<size_t> numbers;
      for (size_t n = 1 + random() % 4; n > 0; --n) {
        numbers.push_back(random() % known.requests.size());
        batch.push_back(known.requests[numbers.back()]);
        if (random() % 3 > 0) continue;
        batch.back() =
            warm(first_tokens(batch.back().tokens, 1 + random() % 40 % batch.back().tokens.size()));
        numbers.back() = known.requests.size();
      }
      const auto job = run_all(*engine, batch);
      for (size_t r = 0; r < batch.size(); ++r) {
        if (numbers[r] < known.requests.size()) {
          known.check(job->result(r), numbers[r]);
        } else {
          ++warmed;
          ASSERT_EQ(job->result(r).status, Code::kOk);
        }
      }
      if (HasFatalFailure()) FAIL() << "round " << round << ", batch " << i;
    }
  }
  EXPECT_GT(warmed, cases(20) * 10);
}

TEST_F(WarmTest, LookingUpManyIsLookingUpEach) {
  const auto engine = open_engine(60);
  const std::vector<int32_t> spaces = open_tuples(*engine, random);
  std::vector<RequestSpec> known;
  for (int i = 0; i < 100; ++i) {
    known.push_back(logits_of(random_prompt(random, known)));
    known.back().name_space = spaces[random() % spaces.size()];
    run_all(*engine, {known.back()});
  }
  int64_t found = 0;
  for (const int32_t space : spaces) {
    std::vector<std::span<const int32_t>> prompts;
    for (const RequestSpec& spec : known) prompts.emplace_back(spec.tokens);
    prompts.emplace_back();
    const std::vector<CacheInfo> infos = engine->cache_lookup(space, prompts);
    ASSERT_EQ(infos.size(), prompts.size());
    for (size_t i = 0; i < known.size(); ++i) {
      ASSERT_EQ(infos[i].cached_tokens, look_up(*engine, known[i].tokens, space).cached_tokens);
      found += infos[i].cached_tokens;
    }
    EXPECT_EQ(infos.back().cached_tokens, 0);
    EXPECT_TRUE(engine->cache_lookup(space, {}).empty());
  }
  EXPECT_GT(found, 1000);
  expect_error(Code::kNotFound, {"namespace 9"}, [&] { engine->cache_lookup(9, {}); });
}

}  // namespace
}  // namespace prefix
