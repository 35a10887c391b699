// Requests that end, and engines that close, while pages are on their way; engines that share a
// folder. Run under TSan this shows that the locking is right.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <thread>

#include "base/log.h"
#include "tier_support.h"

namespace prefix {
namespace {

using namespace testing_support;

struct TierConcurrency : testing::Test {
  TierConcurrency() {
    const auto engine = open_over(folder);
    run_all(*engine, known.requests);
  }
  // `count` requests with prompts of their own, so that many fetches are under way at once.
  std::vector<size_t> choose(size_t count) {
    std::vector<size_t> chosen(count);
    for (size_t& i : chosen) i = random() % known.requests.size();
    return chosen;
  }
  std::vector<RequestSpec> batch_of(const std::vector<size_t>& chosen) const {
    std::vector<RequestSpec> batch;
    for (const size_t i : chosen) batch.push_back(known.requests[i]);
    return batch;
  }
  void check(const Job& job, const std::vector<size_t>& chosen) const {
    for (size_t i = 0; i < chosen.size(); ++i) known.check(job.result(i), chosen[i], true);
  }

  std::mt19937 random{29};
  TempFolder temporary;
  const std::string folder = temporary / "pages";
  KnownRequests known{random, 48};
};

TEST_F(TierConcurrency, RequestsAreCancelledWhileTheyWaitForPages) {
  const auto engine = open_over(folder, 60);
  int cancelled = 0;
  for (int round = 0; round < cases(200); ++round) {
    engine->cache_trim(0);
    const std::vector<size_t> chosen = choose(24);
    const auto job = engine->submit(batch_of(chosen));
    for (unsigned spin = random() % 4; spin > 0; --spin) std::this_thread::yield();
    for (size_t i = 0; i < chosen.size(); ++i)
      if (random() % 2) job->cancel(i);
    job->wait(-1);
    check(*job, chosen);
    ASSERT_FALSE(HasFatalFailure()) << "round " << round;
    for (size_t i = 0; i < chosen.size(); ++i)
      cancelled += job->result(i).status == Code::kCancelled;
  }
  EXPECT_GT(cancelled, 0);
  EXPECT_EQ(engine->stats().requests_waiting + engine->stats().requests_running, 0);
  engine->cache_trim(0);
  EXPECT_EQ(engine->stats().pages_used, 0);
}

TEST_F(TierConcurrency, DeadlinesPassWhileRequestsWaitForPages) {
  const auto engine = open_over(folder, 60);
  for (int round = 0; round < cases(150); ++round) {
    engine->cache_trim(0);
    const std::vector<size_t> chosen = choose(24);
    std::vector<RequestSpec> batch = batch_of(chosen);
    for (RequestSpec& spec : batch) spec.deadline_ms = static_cast<int64_t>(random() % 3);
    const auto job = run_all(*engine, batch);
    check(*job, chosen);
    ASSERT_FALSE(HasFatalFailure()) << "round " << round;
  }
  engine->cache_trim(0);
  EXPECT_EQ(engine->stats().pages_used, 0);
}

TEST_F(TierConcurrency, AnEngineClosesWhileRequestsWaitForPages) {
  for (int round = 0; round < cases(60); ++round) {
    const auto engine = open_over(folder, 60);
    const std::vector<size_t> chosen = choose(32);
    const auto job = engine->submit(batch_of(chosen));
    for (unsigned spin = random() % 50; spin > 0; --spin) std::this_thread::yield();
    engine->shutdown(0);
    job->wait(-1);
    check(*job, chosen);
    ASSERT_FALSE(HasFatalFailure()) << "round " << round;
  }
}

// No look into the folder succeeds, of which a thread of the tier tells.
TEST(TierLog, ACallbackMayAskTheEngineThatWaitsForItsTiers) {
  const TempFolder folder;
  for (const char digit : std::string_view("0123456789abcdef"))
    std::filesystem::create_symlink(std::string{digit}, folder / std::string{digit});
  struct Asker {
    std::shared_ptr<Engine> engine;
    std::promise<std::shared_ptr<Job>> job;
    std::atomic<bool> called{false};
    EngineState state{};
    size_t tiers = 0;
  } asker;
  asker.engine = open_over(folder.path());
  set_log_callback(
      [](int32_t, const char*, void* user) {
        auto& a = *static_cast<Asker*>(user);
        if (a.called.exchange(true)) return;
        a.job.get_future().get()->wait(-1);  // it ends when the engine is being closed
        a.state = a.engine->state();
        a.tiers = a.engine->tiers().size();
      },
      &asker);
  const auto job = asker.engine->submit({logits_of(std::vector<int32_t>(100, 1))});
  asker.job.set_value(job);
  while (!asker.called) std::this_thread::yield();
  asker.engine->shutdown(0);
  set_log_callback(nullptr, nullptr);
  EXPECT_EQ(job->result(0).status, Code::kCancelled);
  EXPECT_EQ(asker.state, EngineState::kDraining);
  EXPECT_EQ(asker.tiers, 1U);
  EXPECT_EQ(asker.engine->state(), EngineState::kClosed);
}

// Time is up before the tier has answered: whatever comes late goes nowhere.
TEST_F(TierConcurrency, NobodyWaitsWhenThereIsNoTime) {
  const auto engine = open_over(folder, 60, {{"cache_fetch_ms", "0"}});
  for (int round = 0; round < cases(100); ++round) {
    if (random() % 2) engine->cache_trim(0);
    const std::vector<size_t> chosen = choose(16);
    const auto job = run_all(*engine, batch_of(chosen));
    check(*job, chosen);
    ASSERT_FALSE(HasFatalFailure()) << "round " << round;
  }
}

TEST_F(TierConcurrency, TwoEnginesShareAFolderAndSeveralThreadsAnEngine) {
  const std::string shared = temporary / "shared";
  std::vector<std::shared_ptr<Engine>> engines{open_over(shared, 30),
                                               open_over(shared, 30, {{"cache_disk_bytes", "1M"}})};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 mine(t);
      Engine& engine = *engines[t % 2];
      for (int round = 0; round < cases(400); ++round) {
        if (mine() % 5 == 0) engine.cache_trim(0);
        const size_t i = mine() % known.requests.size();
        known.check(run_all(engine, {known.requests[i]})->result(0), i);
        if (HasFatalFailure()) return;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace prefix
