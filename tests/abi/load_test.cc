// Loading: progress, giving up, and that a load that fails leaves the caller's handle alone.
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <thread>

#include "abi_support.h"
#include "every_function.h"
#include "held_load.h"

namespace prefix_abi {
namespace {

prefix_status open(const std::string& path, prefix_engine** out, prefix_error* error) {
  const Options options = make_options({{"cache_bytes", "1M"}, {"threads", "1"}});
  return prefix_engine_open(path.c_str(), PREFIX_NUL, options, out, error);
}

Engine opened(const std::string& path) {
  Engine engine;
  expect(PREFIX_OK, [&](prefix_error* e) { return open(path, engine.out(), e); });
  return engine;
}

void expect_wait(prefix_status wanted, prefix_engine* engine, int64_t timeout_ms,
                 std::initializer_list<std::string_view> parts = {}) {
  expect(
      wanted, [&](prefix_error* e) { return prefix_engine_wait(engine, timeout_ms, nullptr, e); },
      parts);
}

int64_t next_tag(prefix_queue* queue) {
  int64_t tag = -1;
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_queue_next(queue, -1, &tag, e); });
  return tag;
}

TEST(Load, ProgressGrowsToOne) {
  const Engine engine = opened(model_path());
  double before = 0;
  for (;;) {
    double fraction = -1;
    Error error;
    const prefix_status status = prefix_engine_wait(engine, 1, &fraction, &error);
    EXPECT_GE(fraction, before);
    EXPECT_LE(fraction, 1);
    before = fraction;
    if (status == PREFIX_OK) break;
    ASSERT_EQ(status, PREFIX_ERR_TIMEOUT) << error.message;
  }
  EXPECT_EQ(before, 1.0);
  EXPECT_EQ(prefix_engine_state(engine), PREFIX_ENGINE_READY);
  expect_wait(PREFIX_OK, engine, 0);
  expect_works(engine);
}

TEST(Load, WhatNeedsNoFileIsToldAtOnce) {
  Engine none;
  const auto refused = [&](prefix_status wanted, const char* path, Settings settings) {
    const Options options = make_options(settings);
    expect(wanted, [&](prefix_error* e) {
      return prefix_engine_open(path, PREFIX_NUL, options, none.out(), e);
    });
    EXPECT_EQ(none, nullptr);
  };
  refused(PREFIX_ERR_INVALID_ARGUMENT, "", {});
  refused(PREFIX_ERR_INVALID_UTF8, "\xff", {});
  refused(PREFIX_ERR_INVALID_ARGUMENT, "/nowhere", {{"max_tokens", "3"}});
  refused(PREFIX_ERR_INVALID_ARGUMENT, "/nowhere", {{"cache_disk", "/tmp"}, {"sharing", "false"}});
  refused(PREFIX_ERR_OUT_OF_RANGE, "/nowhere", {{"cache_event_tokens", "33"}});
}

TEST(Load, AFailureIsToldWheneverItIsAsked) {
  const Engine engine = opened("/nowhere");
  for (int i = 0; i < 3; ++i) expect_wait(PREFIX_ERR_NOT_FOUND, engine, -1, {"\"/nowhere\""});
  EXPECT_EQ(prefix_engine_state(engine), PREFIX_ENGINE_FAILED);
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_engine_shutdown(engine, 0, e); });
  EXPECT_EQ(prefix_engine_state(engine), PREFIX_ENGINE_CLOSED);
  expect_wait(PREFIX_ERR_NOT_FOUND, engine, 0, {"\"/nowhere\""});
}

// What every function of an engine answers that is not ready. Those that do not look at the engine,
// or at an argument first, are the exceptions.
void expect_everywhere(prefix_engine* engine, prefix_status wanted, std::string_view sentence) {
  const Options options = make_options({});
  const Batch batch = make_batch(engine);
  add_logits(batch, {1, 2});
  const Queue queue = make_queue();
  const Sim sim = make_sim();
  const Handles handles = {options, engine, batch, nullptr, queue, sim, nullptr};
  const std::set<std::string> own = {"prefix_engine_wait", "prefix_engine_notify",
                                     "prefix_engine_retain", "prefix_engine_shutdown",
                                     "prefix_engine_open_source"};
  const prefix_token tokens[] = {1, 2};
  const int64_t offsets[] = {0, 1, 2};
  int asked = 0;
  for (const Function& f : every_function()) {
    const std::string name = f.name;
    const bool of_engine =
        name.starts_with("prefix_engine_") || name.starts_with("prefix_cache_") ||
        name.starts_with("prefix_namespace_") || name.starts_with("prefix_snapshot_") ||
        name == "prefix_metrics_text" || name == "prefix_run" || name == "prefix_submit";
    if (!of_engine || !f.fallible || !f.takes_handle || own.count(name)) continue;
    SCOPED_TRACE(name);
    Error error;
    Arguments a;
    prefix_job* job = nullptr;
    int32_t number = 0;
    int64_t more = 0;
    prefix_cache_event event = PREFIX_CACHE_EVENT_INIT;
    a.text = "{}";
    a.tokens = tokens;
    a.n_tokens = 2;
    a.offsets = offsets;
    a.n_offsets = 3;
    a.number = 0;
    a.number_out = &number;
    a.long_out = &more;
    a.cache_event = &event;
    a.job = &job;
    a.err = &error;
    EXPECT_EQ(f.call(handles, a), wanted);
    EXPECT_NE(std::string_view(error.message).find(sentence), std::string_view::npos)
        << error.message;
    EXPECT_EQ(job, nullptr);
    ++asked;
  }
  EXPECT_GT(asked, 20);
}

