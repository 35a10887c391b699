// Memory behind sliding windows: a request whose path does not fit runs through a band of frames,
// and the bits are those of an engine that keeps everything.
#include <algorithm>
#include <map>
#include <random>

#include "base/page.h"
#include "engine/random_requests.h"
#include "engine/scheduler_fixture.h"

namespace prefix {
namespace {

using namespace testing_support;
using Tokens = std::vector<int32_t>;

constexpr int32_t kWindow = 70;
constexpr int32_t kRows = 64;
// Pages of a band: a window and what lies across its ends, and a step.
constexpr int32_t kLeast = (kWindow + 31) / 32 + 2;
constexpr int32_t kBand = kLeast + kRows / 32;

const TinyCheckpoint& windowed(int32_t window) {
  static std::map<int32_t, TinyCheckpoint> checkpoints;
  tools::CheckpointShape shape;
  shape.architecture = "mistral";
  shape.windows = "ss";
  shape.window = window;
  const auto found = checkpoints.find(window);
  return found != checkpoints.end() ? found->second
                                    : checkpoints.try_emplace(window, shape).first->second;
}

struct WindowMemory : SchedulerTest {
  WindowMemory() { open_pages(kBand); }
  void open_pages(int32_t pages) { open_window(kWindow, pages, kRows); }
  void open_window(int32_t tokens, int32_t pages, int32_t rows) {
    window = tokens;
    open(windowed(window), pages, rows, window);
  }

  Tokens random_text(size_t n) { return random_tokens(random, n, kVocab); }
  // The result in an engine that keeps everything.
  RequestResult whole(const RequestSpec& spec) const {
    static std::map<int32_t, std::shared_ptr<Engine>> engines;
    std::shared_ptr<Engine>& engine = engines[window];
    if (!engine) engine = make_engine(windowed(window), {{"threads", "1"}, {"cache", "false"}});
    return run_all(*engine, {spec})->result(0);
  }
  void expect_all_same(const std::vector<std::shared_ptr<Job>>& jobs) {
    while (!scheduler->idle()) {
      step();
      check();
    }
    for (const auto& job : jobs)
      for (size_t i = 0; i < job->count(); ++i) expect_same(*job, i);
  }
  void expect_same(Job& job, size_t i = 0) {
    ASSERT_TRUE(job.finished(i));
    const RequestResult& got = job.edit_result(i);
    EXPECT_EQ(got.status, Code::kOk) << got.message;
    EXPECT_TRUE(same_bits(got, whole(job.spec(i))));
  }
  std::shared_ptr<Job> run(const RequestSpec& spec) {
    const auto job = submit({spec});
    finish_all();
    check();
    expect_same(*job);
    return job;
  }
  // A step of a random test, in which a job may be cancelled. Finished jobs leave `open`; those
  // that were not `refused` must have the results of an engine that keeps everything. Returns how
  // many that were.
  template <typename Refused>
  int random_step(std::vector<std::shared_ptr<Job>>& open, const Refused& refused) {
    step();
    check();
    EXPECT_GE(pool->available(), 0);
    if (random() % 40 == 0 && !open.empty()) open[random() % open.size()]->cancel();
    int compared = 0;
    std::erase_if(open, [&](const std::shared_ptr<Job>& job) {
      if (!job->finished(0)) return false;
      if (refused(*job)) return true;
      expect_same(*job);
      ++compared;
      return true;
    });
    return compared;
  }
  template <typename Refused>
  void finish_open(const std::vector<std::shared_ptr<Job>>& open, const Refused& refused) {
    finish_all();
    check();
    EXPECT_EQ(pool->bands(), 0);
    for (const auto& job : open)
      if (!refused(*job)) expect_same(*job);
  }
  static Tokens join(Tokens a, const Tokens& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }

  static RequestSpec logprobs(Tokens tokens, int32_t from) {
    RequestSpec spec;
    spec.task = Task::kLogprobs;
    spec.tokens = std::move(tokens);
    spec.from = from;
    return spec;
  }

