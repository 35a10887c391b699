// The worker pool: every index once, turns in the order in which they were asked for, workers where
// they were bound.
#include "base/threads.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/cases.h"

namespace prefix {
namespace {

using testing_support::cases;

TEST(Threads, EveryIndexOnceWithAWorkerOfItsOwn) {
  for (const int count : {1, 2, 5}) {
    Threads threads(count);
    EXPECT_EQ(threads.count(), count);
    std::vector<std::atomic<int>> done(1000);
    std::vector<std::atomic<int>> inside(static_cast<size_t>(count));
    threads.run(1000, [&](int64_t index, int worker) {
      EXPECT_EQ(inside[static_cast<size_t>(worker)]++, 0);
      ++done[static_cast<size_t>(index)];
      --inside[static_cast<size_t>(worker)];
    });
    for (const auto& times : done) EXPECT_EQ(times, 1);
  }
}

TEST(Threads, AFailureOfATaskIsTheCallersAndEndsItsTurn) {
  Threads threads(3);
  EXPECT_THROW(threads.run(100, [](int64_t, int) { throw std::runtime_error("no"); }),
               std::runtime_error);
  std::atomic<int> done{0};
  std::thread([&] { threads.run(100, [&](int64_t, int) { ++done; }); }).join();
  EXPECT_EQ(done, 100);
}

// The caller has its index, and nothing is left to hand out, when the worker is still busy.
TEST(Threads, ACallEndsWhenItsLastWorkerDoes) {
  Threads threads(2);
  for (int round = 0; round < cases(50); ++round) {
    std::atomic<int> begun{0};
    std::atomic<bool> caller_ended{false}, worker_ended{false};
    threads.run(2, [&](int64_t, int worker) {
      ++begun;
      while (begun < 2) std::this_thread::yield();  // so that each thread has one index
      if (worker == 0) {
        caller_ended = true;
        return;
      }
      while (!caller_ended) std::this_thread::yield();
      for (int i = 0; i < 100; ++i) std::this_thread::yield();
      worker_ended = true;
    });
    EXPECT_TRUE(worker_ended);
  }
}

// Calls so short that workers come when theirs has ended, or go to sleep between two.
TEST(Threads, ShortCallsOneAfterTheOther) {
  Threads threads(5);
  for (int round = 0; round < cases(20000); ++round) {
    const int64_t n = 2 + round % 5;
    std::atomic<int64_t> sum{0};
    threads.run(n, [&](int64_t index, int) { sum += index + 1; });
    ASSERT_EQ(sum, n * (n + 1) / 2);
    if (round % 100 == 0) std::this_thread::yield();
  }
}

// Numbers are drawn by one caller after the other, each when the one before it waits.
TEST(Threads, TurnsAreInTheOrderInWhichTheyWereAskedFor) {
  Threads threads(2);
  for (int round = 0; round < cases(50); ++round) {
    std::vector<int> order;  // guarded by the turns
    std::vector<std::thread> callers;
    {
      const Threads::Turn turn(threads);
      for (int i = 0; i < 4; ++i) {
        callers.emplace_back([&, i] {
          const Threads::Turn mine(threads);
          order.push_back(i);
        });
        while (threads.waiting() <= i) std::this_thread::yield();
      }
      EXPECT_TRUE(order.empty());
    }
    for (std::thread& caller : callers) caller.join();
    EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3}));
    EXPECT_EQ(threads.waiting(), 0);
  }
}

TEST(Threads, ATurnLastsForManyCalls) {
  for (const int count : {1, 3}) {
    Threads threads(count);
    std::atomic<bool> other{false};
    std::thread caller;
    {
      const Threads::Turn turn(threads);
      const Threads::Turn inner(threads);  // the same turn
      caller = std::thread([&] { threads.run(2, [&](int64_t, int) { other = true; }); });
      while (threads.waiting() == 0) std::this_thread::yield();
      int64_t sum = 0;
      for (int i = 0; i < 100; ++i) {
        std::atomic<int64_t> part{0};
        threads.run(10, [&](int64_t index, int) { part += index; });
        sum += part;
      }
      EXPECT_EQ(sum, 4500);
      EXPECT_FALSE(other);
      EXPECT_EQ(threads.waiting(), 1);
    }
    caller.join();
    EXPECT_TRUE(other);
  }
}

TEST(Threads, ManyCallersAtOnce) {
  Threads threads(3);
  std::atomic<int> callers_inside{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 5; ++c)
    callers.emplace_back([&] {
      for (int round = 0; round < cases(200); ++round) {
        const Threads::Turn turn(threads);
        EXPECT_EQ(callers_inside++, 0);
        std::atomic<int64_t> sum{0};
        threads.run(50, [&](int64_t index, int) { sum += index; });
        threads.run(1, [&](int64_t, int worker) { EXPECT_EQ(worker, 0); });
        EXPECT_EQ(sum, 1225);
        --callers_inside;
      }
    });
  for (std::thread& caller : callers) caller.join();
}

TEST(Threads, WorkersTakeNoSignalsOfTheProcess) {
  const auto blocked = [](int signal) {
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    return sigismember(&mask, signal) == 1;
  };
  Threads threads(2);
  std::atomic<int> arrived{0};
  threads.run(2, [&](int64_t, int worker) {
    ++arrived;
    while (arrived < 2) std::this_thread::yield();  // so that each thread has one index
    for (const int of_the_process : {SIGTERM, SIGINT, SIGCHLD, SIGALRM, SIGUSR1})
      EXPECT_EQ(blocked(of_the_process), worker > 0) << of_the_process;
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGPROF}) EXPECT_FALSE(blocked(own)) << own;
  });
}

TEST(Threads, WorkersStayOnTheirProcessorsAndCallersWhereTheyWere) {
  const Processors before = allowed_processors();
  Threads threads(3, {before.back()});
  EXPECT_EQ(threads.cpus(), Processors{before.back()});
  std::mutex mutex;
  std::set<Processors> of_workers;
  std::atomic<int> arrived{0};
  threads.run(3, [&](int64_t, int worker) {
    ++arrived;
    while (arrived < 3) std::this_thread::yield();  // so that each thread has one index
    std::lock_guard lock(mutex);
    if (worker > 0) of_workers.insert(allowed_processors());
  });
  EXPECT_EQ(of_workers, std::set<Processors>{{before.back()}});
  EXPECT_EQ(allowed_processors(), before);
  std::thread([&] {
    EXPECT_EQ(threads.bind_caller(), 0);
    EXPECT_EQ(allowed_processors(), Processors{before.back()});
  }).join();
}

}  // namespace
}  // namespace prefix