TEST(Load, EveryFunctionSaysThatTheEngineIsLoading) {
  HeldLoad held;
  EXPECT_EQ(prefix_engine_state(held.engine), PREFIX_ENGINE_LOADING);
  expect_everywhere(held.engine, PREFIX_ERR_MISUSE, "still loading");
  double fraction = -1;
  expect(PREFIX_ERR_TIMEOUT,
         [&](prefix_error* e) { return prefix_engine_wait(held.engine, 0, &fraction, e); },
         {"still loading"});
  EXPECT_GE(fraction, 0);
  const Batch early = make_batch(held.engine);
  add_logits(early, {1, 2});
  held.finish();
  expect_wait(PREFIX_OK, held.engine, 0);
  EXPECT_EQ(values_of(run(held.engine, early), 0).size(), 3u);
}

TEST(Load, EveryFunctionSaysThatTheLoadFailed) {
  const Engine engine = opened("/nowhere");
  expect_wait(PREFIX_ERR_NOT_FOUND, engine, -1);
  expect_everywhere(engine, PREFIX_ERR_ENGINE_FAILED, "no model at \"/nowhere\"");
}

TEST(Load, EachNotifyBringsATag) {
  const Queue queue = make_queue();
  const auto notify = [&](prefix_engine* engine, int64_t tag) {
    expect(PREFIX_OK, [&](prefix_error* e) { return prefix_engine_notify(engine, queue, tag, e); });
  };
  HeldLoad held;
  notify(held.engine, 1);
  notify(held.engine, 2);
  int64_t tag = -1;
  expect(PREFIX_ERR_TIMEOUT, [&](prefix_error* e) { return prefix_queue_next(queue, 0, &tag, e); });
  held.finish();
  EXPECT_EQ(next_tag(queue), 1);
  EXPECT_EQ(next_tag(queue), 2);
  notify(held.engine, 3);
  EXPECT_EQ(next_tag(queue), 3);
  const Engine failed = opened("/nowhere");
  notify(failed, 4);
  EXPECT_EQ(next_tag(queue), 4);
  expect_wait(PREFIX_ERR_NOT_FOUND, failed, 0);
}

TEST(Load, AShutdownEndsIt) {
  HeldLoad held;
  for (int i = 0; i < 2; ++i)
    expect(PREFIX_OK, [&](prefix_error* e) { return prefix_engine_shutdown(held.engine, 0, e); });
  EXPECT_EQ(prefix_engine_state(held.engine), PREFIX_ENGINE_DRAINING);
  expect_everywhere(held.engine, PREFIX_ERR_MISUSE, "shut down");
  expect_wait(PREFIX_ERR_TIMEOUT, held.engine, 0);
  held.finish();
  for (int i = 0; i < 2; ++i) expect_wait(PREFIX_ERR_CANCELLED, held.engine, 0, {"shut down"});
  EXPECT_EQ(prefix_engine_state(held.engine), PREFIX_ENGINE_CLOSED);
  expect_everywhere(held.engine, PREFIX_ERR_MISUSE, "shut down");
}

TEST(Load, AShutdownWaitsForItsEnd) {
  HeldLoad held;
  std::thread other([&] {
    expect(PREFIX_OK,
           [&](prefix_error* e) { return prefix_engine_shutdown(held.engine, INT64_MAX, e); });
    EXPECT_EQ(prefix_engine_state(held.engine), PREFIX_ENGINE_CLOSED);
  });
  while (prefix_engine_state(held.engine) != PREFIX_ENGINE_DRAINING) std::this_thread::yield();
  held.finish();
  other.join();
}

TEST(Load, AReleaseDoesNotWaitForIt) {
  HeldLoad held;
  prefix_engine* const engine = held.engine;
  held.engine = Engine();
  expect_wait(PREFIX_ERR_MISUSE, engine, 0);
  held.finish();
}

