// Many threads on one engine: submit, cancel, look up and release while jobs run. Run under TSan
// this shows that the locking is right; run plainly, that nothing leaks and no result changes.
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <thread>

#include "support/sanitized.h"
#include "support/tiny_engine.h"

namespace prefix {
namespace {

using testing_support::make_engine;
using testing_support::TinyCheckpoint;

RequestSpec spec_for(unsigned seed) {
  RequestSpec spec;
  spec.task = seed % 3 == 0 ? Task::kGenerate : Task::kLogits;
  spec.logit_ids = {1, 2};
  spec.sampling.max_tokens = 4;
  for (unsigned i = 0; i < 4 + seed % 23; ++i)
    spec.tokens.push_back(static_cast<int32_t>((seed * i) % 5));
  return spec;
}

int64_t resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string key; status >> key;) {
    int64_t kib;
    if (key == "VmRSS:" && status >> kib) return kib;
  }
  return 0;
}

TEST(Stress, EightThreadsSubmitCancelAndRelease) {
  const TinyCheckpoint checkpoint;
  const auto engine = make_engine(checkpoint, {{"threads", "2"}, {"cache_bytes", "1M"}});
  const auto reference = make_engine(checkpoint, {{"threads", "1"}, {"cache", "false"}});
  std::vector<RequestResult> expected;
  for (unsigned s = 0; s < 60; ++s) {
    const auto job = reference->submit({spec_for(s)});
    job->wait(-1);
    expected.push_back(job->result(0));
  }
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  std::atomic<int> finished{0};
  for (unsigned t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int round = 0; round < 40; ++round) {
        std::vector<unsigned> seeds;
        std::vector<RequestSpec> batch;
        for (unsigned i = 0; i < 1 + random() % 5; ++i) {
          seeds.push_back(random() % 60);
          batch.push_back(spec_for(seeds.back()));
        }
        const auto job = engine->submit(batch);
        switch (random() % 4) {
          case 0:
            job->cancel();
            break;
          case 1:
            job->cancel(0);
            break;
          case 2:
            continue;  // released while it runs
          default:
            break;
        }
        engine->cache_lookup(0, batch[0].tokens.data(), batch[0].tokens.size());
        engine->stats();
        job->wait(-1);
        for (size_t i = 0; i < seeds.size(); ++i) {
          const RequestResult& r = job->result(i);
          if (r.status == Code::kCancelled) continue;
          if (r.status != Code::kOk || r.values != expected[seeds[i]].values ||
              r.tokens != expected[seeds[i]].tokens) {
            ADD_FAILURE() << "seed " << seeds[i] << ": " << r.message;
            ++wrong;
          }
          ++finished;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(finished, 100);
}

constexpr const char* kHoldsMemory =
    "a sanitizer holds on to memory, and finds leaks in its own way";

TEST(Stress, TenThousandRunsDoNotGrow) {
  if (testing_support::is_sanitized()) GTEST_SKIP() << kHoldsMemory;
  const TinyCheckpoint checkpoint;
  const auto engine = make_engine(checkpoint, {{"cache_bytes", "1M"}});
  int64_t settled = 0;
  for (unsigned i = 0; i < 10000; ++i) {
    engine->submit({spec_for(i), spec_for(i * 31)})->wait(-1);
    if (i == 2000) settled = resident_kib();
  }
  EXPECT_LT(static_cast<double>(resident_kib()), 1.01 * static_cast<double>(settled));
}

TEST(Stress, CreateAndReleaseEnginesDoesNotGrow) {
  if (testing_support::is_sanitized()) GTEST_SKIP() << kHoldsMemory;
  const TinyCheckpoint checkpoint;
  int64_t settled = 0;
  for (unsigned i = 0; i < 200; ++i) {
    const auto engine = make_engine(checkpoint, {{"cache_bytes", "1M"}});
    engine->submit({spec_for(i)})->wait(-1);
    if (i == 50) settled = resident_kib();
  }
  EXPECT_LT(static_cast<double>(resident_kib()), 1.05 * static_cast<double>(settled) + 2048);
}

}  // namespace
}  // namespace prefix
