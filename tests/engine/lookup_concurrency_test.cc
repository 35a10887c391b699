// Looking into the cache from many threads while it changes. Run under TSan this shows that the
// locking is right.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "engine/engine_support.h"

namespace prefix {
namespace {

using namespace testing_support;

constexpr int32_t kVocab = 131;

RequestSpec request(const std::vector<int32_t>& tokens, size_t i) {
  RequestSpec spec = logits_of(tokens);
  if (i % 3 != 0) return spec;
  spec.task = Task::kGenerate;
  spec.sampling.max_tokens = 5;
  spec.sampling.ignore_eos = true;
  return spec;
}

TEST(CacheConcurrency, EightThreadsLookUpWhileAnotherSubmits) {
  const TinyCheckpoint checkpoint;
  const int64_t page =
      32 * Engine::estimate(checkpoint.path(), make_options({})).kv_bytes_per_token;
  const auto engine = make_engine(
      checkpoint, {{"cache_bytes", std::to_string(24 * page)}, {"threads", "1"}, {"rows", "64"}});
  const auto cold = make_engine(checkpoint, {{"cache", "false"}, {"threads", "1"}});
  const int32_t foreign = engine->open_namespace("foreign");

  std::mt19937 random(61);
  std::vector<std::vector<int32_t>> prompts;
  std::vector<RequestSpec> specs;
  for (size_t i = 0; i < 48; ++i) {
    std::vector<int32_t> tokens = random_tokens(random, 10 + random() % 70, kVocab);
    if (i % 4 != 0) std::copy_n(prompts[i - 1].begin(), 10, tokens.begin());
    specs.push_back(request(tokens, i));
    prompts.push_back(std::move(tokens));
  }
  const auto expected = run_all(*cold, specs);

  std::atomic<bool> stop{false};
  std::atomic<int64_t> lookups{0}, hits{0}, wrong{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 mine(t);
      while (!stop) {
        const std::vector<int32_t>& tokens = prompts[mine() % prompts.size()];
        const auto n = static_cast<int64_t>(1 + mine() % tokens.size());
        const int32_t space = mine() % 4 == 0 ? foreign : 0;
        const CacheInfo found = engine->cache_lookup(space, tokens.data(), static_cast<size_t>(n));
        const int64_t sum = found.cached_tokens + found.pending_tokens;
        wrong += found.cached_tokens < 0 || found.pending_tokens < 0 || sum > n ||
                 (space == foreign && sum > 0);
        hits += sum > 0;
        ++lookups;
        if (mine() % 32 == 0) engine->find_namespace("foreign");
        if (mine() % 32 == 0) engine->stats();
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
    });
  }
  for (int round = 0; round < cases(400); ++round) {
    std::vector<size_t> chosen;
    std::vector<RequestSpec> batch;
    for (size_t i = 1 + random() % 6; i > 0; --i) {
      chosen.push_back(random() % specs.size());
      batch.push_back(specs[chosen.back()]);
    }
    const auto job = engine->submit(batch);
    if (round % 16 == 0) engine->cache_trim(static_cast<int64_t>(random() % 24) * page);
    if (round % 50 == 0) engine->drop_namespace(0);
    job->wait(-1);
    for (size_t i = 0; i < chosen.size(); ++i)
      wrong += !same_bits(job->result(i), expected->result(chosen[i]));
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0) << "of " << lookups << " lookups";
  EXPECT_GT(hits, 0);
  EXPECT_GT(engine->stats().evicted_tokens, 0);
  engine->cache_trim(0);
  EXPECT_EQ(engine->stats().pages_used, 0);
}

}  // namespace
}  // namespace prefix