// A batch keeps its engine alive, and so does the load of that go on.
TEST(Load, ABatchKeepsItGoing) {
  HeldLoad held;
  const Queue queue = make_queue();
  expect(PREFIX_OK,
         [&](prefix_error* e) { return prefix_engine_notify(held.engine, queue, 5, e); });
  const Batch batch = make_batch(held.engine);
  held.engine = Engine();
  held.finish();
  EXPECT_EQ(next_tag(queue), 5);
}

TEST(Load, AfterAShutdownAReadyEngineSaysSo) {
  const Engine engine = opened(model_path());
  expect_wait(PREFIX_OK, engine, -1);
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_engine_shutdown(engine, 0, e); });
  expect_wait(PREFIX_ERR_MISUSE, engine, -1, {"shut down"});
}

TEST(Load, ManyAtOnce) {
  std::vector<Engine> engines;
  for (int i = 0; i < 8; ++i) engines.push_back(opened(i % 4 == 3 ? "/nowhere" : model_path()));
  engines.erase(engines.begin());  // one is given up
  std::vector<std::thread> threads;
  for (const Engine& engine : engines)
    threads.emplace_back([&] {
      const bool there = &engine != &engines[2] && &engine != &engines[6];
      expect_wait(there ? PREFIX_OK : PREFIX_ERR_NOT_FOUND, engine, -1);
      if (there) expect_works(engine);
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(Load, AForkedChildIsToldSo) {
  HeldLoad held;
  const pid_t child = fork();
  if (child == 0) {
    double fraction = -1;
    const bool told =
        prefix_engine_wait(held.engine, -1, &fraction, nullptr) == PREFIX_ERR_FORKED &&
        prefix_engine_shutdown(held.engine, INT64_MAX, nullptr) == PREFIX_ERR_FORKED &&
        fraction == -1;
    prefix_engine_release(held.engine);  // harmless
    _exit(told ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  held.finish();
  expect_works(held.engine);
}

// In a process of its own, whose end comes in the middle of a load.
TEST(LoadDeathTest, AProcessMayEndMeanwhile) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const bool given_up : {false, true})
    EXPECT_EXIT(
        {
          Engine engine = opened(model_path());
          if (given_up) engine = Engine();
          std::exit(static_cast<int>(engine.give_up() == nullptr) + 3);
        },
        testing::ExitedWithCode(given_up ? 4 : 3), "");
}

// A call that fails changes nothing, also not the handle that was there before.
TEST(Load, FailureLeavesTheHandleAlone) {
  Engine engine = make_engine();
  prefix_engine* slot = engine;
  expect(PREFIX_ERR_NOT_FOUND, [&](prefix_error* e) {
    return prefix_engine_create("/nowhere", PREFIX_NUL, nullptr, &slot, e);
  });
  EXPECT_EQ(slot, engine);
  expect(PREFIX_ERR_INVALID_ARGUMENT,
         [&](prefix_error* e) { return prefix_engine_open("", PREFIX_NUL, nullptr, &slot, e); });
  EXPECT_EQ(slot, engine);
}

// The path need not end with a zero, and one file serves several engines.
TEST(Load, ManyEnginesOfOneFile) {
  const std::string path = model_path() + "???";
  std::vector<Engine> engines;
  const Options options = make_options({{"cache_bytes", "1M"}, {"threads", "1"}});
  for (int i = 0; i < 8; ++i) {
    Engine engine;
    expect(PREFIX_OK, [&](prefix_error* e) {
      return prefix_engine_create(path.data(), path.size() - 3, options, engine.out(), e);
    });
    engines.push_back(std::move(engine));
  }
  for (const Engine& engine : engines) expect_works(engine);
}

TEST(Load, TheEstimateIsWhatTheEngineTakes) {
  const Options options = make_options({{"cache_bytes", "8M"}});
  prefix_memory memory{};
  memory.struct_size = sizeof(memory);
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_engine_estimate(model_path().c_str(), PREFIX_NUL, options, &memory, e);
  });
  Engine engine;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_engine_create(model_path().c_str(), PREFIX_NUL, options, engine.out(), e);
  });
  expect_works(engine);
  prefix_engine_stats stats{};
  stats.struct_size = sizeof(stats);
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_engine_get_stats(engine, &stats, e); });
  EXPECT_LE(stats.kv_budget_bytes, memory.kv_budget_bytes);
  EXPECT_GE(stats.kv_budget_bytes, memory.kv_budget_bytes * 9 / 10);
  EXPECT_NEAR(static_cast<double>(stats.weight_bytes) / static_cast<double>(memory.weight_bytes), 1,
              0.1);
  EXPECT_GT(stats.load_us, 0);
}

}  // namespace
}  // namespace prefix_abi
