// The budget of the cache: tracked bytes never exceed it, and all of it comes back.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <set>
#include <string_view>
#include <thread>

#include "engine/engine_support.h"
#include "engine/random_requests.h"

namespace prefix {
namespace {

using namespace testing_support;

struct Pressure {
  const char* name;
  const char* rows;
  const char* cache;
  const char* sharing;
};

class Budget : public testing::TestWithParam<Pressure> {};

RequestSpec pressing_request(std::mt19937& random, const std::vector<std::vector<int32_t>>& heads) {
  std::vector<int32_t> tokens = heads[random() % heads.size()];
  tokens.resize(1 + random() % tokens.size());
  const size_t more = random() % 100 == 0 ? 700 : 1 + random() % 20;  // more than there is room for
  for (const int32_t t : random_tokens(random, more, 3)) tokens.push_back(t);
  RequestSpec spec = random_task(random, std::move(tokens));
  spec.name_space = static_cast<int32_t>(random() % 3);
  spec.priority = static_cast<int32_t>(random() % 3);
  if (random() % 8 == 0) spec.deadline_ms = 1 + random() % 3;
  if (spec.task == Task::kGenerate) {
    spec.sampling.max_tokens = 1 + static_cast<int32_t>(random() % 40);
    spec.sampling.temperature = 1;
    spec.sampling.top_k = 2;
    spec.sampling.seed = static_cast<int64_t>(random());
  }
  return spec;
}

TEST_P(Budget, IsNeverExceededAndAllOfItComesBack) {
  constexpr int64_t kPages = 20;
  const Pressure& pressure = GetParam();
  const int64_t page =
      32 * Engine::estimate(tiny_checkpoint().path(), make_options({})).kv_bytes_per_token;
  const auto engine =
      make_engine(tiny_checkpoint(), {{"cache_bytes", std::to_string(kPages * page)},
                                      {"threads", "1"},
                                      {"rows", pressure.rows},
                                      {"cache", pressure.cache},
                                      {"sharing", pressure.sharing}});
  engine->open_namespace("a");
  engine->open_namespace("b");
  std::atomic<bool> stop{false};
  std::atomic<int64_t> samples{0}, violations{0};
  const auto sample = [&] {
    const EngineStats s = engine->stats();
    ++samples;
    violations += s.kv_budget_bytes != kPages * page || s.kv_bytes > s.kv_budget_bytes ||
                  s.kv_bytes_peak > s.kv_budget_bytes || s.kv_bytes < 0 ||
                  s.kv_bytes != s.pages_used * page || s.pages_used > s.pages_total;
  };
  std::thread sampler([&] {
    while (!stop) {
      sample();
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  });

  std::mt19937 random(37);
  std::vector<std::vector<int32_t>> heads;
  while (heads.size() < 12) heads.push_back(random_tokens(random, 20 + random() % 120, 3));
  std::map<Code, int> ends;
  std::deque<std::shared_ptr<Job>> jobs;
  const auto take_oldest = [&] {
    jobs.front()->wait(-1);
    for (size_t i = 0; i < jobs.front()->count(); ++i) ++ends[jobs.front()->result(i).status];
    jobs.pop_front();
  };
  for (int round = 0; round < cases(1500); ++round) {
    std::vector<RequestSpec> batch;
    for (size_t i = 1 + random() % 6; i > 0; --i) batch.push_back(pressing_request(random, heads));
    jobs.push_back(engine->submit(std::move(batch)));
    if (random() % 6 == 0) jobs[random() % jobs.size()]->cancel();
    if (random() % 4 == 0) jobs.back()->cancel(random() % jobs.back()->count());
    if (random() % 20 == 0) engine->cache_trim(static_cast<int64_t>(random() % kPages) * page);
    if (random() % 40 == 0) engine->drop_namespace(static_cast<int32_t>(random() % 3));
    while (jobs.size() > random() % 6) take_oldest();
    sample();
  }
  while (!jobs.empty()) take_oldest();
  sample();
  stop = true;
  sampler.join();
  EXPECT_EQ(violations, 0) << "of " << samples << " samples";
  const EngineStats busy = engine->stats();
  EXPECT_GE(busy.kv_bytes_peak, (kPages - 2) * page) << "the budget was not what limited it";
  if (std::string_view(pressure.cache) == "false") {
    EXPECT_EQ(busy.pages_used, 0);
  } else if (std::string_view(pressure.sharing) == "true") {
    EXPECT_GT(busy.evictions, cases(1500) / 4);
  }
  EXPECT_GT(ends[Code::kOk], cases(1500));
  EXPECT_GT(ends[Code::kCancelled], 0);
  EXPECT_GT(ends[Code::kCacheFull], 0);
  for (const auto& [code, count] : ends)
    EXPECT_TRUE(code == Code::kOk || code == Code::kCancelled || code == Code::kDeadline ||
                code == Code::kCacheFull)
        << static_cast<int>(code) << ": " << count;
  std::printf("%s: %lld samples, %lld evictions; %d finished, %d cancelled, %d late, %d too big\n",
              pressure.name, static_cast<long long>(samples),
              static_cast<long long>(busy.evictions), ends[Code::kOk], ends[Code::kCancelled],
              ends[Code::kDeadline], ends[Code::kCacheFull]);

  engine->cache_trim(0);
  const EngineStats empty = engine->stats();
  EXPECT_EQ(empty.pages_used, 0);
  EXPECT_EQ(empty.kv_bytes, 0);
  EXPECT_EQ(empty.tree_tokens, 0);
  EXPECT_EQ(empty.requests_running + empty.requests_waiting, 0);
  // No page is lost, and none is still promised to somebody.
  const auto all = run_all(*engine, {logits_of(random_tokens(random, kPages * 32, kVocab))});
  EXPECT_EQ(all->result(0).status, Code::kOk) << all->result(0).message;
  const auto more = run_all(*engine, {logits_of(random_tokens(random, kPages * 32 + 1, kVocab))});
  EXPECT_EQ(more->result(0).status, Code::kCacheFull);
}

INSTANTIATE_TEST_SUITE_P(Pressures, Budget,
                         testing::Values(Pressure{"usual", "2048", "true", "true"},
                                         Pressure{"rows_of_3", "3", "true", "true"},
                                         Pressure{"cache_off", "2048", "false", "true"},
                                         Pressure{"sharing_off", "64", "true", "false"}),
                         [](const auto& pressure) { return pressure.param.name; });

// Requests that continue a running generation by another token than it is about to draw: it leaves
// each of them by a branch, which takes a page.
TEST(Cache, FollowersOfAGenerationDoNotBreakTheBudget) {
  tools::CheckpointShape shape;  // with steps long enough to submit something in one
  shape.hidden = 256;
  shape.layers = 4;
  shape.intermediate = 2048;
  const TinyCheckpoint slow(shape);
  const int64_t page = 32 * Engine::estimate(slow.path(), make_options({})).kv_bytes_per_token;
  std::mt19937 random(47);
  for (const int32_t pages : {7, 12, 60}) {
    const auto engine = make_engine(
        slow, {{"cache_bytes", std::to_string(pages * page)}, {"threads", "1"}, {"rows", "64"}});
    RequestSpec leader;
    leader.task = Task::kGenerate;
    leader.tokens = random_tokens(random, 20, kVocab);
    leader.sampling.max_tokens = 40;
    leader.sampling.ignore_eos = true;
    const std::vector<int32_t> drawn = run_all(*engine, {leader})->result(0).tokens;
    engine->cache_trim(0);

    const auto job = engine->submit({leader});
    std::vector<std::shared_ptr<Job>> followers;
    size_t seen = 0;
    while (const auto event = job->next_event(-1)) {
      if (event->kind != Event::kToken || ++seen + 1 >= drawn.size()) continue;
      std::vector<int32_t> tokens = leader.tokens;
      tokens.insert(tokens.end(), drawn.begin(), drawn.begin() + static_cast<ptrdiff_t>(seen) + 1);
      tokens.push_back((drawn[seen + 1] + 1) % kVocab);
      followers.push_back(engine->submit({logits_of(tokens)}));
      const EngineStats stats = engine->stats();
      ASSERT_LE(stats.pages_used, pages);
    }
    // With less than a page for each token some may have to give up; what was drawn is right.
    const bool enough = pages >= 60;
    const auto expect_fair_end = [&](const RequestResult& result) {
      EXPECT_TRUE(result.status == Code::kOk || (!enough && result.status == Code::kCacheFull))
          << result.message;
    };
    for (const auto& follower : followers) {
      follower->wait(-1);
      expect_fair_end(follower->result(0));
    }
    EXPECT_LE(engine->stats().kv_bytes_peak, pages * page);
    const RequestResult& result = job->result(0);
    expect_fair_end(result);
    ASSERT_LE(result.tokens.size(), drawn.size());
    EXPECT_TRUE(std::equal(result.tokens.begin(), result.tokens.end(), drawn.begin()));
    std::printf("%d pages: %zu tokens\n", pages, result.tokens.size());
    engine->cache_trim(0);
    EXPECT_EQ(engine->stats().pages_used, 0);
    const auto all = run_all(
        *engine, {logits_of(random_tokens(random, static_cast<size_t>(pages) * 32, kVocab))});
    EXPECT_EQ(all->result(0).status, Code::kOk) << all->result(0).message;
  }
}

TEST(Cache, QuotaHoldsForGenerationsAtTheSameTime) {
  const auto engine = make_engine(tiny_checkpoint());
  const int32_t space = engine->open_namespace("tenant");
  const int64_t token = engine->info().kv_bytes_per_token;
  engine->set_cache_limits(space, 0, 200 * token);
  std::mt19937 random(53);
  std::vector<RequestSpec> batch(6);
  for (RequestSpec& spec : batch) {
    spec.name_space = space;
    spec.tokens = random_tokens(random, 20, kVocab);
    spec.sampling.max_tokens = 100;
    spec.sampling.ignore_eos = true;
  }
  const auto job = engine->submit(batch);
  int64_t most = 0;
  while (!job->done()) {
    job->next_event(10);
    most = std::max(most, engine->cache_usage(space).tokens);
  }
  EXPECT_LE(most, 200);
  for (size_t i = 0; i < batch.size(); ++i)
    EXPECT_EQ(job->result(i).status, Code::kOk) << job->result(i).message;
}

}  // namespace
}  // namespace prefix
