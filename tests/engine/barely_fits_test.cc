// Requests that just fit the cache's memory or a namespace's quota: whatever would fit an empty
// cache fits one that others have used, and what was promised to a request that ended is free
// again.
#include <numeric>

#include "base/page.h"
#include "engine/random_requests.h"
#include "engine/schedule/scheduler.h"
#include "model/files/model_files.h"

namespace prefix {
namespace {

using namespace testing_support;
using Tokens = std::vector<int32_t>;

struct BarelyFits : testing::Test {
  int64_t page =
      32 * Engine::estimate(tiny_checkpoint().path(), make_options({})).kv_bytes_per_token;

  std::shared_ptr<Engine> open(int64_t pages) {
    return make_engine(tiny_checkpoint(),
                       {{"cache_bytes", std::to_string(pages * page)}, {"threads", "1"}});
  }
};

Tokens counting(int32_t n, int32_t first = 1) {
  Tokens tokens(static_cast<size_t>(n));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

RequestSpec generation(Tokens tokens, int32_t most) {
  RequestSpec spec;
  spec.tokens = std::move(tokens);
  spec.sampling.max_tokens = most;
  spec.sampling.ignore_eos = true;
  return spec;
}

void expect_runs(Engine& engine, const RequestSpec& spec) {
  const auto job = run_all(engine, {spec});
  EXPECT_EQ(job->result(0).status, Code::kOk) << job->result(0).message;
}

// The page in which it leaves the cached path would be there twice.
TEST_F(BarelyFits, APromptThatLeavesACachedPathInMidPage) {
  const auto engine = open(2);
  expect_runs(*engine, logits_of(counting(40)));
  Tokens other = counting(64);
  other[33] = 0;
  expect_runs(*engine, logits_of(other));
  EXPECT_EQ(look_up(*engine, other).cached_tokens, 64);
  EXPECT_EQ(look_up(*engine, counting(40)).cached_tokens, 33) << "what both have";
}

// A path that is cached further than the prompt goes keeps all its pages while the prompt runs.
TEST_F(BarelyFits, AGenerationInsideALongerCachedPath) {
  const auto engine = open(5);
  expect_runs(*engine, logits_of(counting(128)));
  expect_runs(*engine, generation(counting(40), 20));
}

TEST_F(BarelyFits, ChoicesBehindALongerCachedPath) {
  const auto engine = open(4);
  expect_runs(*engine, logits_of(counting(100)));
  RequestSpec spec;
  spec.task = Task::kChoices;
  spec.tokens = counting(40);
  spec.choices = {{1, 2}, {3}, {4}};
  expect_runs(*engine, spec);
}

TEST_F(BarelyFits, APromptOfTheWholeQuota) {
  const auto engine = open(64);
  const int32_t space = engine->open_namespace("small");
  engine->set_cache_limits(space, 0, 2 * page);
  expect_runs(*engine, logits_of(counting(60), space));
  Tokens other = counting(64);
  other[20] = 0;
  expect_runs(*engine, logits_of(other, space));
  EXPECT_LE(engine->cache_usage(space).tokens, 64);
}

// What does not fit an empty cache must not cost what is there.
TEST_F(BarelyFits, WhatNeverFitsEvictsNothing) {
  const auto engine = open(4);
  expect_runs(*engine, logits_of(counting(60)));
  const auto job = run_all(*engine, {logits_of(counting(129)), generation(counting(40), 100),
                                     generation(counting(40), 32)});
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(job->result(i).status, Code::kCacheFull) << i;
  EXPECT_EQ(look_up(*engine, counting(60)).cached_tokens, 60);
}

TEST_F(BarelyFits, AnAnswerThatNeverFitsCostsNothingForItsPrompt) {
  const auto engine = open(4);
  expect_runs(*engine, logits_of(counting(120)));
  const auto job = run_all(*engine, {generation(counting(100, 30), 100)});
  EXPECT_EQ(job->result(0).status, Code::kCacheFull);
  EXPECT_EQ(job->result(0).message.find("generating 100 tokens needs 6 more pages"), 0u)
      << job->result(0).message;
  EXPECT_EQ(look_up(*engine, counting(120)).cached_tokens, 120);
}

// The page inside which a path parts is there twice, below the last whole page too.
TEST_F(BarelyFits, ChoicesFitBehindAPathThatPartsInsideItsFirstPage) {
  const auto engine = open(5);
  const std::vector<int32_t> prompt = counting(75);
  RequestSpec head;
  head.task = Task::kWarm;
  head.tokens.assign(prompt.begin(), prompt.begin() + 32);
  RequestSpec other = head;
  other.tokens.assign({prompt[0], prompt[1] + 1});
  run_all(*engine, {head});
  run_all(*engine, {other});
  RequestSpec spec;
  spec.task = Task::kChoices;
  spec.tokens = prompt;
  spec.choices = {{1}, {2}, {3}};
  const auto want = run_all(*open(5), {spec});
  const auto got = run_all(*engine, {spec});
  ASSERT_EQ(want->result(0).status, Code::kOk) << want->result(0).message;
  ASSERT_EQ(got->result(0).status, Code::kOk) << got->result(0).message;
  EXPECT_TRUE(same_bits(got->result(0), want->result(0)));
}

TEST_F(BarelyFits, WhateverFitsAnEmptyCacheFitsAUsedOne) {
  std::mt19937 random(91);
  int fits = 0, too_big = 0;
  for (const int32_t pages : {3, 4, 5, 6, 8}) {
    const auto used = open(pages);
    const auto empty = open(pages);
    std::vector<RequestSpec> earlier;
    for (int i = 0; i < cases(400); ++i) {
      RequestSpec spec = random_task(random, random_prompt(random, earlier));
      spec.tokens.resize(std::min(spec.tokens.size(), static_cast<size_t>(32 * pages)));
      spec.from = std::min(spec.from, static_cast<int32_t>(spec.tokens.size()) - 1);
      if (spec.task == Task::kGenerate && random() % 2) spec.sampling.max_tokens = 40;
      earlier.push_back(spec);
      const auto want = run_all(*empty, {spec});
      empty->cache_trim(0);
      const auto got = run_all(*used, {spec});
      ASSERT_LE(used->stats().pages_used, pages);
      if (want->result(0).status == Code::kCacheFull) {
        ++too_big;
        continue;
      }
      ASSERT_TRUE(same_bits(got->result(0), want->result(0)))
          << "request " << i << " of " << spec.tokens.size() << " tokens, " << pages
          << " pages: " << got->result(0).message;
      ++fits;
    }
  }
  EXPECT_GT(fits, cases(1000));
  EXPECT_GT(too_big, 0);
}

TEST_F(BarelyFits, WhatAGenerationThatEndedEarlyWasPromised) {
  const auto engine = open(64);
  const int32_t space = engine->open_namespace("small");
  engine->set_cache_limits(space, 0, 2 * page);
  for (int i = 0; i < 3; ++i) {
    RequestSpec spec = generation(counting(10, i), 40);
    spec.name_space = space;
    spec.sampling.stop_tokens = counting(kVocab, 0);
    const auto job = run_all(*engine, {spec});
    ASSERT_EQ(job->result(0).finish, Finish::kStop) << job->result(0).message;
    ASSERT_EQ(job->result(0).tokens.size(), 1u);
  }
  expect_runs(*engine, logits_of(counting(64, 5), space));
}

// A scheduler whose steps are the test's, over memory of a few pages.
struct Steps {
  explicit Steps(int32_t capacity)
      : pages(capacity), kv(*device, model.kv_layout(), capacity), tree(pages) {}

  std::shared_ptr<Job> submit(const RequestSpec& spec) {
    auto job = std::make_shared<Job>(std::vector<RequestSpec>{spec});
    scheduler.enqueue(job);
    return job;
  }
  void step() {
    scheduler.plan();
    scheduler.execute();
    scheduler.complete();
    tree.check();
  }
  int32_t reserved() const { return pages.capacity() - pages.used() - pages.available(); }

  std::unique_ptr<ops::Device> device = ops::make_cpu_device({ops::kBf16Types, "auto"});
  Model model{open_model(tiny_checkpoint().path()), *device, 4096, nullptr};
  PagePool pages;
  KvMemory kv;
  Tree tree;
  Scheduler scheduler{model, kv, pages, tree, {}, nullptr};
};

constexpr int32_t kMaxTokens = 64;

// A generation that finds a page of its path continued by somebody else after each of its first
// `times` tokens, and leaves it at the price of a page.
std::shared_ptr<Job> parted_generation(Steps& steps, const Tokens& prompt, int32_t times) {
  const RequestSpec spec = generation(prompt, kMaxTokens);
  const Tokens drawn = run_all(*make_engine(tiny_checkpoint()), {spec})->result(0).tokens;
  const auto leader = steps.submit(spec);
  steps.step();
  for (int32_t n = 1; n <= times; ++n) {
    Tokens path = prompt;
    path.insert(path.end(), drawn.begin(), drawn.begin() + n);
    path.push_back((drawn[static_cast<size_t>(n)] + 1) % kVocab);
    const auto follower = steps.submit(logits_of(path));
    steps.step();
    EXPECT_TRUE(follower->finished(0));
    const auto generated = static_cast<int32_t>(leader->result(0).tokens.size());
    EXPECT_EQ(generated, n + 1);
    EXPECT_GE(steps.reserved(), pages_between(0, kMaxTokens - generated))
        << "what it still grows by is promised to it";
  }
  return leader;
}

TEST(BarelyFitsSteps, WhoIsPartedFromOftenKeepsThePagesItWasPromised) {
  Steps steps(48);
  const auto leader = parted_generation(steps, counting(5), 12);
  while (!leader->done()) steps.step();
  EXPECT_EQ(leader->result(0).status, Code::kOk) << leader->result(0).message;
  EXPECT_EQ(steps.reserved(), 0);
}

// Pages of a request that ends in a step are there for a generation that needs one in it.
TEST(BarelyFitsSteps, WhatEndsInAStepMakesRoomForAGenerationInTheSameStep) {
  Steps steps(24);
  const auto leader = parted_generation(steps, counting(5), 2);
  steps.tree.trim(0);
  Tokens rest = counting(32 * steps.pages.available(), 50);
  for (int32_t& token : rest) token %= kVocab;
  const auto last = steps.submit(logits_of(rest));
  steps.step();
  EXPECT_TRUE(last->finished(0));
  EXPECT_EQ(last->result(0).status, Code::kOk) << last->result(0).message;
  EXPECT_FALSE(leader->finished(0)) << leader->result(0).message;
  while (!leader->done()) steps.step();
  EXPECT_EQ(leader->result(0).status, Code::kOk) << leader->result(0).message;
}

}  // namespace
}  // namespace prefix
