// Worker threads that engines share, the processors that they are bound to, and how long they live.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <thread>

#include "abi_support.h"
#include "support/child_process.h"
#include "support/on_processors.h"

namespace prefix_abi {
namespace {

using prefix::testing_support::OnProcessors;
using prefix::testing_support::processors;
using Ids = std::set<std::string>;  // of threads of this process

Ids threads_now() {
  Ids ids;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task"))
    ids.insert(entry.path().filename());
  return ids;
}

// Those that came since: a thread that was joined may be listed for a moment more.
Ids started_since(const Ids& before) {
  Ids ids = threads_now();
  for (const std::string& id : before) ids.erase(id);
  return ids;
}

void expect_ended(const Ids& ids) {
  const auto lives = [](const std::string& id) {
    return std::filesystem::exists("/proc/self/task/" + id);
  };
  while (std::any_of(ids.begin(), ids.end(), lives)) std::this_thread::yield();
}

// "0-3,8", as the system writes it.
std::string processors_of(const std::string& id) {
  std::ifstream in("/proc/self/task/" + id + "/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("Cpus_allowed_list:")) return line.substr(line.find('\t') + 1);
  return "none";
}

Options with_pool(prefix_pool* pool, Settings settings = {{"cache_bytes", "16M"}}) {
  Options options = make_options(settings);
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_options_set_pool(options, pool, e); });
  return options;
}

Engine create(const prefix_options* options) {
  Engine engine;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_engine_create(model_path().c_str(), PREFIX_NUL, options, engine.out(), e);
  });
  return engine;
}

void expect_refused(prefix_status wanted, const prefix_options* options,
                    std::initializer_list<std::string_view> parts) {
  const Ids before = threads_now();
  Engine engine;
  expect(
      wanted,
      [&](prefix_error* e) {
        return prefix_engine_create(model_path().c_str(), PREFIX_NUL, options, engine.out(), e);
      },
      parts);
  EXPECT_EQ(engine, nullptr);
  expect_ended(started_since(before));
}

int threads_of(const prefix_engine* engine) {
  prefix_engine_info info = PREFIX_ENGINE_INFO_INIT;
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_engine_get_info(engine, &info, e); });
  return info.threads;
}

void expect_told(const prefix_engine* engine, std::initializer_list<std::string_view> parts) {
  const std::string json = text([&](char* buf, size_t cap, size_t* needed, prefix_error* e) {
    return prefix_engine_info_json(engine, buf, cap, needed, e);
  });
  for (const std::string_view part : parts)
    EXPECT_NE(json.find(part), std::string::npos) << part << " is not in " << json;
}

std::string quoted(const std::string& text) { return "\"" + text + "\""; }

TEST(Pool, TheValuesInForceAreTold) {
  const std::string cpu = std::to_string(processors().back());
  const Pool pool = make_pool({{"threads", "3"}, {"cpus", cpu.c_str()}});
  const Engine engine = create(with_pool(pool));
  EXPECT_EQ(threads_of(engine), 3);
  expect_told(engine,
              {"\"pool\":true", "\"threads\":3", "\"threads\":\"3\"", "\"cpus\":" + quoted(cpu)});
  const Engine alone = make_engine();
  EXPECT_EQ(threads_of(alone), 2);
  expect_told(alone, {"\"pool\":false", "\"threads\":2", "\"cpus\":\"\""});
}

TEST(Pool, WithoutThreadsThereIsOneForEachProcessor) {
  EXPECT_EQ(threads_of(create(with_pool(make_pool({})))),
            threads_of(make_engine({{"threads", "0"}})));
  const std::string cpu = std::to_string(processors().back());
  for (const std::string& list : {cpu, cpu + "," + cpu, cpu + "-" + cpu}) {
    const Engine engine = make_engine({{"threads", "0"}, {"cpus", list.c_str()}});
    EXPECT_EQ(threads_of(engine), 1) << list;
    expect_told(engine, {"\"pool\":false", "\"cpus\":" + quoted(cpu)});
  }
}

// As under taskset -c 0: the scheduler computes, and there is no worker beside it.
TEST(Pool, OnOneProcessorThereIsOneThread) {
  std::thread([] {
    const OnProcessors one(1);
    const std::string cpu = std::to_string(processors().front());
    for (const bool shared : {false, true}) {
      const Ids before = threads_now();
      const Engine engine =
          shared ? create(with_pool(make_pool({}))) : make_engine({{"threads", "0"}});
      EXPECT_EQ(threads_of(engine), 1);
      const Ids started = started_since(before);
      EXPECT_EQ(started.size(), 1u);
      for (const std::string& id : started) EXPECT_EQ(processors_of(id), cpu);
      expect_works(engine);
    }
  }).join();
}

