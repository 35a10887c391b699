// Saving and loading while the engine works, and while it is closed. Run under TSan this shows that
// the locking is right.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <iostream>
#include <thread>

#include "base/threads.h"
#include "snapshot_support.h"
#include "support/expect_error.h"

namespace prefix {
namespace {

using namespace testing_support;
namespace fs = std::filesystem;

TEST(SnapshotConcurrency, SavesAndLoadsWhileRequestsFightForRoom) {
  const TempFolder folder;
  const std::string path = folder / "snapshot";
  std::mt19937 random(31);
  const KnownRequests known(random, 40);
  const auto engine = open_engine(40);
  std::vector<int32_t> spaces = open_tuples(*engine, random);
  std::atomic<bool> stop{false};
  std::thread requests([&] {
    std::mt19937 mine(7);
    for (int round = 0; round < cases(1500) && !testing::Test::HasFatalFailure(); ++round) {
      std::vector<size_t> chosen;
      std::vector<RequestSpec> batch;
      for (size_t n = 1 + mine() % 3; n > 0; --n) {
        chosen.push_back(mine() % known.requests.size());
        batch.push_back(known.requests[chosen.back()]);
        batch.back().name_space = spaces[mine() % spaces.size()];
      }
      // One that ends while it is saved, or loaded from a snapshot.
      batch[0].name_space = engine->open_namespace("guest");
      const auto job = engine->submit(batch);
      if (mine() % 2) engine->close_namespace(batch[0].name_space);
      job->wait(-1);
      for (size_t i = 0; i < chosen.size(); ++i) known.check(job->result(i), chosen[i]);
    }
    stop = true;
  });
  int saves = 0, loads = 0, with_lost = 0;
  while ((!stop || loads == 0) && !testing::Test::HasFatalFailure()) {
    const SnapshotResult saved = engine->save_snapshot(path, {});
    ++saves;
    if (random() % 8 == 0) engine->load_snapshot(path);
    if (saves % 6 != 0) continue;
    const SnapshotBytes file(path);
    const int64_t lost = lost_tokens(SnapshotReader(path, file.shape), file.shape.page_bytes);
    with_lost += lost > 0;
    const auto other = open_engine(200);
    const SnapshotResult loaded = other->load_snapshot(path);
    ++loads;
    EXPECT_EQ(loaded.tokens, saved.tokens);
    EXPECT_EQ(loaded.nodes, saved.nodes);
    EXPECT_EQ(loaded.skipped_tokens, lost);
    std::vector<RequestSpec> batch = known.requests;
    const std::vector<int32_t> there = open_tuples(*other, random);
    for (RequestSpec& spec : batch) spec.name_space = there[random() % there.size()];
    const auto job = run_all(*other, batch);
    for (size_t i = 0; i < batch.size(); ++i) known.check(job->result(i), i);
  }
  requests.join();
  std::cout << saves << " saves, " << loads << " loaded elsewhere, " << with_lost
            << " without what was evicted meanwhile\n";
  EXPECT_GT(loads, 0);
  EXPECT_GT(engine->stats().evicted_tokens, 0);
  engine->cache_trim(0);
  if (const int32_t guest = engine->find_namespace("guest"); guest > 0)
    engine->close_namespace(guest);
  EXPECT_EQ(engine->stats().pages_used, 0);
  EXPECT_EQ(engine->stats().tree_tokens, 0);
  EXPECT_EQ(engine->stats().tree_nodes, 4) << "the roots";
}

// What is called until the engine is closed under it.
template <typename Call>
void until_closed(Engine& engine, std::mt19937& random, const Call& call) {
  std::atomic<int> calls{0};
  std::thread caller([&] {
    try {
      for (;; ++calls) call();
    } catch (const Error& e) {
      EXPECT_EQ(static_cast<int>(e.code()), static_cast<int>(Code::kMisuse)) << e.message();
    }
  });
  while (calls < 1) std::this_thread::yield();
  for (size_t n = random() % 200; n > 0; --n) std::this_thread::yield();
  engine.shutdown(0);
  caller.join();
}

TEST(SnapshotConcurrency, AnEngineThatIsClosedMeanwhile) {
  const TempFolder folder;
  const std::string path = folder / "snapshot";
  std::mt19937 random(37);
  const KnownRequests known(random, 30);
  for (int round = 0; round < cases(10); ++round) {
    const auto engine = open_engine(400);
    run_all(*engine, known.requests);
    const int64_t tokens = engine->stats().tree_tokens;
    until_closed(*engine, random, [&] { engine->save_snapshot(path, {}); });
    ASSERT_FALSE(fs::exists(path + ".part"));
    const auto next = open_engine(400);
    ASSERT_EQ(next->load_snapshot(path).tokens, tokens) << "the last one that was complete";
    until_closed(*next, random, [&] { next->load_snapshot(path); });
  }
}

// The first snapshot reads all weights, here by threads that the test has.
TEST(SnapshotConcurrency, TheEngineAnswersAndClosesWhileItsWeightsAreRead) {
  const TempFolder folder;
  const auto pool = std::make_shared<Threads>(1);
  Options options = make_options({});
  options.exchange_pool(pool);
  const auto engine = Engine::create(tiny_checkpoint().path(), options, nullptr);
  std::thread save, close;
  {
    const Threads::Turn turn(*pool);
    save = std::thread([&] {
      expect_error(Code::kMisuse, {"is shut down"},
                   [&] { engine->save_snapshot(folder / "snapshot", {}); });
    });
    while (pool->waiting() == 0) std::this_thread::yield();
    EXPECT_EQ(engine->state(), EngineState::kReady);
    close = std::thread([&] { engine->shutdown(0); });
    while (engine->state() == EngineState::kReady) std::this_thread::yield();
    EXPECT_EQ(engine->state(), EngineState::kDraining) << "the weights are in use";
  }
  save.join();
  close.join();
  EXPECT_EQ(engine->state(), EngineState::kClosed);
}

}  // namespace
}  // namespace prefix
