// How long things live: releases in any order, from many threads, and not at all in a forked child.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <set>
#include <thread>

#include "abi_support.h"
#include "every_function.h"

namespace prefix_abi {
namespace {

// Parents may go before their children; what is left works on.
TEST(Lifetime, ReleasesInAnyOrder) {
  std::mt19937 random(7);
  for (int round = 0; round < (quick() ? 10 : 60); ++round) {
    Engine engine = make_engine();
    Options options = make_options({{"max_tokens", "4"}, {"ignore_eos", "true"}});
    Batch batch = make_batch(engine);
    add_logits(batch, {1, 2, 3});
    add_generate(batch, {1, 2, 4}, options);
    Job done = run(engine, batch);
    Job running = submit(engine, batch);
    struct Child {
      int kind;
      void* handle;
    };
    std::vector<Child> all = {{0, options.give_up()},
                              {1, batch.give_up()},
                              {2, engine.give_up()},
                              {3, done.give_up()},
                              {4, running.give_up()}};
    std::shuffle(all.begin(), all.end(), random);
    bool engine_gone = false, batch_gone = false;
    for (const Child& child : all) {
      switch (child.kind) {
        case 0:
          prefix_options_release(static_cast<prefix_options*>(child.handle));
          break;
        case 1:
          prefix_batch_release(static_cast<prefix_batch*>(child.handle));
          batch_gone = true;
          break;
        case 2:
          prefix_engine_release(static_cast<prefix_engine*>(child.handle));
          engine_gone = true;
          break;
        default: {
          auto* const job = static_cast<prefix_job*>(child.handle);
          expect(PREFIX_OK, [&](prefix_error* e) { return prefix_job_wait(job, -1, e); });
          for (size_t i = 0; i < 2; ++i)
            EXPECT_EQ(info_of(job, i).status, PREFIX_OK)
                << message_of(job, i) << (engine_gone ? ", without the engine" : "")
                << (batch_gone ? ", without the batch" : "");
          prefix_job_release(job);
        }
      }
    }
  }
}

// The last handle on an engine may be a job or a batch.
TEST(Lifetime, ChildrenKeepTheirEngine) {
  Engine engine = make_engine();
  const Batch batch = make_batch(engine);
  add_logits(batch, {1, 2});
  const Job job = submit(engine, batch);
  prefix_engine* const released = engine.give_up();
  prefix_engine_release(released);
  Job none;
  expect(PREFIX_ERR_MISUSE,
         [&](prefix_error* e) { return prefix_run(released, batch, none.out(), e); });
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_job_wait(job, -1, e); });
  EXPECT_EQ(values_of(job, 0).size(), 3u);
  size_t count = 0;
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_batch_count(batch, &count, e); });
  EXPECT_EQ(count, 1u);
}