TEST(Pool, WorkersAndSchedulersAreBoundAndNothingOfTheHost) {
  const std::string cpu = std::to_string(processors().back());
  std::atomic<bool> over{false};
  std::thread host([&] {
    while (!over) std::this_thread::yield();
  });
  const Ids before = threads_now();
  std::set<std::pair<std::string, std::string>> of_host;
  for (const std::string& id : before) of_host.emplace(id, processors_of(id));
  {
    const Pool pool = make_pool({{"threads", "3"}, {"cpus", cpu.c_str()}});
    const Engine engine = create(with_pool(pool));
    const Engine own = make_engine({{"threads", "2"}, {"cpus", cpu.c_str()}});
    for (const prefix_engine* e :
         {static_cast<prefix_engine*>(engine), static_cast<prefix_engine*>(own)})
      expect_works(const_cast<prefix_engine*>(e));
    const Ids started = started_since(before);
    EXPECT_EQ(started.size(), 2u + 1u + 2u);
    for (const std::string& id : started) EXPECT_EQ(processors_of(id), cpu);
    for (const auto& [id, list] : of_host)
      if (std::filesystem::exists("/proc/self/task/" + id)) {
        EXPECT_EQ(processors_of(id), list);
      }
  }
  over = true;
  host.join();
}

// A pool of three is two workers and the scheduler whose turn it is.
TEST(Pool, TwoEnginesHaveOneSetOfWorkersAndTheBitsOfOneAlone) {
  std::vector<std::vector<float>> expected;
  {
    const Engine alone = make_engine({{"threads", "1"}});
    for (int i = 0; i < 8; ++i) {
      const Job job = run(alone, mixed_batch(alone, i));
      for (size_t r = 0; r < 2; ++r) expected.push_back(values_of(job, r));
    }
  }
  const Ids before = threads_now();
  const Pool pool = make_pool({{"threads", "3"}});
  EXPECT_EQ(started_since(before).size(), 2u);
  const Options options = with_pool(pool);
  const Engine engines[] = {create(options), create(options)};
  EXPECT_EQ(started_since(before).size(), 2u + 2u);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 6; ++t)
    threads.emplace_back([&, t] {
      prefix_engine* const engine = engines[t % 2];
      for (int round = 0; round < (quick() ? 5 : 40); ++round) {
        const int i = (t + round) % 8;
        const Job job = run(engine, mixed_batch(engine, i));
        for (size_t r = 0; r < 2; ++r)
          wrong += values_of(job, r) != expected[static_cast<size_t>(i) * 2 + r];
        if (round % 5 == 4) prefix_cache_trim(engine, 0, nullptr, nullptr);
        // A third engine is loaded and goes while the others compute.
        if (t == 0 && round % 20 == 3) expect_works(create(options));
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Pool, ListsOfProcessorsThatAreNone) {
  for (const char* list : {"x", "0-", "-1", "0,,1", "3-1", " 0", "0 1"})
    expect(PREFIX_ERR_INVALID_ARGUMENT,
           [&](prefix_error* e) {
             return prefix_options_set(make_options({}), "cpus", PREFIX_NUL, list, PREFIX_NUL, e);
           },
           {"cpus", list});
  expect(PREFIX_ERR_OUT_OF_RANGE,
         [&](prefix_error* e) {
           return prefix_options_set(make_options({}), "cpus", PREFIX_NUL, "65536", PREFIX_NUL, e);
         },
         {"65536", "65535"});
}

// The first thread stands for the process.
TEST(Pool, AProcessorThatMayNotBeUsedIsNamedWithThoseThatMay) {
  const OnProcessors one(1);
  const int cpu = processors().front();
  const std::string other = std::to_string(cpu + 1);
  const Options options = make_options({{"cpus", other.c_str()}});
  expect_refused(PREFIX_ERR_OUT_OF_RANGE, options,
                 {"option cpus", quoted(other), "only " + std::to_string(cpu)});
  Pool pool;
  expect(PREFIX_ERR_OUT_OF_RANGE,
         [&](prefix_error* e) { return prefix_pool_create(options, pool.out(), e); },
         {"option cpus", quoted(other), "only " + std::to_string(cpu)});
  EXPECT_EQ(pool, nullptr);
}

TEST(Pool, ThreadsAreOfThePoolOrOfTheOptions) {
  const Pool pool = make_pool();
  for (const auto& [key, value] : {std::pair("threads", "2"), std::pair("threads", "0"),
                                   std::pair("cpus", ""), std::pair("cpus", "0")}) {
    const Options options = with_pool(pool, {{key, value}});
    expect_refused(PREFIX_ERR_INVALID_ARGUMENT, options, {key, quoted(value), "pool"});
    if (*value == '2') {
      expect(PREFIX_OK,
             [&](prefix_error* e) { return prefix_options_set_pool(options, nullptr, e); });
      expect_told(create(options), {"\"pool\":false"});
    }
  }
}

TEST(Pool, WhatHasNoEffectIsRefused) {
  const Pool pool = make_pool();
  const Options options = with_pool(pool, {});
  const Batch batch = make_batch(nullptr);
  const Tokens prompt = {1, 2};
  expect(PREFIX_ERR_INVALID_ARGUMENT,
         [&](prefix_error* e) {
           return prefix_batch_add_warm(batch, prompt.data(), 2, options, 0, nullptr, e);
         },
         {"pool"});
  Pool other;
  expect(PREFIX_ERR_INVALID_ARGUMENT,
         [&](prefix_error* e) { return prefix_pool_create(options, other.out(), e); }, {"pool"});
  for (const char* key : {"dtype", "max_tokens"}) {
    const Options wrong = make_options({{"threads", "1"}});
    expect(PREFIX_OK, [&](prefix_error* e) {
      return prefix_options_set(wrong, key, PREFIX_NUL, *key == 'd' ? "f32" : "3", PREFIX_NUL, e);
    });
    expect(PREFIX_ERR_INVALID_ARGUMENT,
           [&](prefix_error* e) { return prefix_pool_create(wrong, other.out(), e); },
           {key, "threads and cpus"});
  }
  EXPECT_EQ(other, nullptr);
}

TEST(Pool, ABadPoolChangesNothing) {
  const Options options = with_pool(make_pool());
  prefix_options* const another = make_options({});
  for (prefix_pool* bad :
       {reinterpret_cast<prefix_pool*>(another), reinterpret_cast<prefix_pool*>(64)})
    expect(PREFIX_ERR_MISUSE,
           [&](prefix_error* e) { return prefix_options_set_pool(options, bad, e); }, {"pool"});
  expect_told(create(options), {"\"pool\":true"});
}

// Options and engines keep a pool, in whatever order they go; its threads end with the last.
TEST(Pool, LivesAsLongAsSomethingHoldsIt) {
  std::mt19937 random(11);
  for (int round = 0; round < (quick() ? 5 : 30); ++round) {
    const Ids before = threads_now();
    Pool pool = make_pool({{"threads", "2"}});
    const Ids workers = started_since(before);
    ASSERT_EQ(workers.size(), 1u);
    ASSERT_EQ(prefix_pool_retain(pool, nullptr), PREFIX_OK);
    Options options = with_pool(pool);
    Engine first = create(options), second = create(options);
    const Ids all = started_since(before);
    std::vector<int> order = {0, 0, 1, 2, 3};
    std::shuffle(order.begin(), order.end(), random);
    size_t gone = 0;
    for (const int kind : order) {
      if (kind == 0) prefix_pool_release(pool);
      if (kind == 1) prefix_options_release(options.give_up());
      if (kind == 2) prefix_engine_release(first.give_up());
      if (kind == 3 && round % 2) prefix_engine_release(second.give_up());
      if (kind == 3 && round % 2 == 0)
        expect(PREFIX_OK, [&](prefix_error* e) { return prefix_engine_shutdown(second, 0, e); });
      if (first) expect_works(first);
      if (++gone == order.size()) break;
      for (const std::string& id : workers)
        EXPECT_TRUE(std::filesystem::exists("/proc/self/task/" + id)) << "the pool ended early";
    }
    pool.give_up();
    expect_ended(all);
  }
}

TEST(Pool, AForkedChildCanNeitherUseNorMakeOne) {
  const Pool pool = make_pool();
  const Options options = with_pool(pool);
  const Engine engine = create(options);
  const int wrong = prefix::testing_support::in_child([&] {
    Error error;
    prefix_pool* other = nullptr;
    if (prefix_pool_create(nullptr, &other, &error) != PREFIX_ERR_FORKED || other) return 1;
    if (threads_now().size() != 1) return 2;
    if (prefix_pool_retain(pool, &error) != PREFIX_ERR_FORKED) return 3;
    if (prefix_options_set_pool(options, nullptr, &error) != PREFIX_ERR_FORKED) return 4;
    prefix_pool_release(pool);  // harmless
    return 0;
  });
  EXPECT_EQ(wrong, 0);
  expect_works(engine);
}

}  // namespace
}  // namespace prefix_abi