  std::mt19937 random{3};
  int32_t window = 0;
};

TEST_F(WindowMemory, APromptOfManyTimesTheMemoryRunsThroughItsWindow) {
  run(logits_of(random_text(3000)));
  EXPECT_LE(pool->peak(), kBand);
  EXPECT_EQ(pool->bands(), 0);
  EXPECT_EQ(pool->sliding_pages(), 0);
}

TEST_F(WindowMemory, AStepIsAsLongAsTheMemoryLets) {
  open_pages(kLeast);
  run(logits_of(random_text(600)));
  EXPECT_LE(pool->peak(), kLeast);
}

TEST_F(WindowMemory, LessThanAWindowIsRefusedWithWhatItTakes) {
  open_pages(kLeast - 1);
  const auto job = submit({logits_of(random_text(600))});
  finish_all();
  EXPECT_EQ(job->edit_result(0).status, Code::kCacheFull);
  EXPECT_NE(job->edit_result(0).message.find(cat("needs ", kLeast, " pages")), std::string::npos)
      << job->edit_result(0).message;
  check();
}

TEST_F(WindowMemory, AGenerationSlidesOn) {
  const auto job = run(generate(random_text(100), 400));
  EXPECT_EQ(job->edit_result(0).tokens.size(), 400u);
  EXPECT_LE(pool->peak(), kBand);
}

TEST_F(WindowMemory, APathThatFitsKeepsAllItsPages) {
  open_pages(100);
  run(logits_of(random_text(1000)));
  EXPECT_EQ(pool->hollow_pages(), 0);
  EXPECT_EQ(pool->used(), 32);
}

TEST_F(WindowMemory, ItIsContinuedAtItsEnd) {
  const Tokens prompt = random_text(1000);
  run(logits_of(prompt));
  const auto job = run(logits_of(join(prompt, random_text(30))));
  EXPECT_EQ(job->edit_result(0).usage.cached, 1000);
  EXPECT_EQ(run(logits_of(prompt))->edit_result(0).usage.cached, 999) << "the last row again";
}

TEST_F(WindowMemory, ABranchInsideTheWindowGoesOnThere) {
  const Tokens prompt = random_text(1000);
  run(logits_of(prompt));
  const auto job = run(logits_of(join(first_tokens(prompt, 998), random_text(30))));
  EXPECT_EQ(job->edit_result(0).usage.cached, 998);
}

TEST_F(WindowMemory, ABranchBehindTheWindowBeginsAnewAndTakesThePlace) {
  const Tokens prompt = random_text(1000);
  run(logits_of(prompt));
  const Tokens other = join(first_tokens(prompt, 600), random_text(30));
  EXPECT_EQ(run(logits_of(other))->edit_result(0).usage.cached, 0);
  EXPECT_EQ(run(logits_of(join(other, {5, 6})))->edit_result(0).usage.cached, 630);
  EXPECT_EQ(run(logits_of(prompt))->edit_result(0).usage.cached, 0) << "its end went";
}

// A path that is held cannot make place: who needs what it gave back computes for itself.
TEST_F(WindowMemory, ABranchBehindTheWindowOfARunningRequestComputesAlone) {
  open_pages(2 * kBand);
  const Tokens prompt = random_text(800);
  const auto first = submit({generate(prompt, 150)});
  while (generated(*first) < 5) step();
  const auto second = submit({logits_of(join(first_tokens(prompt, 500), random_text(20)))});
  while (!second->finished(0)) {
    step();
    check();
  }
  EXPECT_FALSE(first->finished(0));
  expect_same(*second);
  EXPECT_EQ(second->edit_result(0).usage.cached, 0);
  finish_all();
  expect_same(*first);
  check();
  EXPECT_EQ(run(logits_of(join(prompt, first_tokens(first->edit_result(0).tokens, 149))))
                ->edit_result(0)
                .usage.cached,
            948)
      << "what ran on the shared path is there";
}

// What a request that fits reads of a sliding path is taken out of the band.
TEST_F(WindowMemory, AShortRequestKeepsWhatItReadsOfASlidingPath) {
  open_pages(3 * kBand);
  const Tokens prompt = random_text(900);
  const auto slides = submit({logits_of(prompt)});
  step();
  const auto fits = submit({generate(first_tokens(prompt, 50), 80)});
  while (!scheduler->idle()) {
    step();
    check();
  }
  expect_same(*slides);
  expect_same(*fits);
}

// They choose the same tokens, so they are in the same nodes, and part ways with the memory.
TEST_F(WindowMemory, GenerationsThatSlideAndThatDoNotGoOneWay) {
  open_pages(27);
  const Tokens prompt = random_text(600);
  const auto slides = submit({generate(prompt, 300)});
  while (generated(*slides) < 3) step();
  const auto fits = submit({generate(prompt, 120)});
  while (!scheduler->idle()) {
    step();
    check();
  }
  expect_same(*slides);
  expect_same(*fits);
  EXPECT_GT(fits->edit_result(0).usage.cached, 0);
}

// Each branch inside a page takes a frame of the band, and there may be more of them than frames.
TEST_F(WindowMemory, ManyBranchesInsideAPageRunOneAfterAnother) {
  constexpr int32_t kFew = 16;
  open_window(kWindow, 3 * (kLeast + 1) + kLeast, kFew);
  Tokens path = random_text(800);
  std::vector<std::shared_ptr<Job>> jobs;
  for (size_t at = 165; at <= 180; at += 5) {
    jobs.push_back(submit({logits_of(path)}));
    path = join(first_tokens(path, at), random_text(800 - at));
  }
  expect_all_same(jobs);
}

// Two paths part in mid-page; the page before the fork goes with the one that is ahead, and the
// other has a copy. Its own rows are read there, those before the fork are not.
TEST_F(WindowMemory, RowsBeforeAForkWhosePageIsGoneAreComputedAnew) {
  open_pages(2 * kBand);
  const Tokens prompt = random_text(600);
  const Tokens other = join(first_tokens(prompt, 203), {5, 6, 7, 8, 9, 10, 11});
  expect_all_same({submit({logits_of(prompt)}), submit({generate(other, 20)})});
  EXPECT_EQ(run(logprobs(other, 204))->edit_result(0).usage.cached, 204);
  EXPECT_EQ(run(logprobs(other, 203))->edit_result(0).usage.cached, 0);
}

// Three paths part in one page, and the one that is behind leaves it last:
// it copies what is before.
TEST_F(WindowMemory, APageIsKeptForABranchThatLeavesItLater) {
  open_pages(3 * kBand);
  const Tokens prompt = random_text(800);
  const RequestSpec leaves = logits_of(join(first_tokens(prompt, 195), random_text(600)));
  RequestSpec behind = logits_of(join(first_tokens(prompt, 215), random_text(10)));
  behind.priority = -1;
  expect_all_same({submit({logits_of(prompt)}), submit({leaves}), submit({behind})});
}

// A path leaves a page and gives it back: what others have in it goes, to the end of the page. The
// first two end with a step, before the third one leaves.
TEST_F(WindowMemory, WhatLiesInAPageThatWasLeftGoesWithIt) {
  open_window(1, 12, 16);
  const Tokens prompt = random_text(500);
  const RequestSpec other = logits_of(join(first_tokens(prompt, 486), random_text(12)));
  RequestSpec leaves = logits_of(join(first_tokens(prompt, 483), random_text(200)));
  leaves.priority = -1;
  expect_all_same({submit({logits_of(prompt)}), submit({other}), submit({leaves})});
  EXPECT_EQ(tree->match(0, prompt).matched, 486);
}

// The last one begins with a row that is there already, whose page its path has left since for that
// of another: too many pages for one step of a band.
TEST_F(WindowMemory, ARowIsReadAgainBeforeItsPathGoesOnElsewhere) {
  open_window(32, 11, 2);
  const Tokens prompt = random_text(200);
  std::vector<RequestSpec> all = {generate(random_text(3), 1), generate(random_text(3), 20)};
  for (const Tokens& more : {Tokens{0}, Tokens{1, 2, 6}, Tokens{0, 4, 5, 6}, Tokens{1, 3}})
    all.push_back(logprobs(join(prompt, more), 200));
  expect_all_same({submit(all)});
}

// The row of the first token, which is there, is read when its request gets one: until then the
// path behind it stays, and the other one, which has gone on in it meanwhile, waits.
TEST_F(WindowMemory, WhoIsFarAheadWaitsForRowsThatAreReadAgain) {
  open_window(32, 8, 1);
  const Tokens prompt = random_text(244);
  const Tokens other = join(first_tokens(prompt, 1), random_text(38));
  expect_all_same(
      {submit({generate(other, 1), generate(prompt, 1), logprobs(first_tokens(prompt, 200), 1)})});
}

// Requests that come, run, are cancelled and end at any time, in memory that is too small for most.
TEST_F(WindowMemory, RandomRequestsAtRandomTimes) {
  const auto refused = [](Job& job) { return job.edit_result(0).status == Code::kCancelled; };
  int compared = 0;
  for (int round = 0; compared < cases(600); ++round) {
    random.seed(static_cast<unsigned>(round) + 100);
    open_pages(kLeast * 3 + static_cast<int32_t>(random() % 20));
    std::vector<RequestSpec> known;
    std::vector<std::shared_ptr<Job>> open;
    for (int i = 0; i < 150; ++i) {
      if (random() % 3 == 0 && open.size() < 6) {
        Tokens tokens;
        if (!known.empty() && random() % 5) {
          tokens = known[random() % known.size()].tokens;
          tokens.resize(1 + random() % tokens.size());
        }
        tokens = join(tokens, random_text(random() % 4 == 0 ? random() % 400 : random() % 40));
        tokens.resize(std::clamp<size_t>(tokens.size(), 2, 700), 1);
        known.push_back(random_task(random, std::move(tokens)));
        if (known.back().task == Task::kGenerate)
          known.back().sampling.max_tokens = 1 + static_cast<int32_t>(random() % 60);
        open.push_back(submit({known.back()}));
      }
      compared += random_step(open, refused);
      ASSERT_FALSE(HasFailure()) << "round " << round << ", step " << i;
    }
    finish_open(open, refused);
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
}

// Paths that part many times inside one page, in bands as small as they get, whose rows are read
// again about there. Choices want a band each, and a generation a page when others take its last
// one: there may be none.
TEST_F(WindowMemory, RandomBranchesInsideAPage) {
  constexpr int32_t kWindows[] = {1, 24, 32, 33, 53, kWindow};
  const auto refused = [](Job& job) {
    const RequestResult& result = job.edit_result(0);
    return result.status == Code::kCancelled ||
           (result.status == Code::kCacheFull &&
            (job.spec(0).task == Task::kChoices || !result.tokens.empty()));
  };
  int compared = 0;
  for (int round = 0; compared < cases(1000); ++round) {
    random.seed(static_cast<unsigned>(round) + 500);
    const int32_t seen = kWindows[static_cast<size_t>(round) % std::size(kWindows)];
    const int32_t least = pages_between(0, seen) + 2;
    open_window(seen, 3 * least + static_cast<int32_t>(random() % 12), 1 << random() % 7);
    const size_t block = random() % 8 * kPageTokens;
    const auto in_block = [&](size_t most) {
      return std::clamp<size_t>(block + random() % kPageTokens, 1, most);
    };
    std::vector<Tokens> known = {random_text(block + 400)};
    std::vector<std::shared_ptr<Job>> open;
    for (int i = 0; i < 60; ++i) {
      for (int more = 0; more < 3 && random() % 3 == 0 && open.size() < 8; ++more) {
        Tokens tokens = known[random() % known.size()];
        if (random() % 4) {
          tokens.resize(in_block(tokens.size()));
          tokens = join(tokens, random_text(1 + random() % (random() % 2 ? 8 : 300)));
          known.push_back(tokens);
        }
        tokens.push_back(1);
        const size_t last = tokens.size() - 1;
        RequestSpec spec;
        switch (random() % 4) {
          case 0:
            spec = generate(std::move(tokens), 1 + static_cast<int32_t>(random() % 60));
            break;
          case 1:
            spec = logprobs(std::move(tokens), 1 + static_cast<int32_t>(random() % last));
            break;
          case 2:
            spec = logprobs(std::move(tokens), static_cast<int32_t>(in_block(last)));
            break;
          default:
            spec = random_task(random, std::move(tokens));
        }
        spec.priority = static_cast<int32_t>(random() % 2);
        open.push_back(submit({std::move(spec)}));
      }
      compared += random_step(open, refused);
      ASSERT_FALSE(HasFailure()) << "round " << round << ", step " << i;
    }
    finish_open(open, refused);
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
}

// The line that a user reads: 32k tokens of a model with a window of 1k.
TEST(WindowMemoryOfAnEngine, APromptOf32kTokensTakesAWindowAndAStep) {
  constexpr int64_t kTokens = 32768, kLong = 1024, kStep = 512;
  tools::CheckpointShape shape;
  shape.architecture = "mistral";
  shape.windows = "ss";
  shape.window = kLong;
  shape.max_positions = kTokens + 64;
  const TinyCheckpoint checkpoint(shape);
  std::mt19937 random(4);
  const Tokens prompt = random_tokens(random, kTokens, kVocab);
  Tokens more = prompt;
  more.resize(kTokens + 20, 7);
  const auto all = make_engine(checkpoint, {{"rows", "512"}, {"cache_bytes", "1G"}});
  const int64_t page = 32 * all->info().kv_bytes_per_token;
  const int64_t pages = (kLong + kStep) / 32 + 2;
  const auto little =
      make_engine(checkpoint, {{"rows", "512"}, {"cache_bytes", std::to_string(pages * page)}});
  for (const Tokens& tokens : {prompt, more}) {
    const auto want = run_all(*all, {logits_of(tokens)});
    const auto got = run_all(*little, {logits_of(tokens)});
    ASSERT_EQ(got->result(0).status, Code::kOk) << got->result(0).message;
    EXPECT_TRUE(same_bits(got->result(0), want->result(0)));
    EXPECT_EQ(got->result(0).usage.cached, want->result(0).usage.cached);
  }
  EXPECT_LE(little->stats().kv_bytes_peak, pages * page);
  little->check();
}

}  // namespace
}  // namespace prefix