// Eight threads, each with its own batches and jobs on one engine: the bits are those of one
// thread.
TEST(Lifetime, EightThreadsOnOneEngine) {
  const Engine engine = make_engine();
  std::vector<std::vector<float>> expected;
  for (int i = 0; i < 8; ++i) {
    const Job job = run(engine, mixed_batch(engine, i));
    expected.push_back(values_of(job, 0));
    expected.push_back(values_of(job, 1));
  }
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int round = 0; round < (quick() ? 5 : 40); ++round) {
        const int i = (t + round) % 8;
        const Batch batch = mixed_batch(engine, i);
        Job job = round % 2 ? run(engine, batch) : submit(engine, batch);
        if (round % 3 == 0) {  // through events; otherwise by waiting
          prefix_event event = PREFIX_EVENT_INIT;
          while (prefix_job_next_event(job, -1, &event, nullptr) == PREFIX_OK) {
          }
        }
        expect(PREFIX_OK, [&](prefix_error* e) { return prefix_job_wait(job, -1, e); });
        wrong += values_of(job, 0) != expected[static_cast<size_t>(i) * 2];
        wrong += values_of(job, 1) != expected[static_cast<size_t>(i) * 2 + 1];
        if (round % 5 == 4) {
          int64_t freed = 0;
          expect(PREFIX_OK,
                 [&](prefix_error* e) { return prefix_cache_trim(engine, 0, &freed, e); });
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// One job is waited for, polled, cancelled, retained and released by eight threads at once.
TEST(Lifetime, EightThreadsOnOneJob) {
  const Engine engine = make_engine();
  const Options options = make_options({{"max_tokens", "2000"}, {"ignore_eos", "true"}});
  for (int round = 0; round < (quick() ? 3 : 20); ++round) {
    const Batch batch = make_batch(engine);
    for (int i = 0; i < 4; ++i) add_generate(batch, {round, i}, options);
    Job job = submit(engine, batch);
    std::atomic<int> ends{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
      ASSERT_EQ(prefix_job_retain(job, nullptr), PREFIX_OK);
      threads.emplace_back([&, t, handle = static_cast<prefix_job*>(job)] {
        prefix_event event = PREFIX_EVENT_INIT;
        prefix_result_info info{};
        info.struct_size = sizeof(info);
        if (t == 0) prefix_job_cancel_request(handle, 1, nullptr);
        if (t == 1) prefix_job_cancel(handle, nullptr);
        if (t % 2 == 0) {
          while (prefix_job_next_event(handle, -1, &event, nullptr) == PREFIX_OK)
            ends += event.kind == PREFIX_EVENT_ERROR || event.kind == PREFIX_EVENT_FINISHED;
        }
        EXPECT_EQ(prefix_job_wait(handle, -1, nullptr), PREFIX_OK);
        for (size_t i = 0; i < 4; ++i)
          EXPECT_EQ(prefix_job_result_info(handle, i, &info, nullptr), PREFIX_OK);
        prefix_job_release(handle);
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(ends, 4) << "each event goes to one reader";
  }
}

// Handles made and released by many threads while others use ones that are gone.
TEST(Lifetime, HandlesOfManyThreads) {
  prefix_options* const gone = make_options({}).give_up();
  prefix_options_release(gone);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < (quick() ? 200 : 2000); ++i) {
        const Options options = make_options({});
        const std::string number = std::to_string(1 + (t * 1000 + i) % 60000);
        wrong += prefix_options_set(options, "rows", 4, number.data(), number.size(), nullptr) !=
                 PREFIX_OK;
        char text[8];
        wrong += prefix_options_get(options, "rows", 4, text, sizeof(text), nullptr, nullptr) !=
                 PREFIX_OK;
        wrong += number != text;
        wrong += prefix_options_set(gone, "rows", 4, "1", 1, nullptr) != PREFIX_ERR_MISUSE;
        prefix_options_release(gone);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// Shut down by one thread while others go on submitting: each call is answered, with OK or MISUSE.
TEST(Lifetime, ShutdownUnderLoad) {
  for (int round = 0; round < (quick() ? 2 : 10); ++round) {
    const Engine engine = make_engine();
    std::atomic<int> wrong{0}, closed{0}, started{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (int i = 0;; ++i) {
          const Batch batch = make_batch(engine);
          add_logits(batch, {t, i % 131, 3});
          Job job;
          const prefix_status status = prefix_run(engine, batch, job.out(), nullptr);
          ++started;
          if (status == PREFIX_ERR_MISUSE) break;
          if (status != PREFIX_OK) ++wrong;
          if (status != PREFIX_OK) break;
          const prefix_status result = info_of(job, 0).status;
          wrong += result != PREFIX_OK && result != PREFIX_ERR_CANCELLED;
        }
        ++closed;
      });
    while (started < 20) std::this_thread::yield();
    expect(PREFIX_OK, [&](prefix_error* e) { return prefix_engine_shutdown(engine, 0, e); });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(closed, 4);
  }
}

// What the child of a fork() sees: the exit code is the number of the first function that is wrong.
int in_a_child(const std::function<int()>& body) {
  const pid_t pid = fork();
  if (pid == 0) _exit(body());
  int status = -1;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status)) << "the child ended by signal " << WTERMSIG(status);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// The signals that a thread of this process takes, as /proc tells.
uint64_t blocked_signals(const std::filesystem::path& task) {
  std::ifstream in(task / "status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("SigBlk:")) return std::stoull(line.substr(7), nullptr, 16);
  return ~uint64_t{0};  // it has ended
}

// A host that waits for a signal in a thread of its own must be the one that gets it.
TEST(Lifetime, SignalsOfTheProcessAreTheHosts) {
  constexpr uint64_t kTerm = uint64_t{1} << (SIGTERM - 1);
  const std::filesystem::path tasks = "/proc/self/task";
  std::set<std::filesystem::path> before;
  for (const auto& task : std::filesystem::directory_iterator(tasks)) before.insert(task.path());
  const prefix::testing_support::TempFolder folder;
  const Engine engine = make_engine({{"cache_disk", folder.path().c_str()}});
  expect_works(engine);
  int of_the_library = 0;
  for (const auto& task : std::filesystem::directory_iterator(tasks)) {
    if (before.count(task.path()) > 0) continue;
    ++of_the_library;
    EXPECT_TRUE(blocked_signals(task.path()) & kTerm) << task.path();
  }
  EXPECT_GE(of_the_library, 3) << "a worker, the scheduler, those of the folder";

  // And the one that loads.
  std::atomic<bool> takes_it{true};
  const Source source = make_source();
  const prefix_read_at read = [](void* user, int64_t, void*, size_t) -> int32_t {
    const auto task = "/proc/self/task/" + std::to_string(gettid());
    *static_cast<std::atomic<bool>*>(user) = !(blocked_signals(task) & kTerm);
    return 1;
  };
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_source_add_reader(source, "a.gguf", PREFIX_NUL, 4096, read, &takes_it, e);
  });
  Engine loading;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_engine_open_source(source, nullptr, loading.out(), e);
  });
  expect(PREFIX_ERR_IO,
         [&](prefix_error* e) { return prefix_engine_wait(loading, -1, nullptr, e); });
  EXPECT_FALSE(takes_it);
}

TEST(Lifetime, AForkedChildIsToldSo) {
  const Options options = make_options({});
  const Engine engine = make_engine();
  const Batch batch = make_batch(engine);
  add_logits(batch, {1, 2});
  const Job job = run(engine, batch);
  const Queue queue = make_queue();
  const Sim sim = make_sim();
  const Source source = make_source();
  const Pool pool = make_pool();
  const Constraint constraint = make_constraint(kAnyToken);
  const Handles live = {options, engine, batch, job, queue, sim, source, pool, constraint};
  const int wrong = in_a_child([&] {
    int number = 0;
    for (const Function& f : every_function()) {
      ++number;
      if (!f.takes_handle) continue;
      const prefix_status status = f.call(live, Arguments{});
      // An argument that is wrong by itself may be told first.
      if (f.fallible && status != PREFIX_ERR_FORKED && status != PREFIX_ERR_INVALID_ARGUMENT &&
          status != PREFIX_ERR_OUT_OF_RANGE)
        return number;
    }
    return 0;
  });
  ASSERT_LE(static_cast<size_t>(wrong), every_function().size());
  EXPECT_EQ(wrong, 0) << every_function()[static_cast<size_t>(std::max(wrong, 1)) - 1].name;
  expect_works(engine);
}

TEST(Lifetime, AForkedChildGetsTheSentence) {
  const Engine engine = make_engine();
  const Batch batch = make_batch(engine);
  add_logits(batch, {1, 2});
  const int wrong = in_a_child([&] {
    Error error;
    prefix_job* job = nullptr;
    if (prefix_run(engine, batch, &job, &error) != PREFIX_ERR_FORKED || job) return 1;
    if (error.code != PREFIX_ERR_FORKED || !std::strstr(error.message, "fork")) return 2;
    if (prefix_engine_state(engine) != PREFIX_ENGINE_CLOSED) return 3;
    prefix_engine_release(engine);  // harmless
    prefix_batch_release(batch);
    // What needs no handle still works.
    if (prefix_abi_version() != PREFIX_ABI_VERSION || prefix_option_count() == 0) return 4;
    // A new handle could not be used either: making one says so at once.
    prefix_options* options = nullptr;
    if (prefix_options_create(&options, &error) != PREFIX_ERR_FORKED || options) return 5;
    prefix_batch* other = nullptr;
    if (prefix_batch_create(nullptr, &other, &error) != PREFIX_ERR_FORKED || other) return 6;
    prefix_engine* second = nullptr;
    if (prefix_engine_create(model_path().c_str(), PREFIX_NUL, nullptr, &second, &error) !=
            PREFIX_ERR_FORKED ||
        second)
      return 7;
    return 0;
  });
  EXPECT_EQ(wrong, 0);
  expect_works(engine);
}

TEST(Lifetime, AReleasedHandleCountsAfterAForkToo) {
  prefix_options* before = nullptr;
  ASSERT_EQ(prefix_options_create(&before, nullptr), PREFIX_OK);
  prefix_options_release(before);
  const int wrong = in_a_child([] {
    prefix_options* options = nullptr;
    return prefix_options_create(&options, nullptr) != PREFIX_ERR_FORKED || options ? 1 : 0;
  });
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace prefix_abi
