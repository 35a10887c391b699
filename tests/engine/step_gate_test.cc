// Calls and steps that take turns.
#include "engine/step_gate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace prefix {
namespace {

// A thread that makes steps for as long as the object lives.
class GateSteps {
 public:
  GateSteps() : thread_([this] { run(); }) {}
  ~GateSteps() {
    stop_ = true;
    thread_.join();
  }

  // A call, and how many steps had been made before it.
  int64_t call() {
    std::unique_lock lock(mutex_);
    const StepGate::Call call(gate_, lock, [] { return false; });
    EXPECT_FALSE(gate_.stepping());
    return steps_;
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!stop_) {
      gate_.end_step(lock);
      gate_.begin_step();
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
      ++steps_;
    }
  }

  std::mutex mutex_;
  StepGate gate_;
  int64_t steps_ = 0;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

TEST(StepGate, CallsInARowLeaveEachStepItsTurn) {
  GateSteps steps;
  std::vector<int64_t> at;
  for (int i = 0; i < 1000; ++i) at.push_back(steps.call());
  EXPECT_EQ(std::ranges::adjacent_find(at, std::ranges::greater_equal{}), at.end());
}

TEST(StepGate, NoStepIsMadeBeforeAllHaveGoneThatWaited) {
  constexpr int kThreads = 4;
  GateSteps steps;
  std::vector<std::vector<int64_t>> at(kThreads);
  std::vector<std::thread> threads;
  for (std::vector<int64_t>& own : at)
    threads.emplace_back([&steps, &own] {
      for (int i = 0; i < 300; ++i) own.push_back(steps.call());
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<int64_t>& own : at)
    EXPECT_EQ(std::ranges::adjacent_find(own, std::ranges::greater_equal{}), own.end());
}

TEST(StepGate, WithoutStepsCallsGoAsTheyCome) {
  std::mutex mutex;
  StepGate gate;
  bool open = true, looked = false;
  const auto call = [&] {
    std::unique_lock lock(mutex);
    const StepGate::Call made(gate, lock, [&] {
      looked = true;
      return open;
    });
  };
  call();
  call();
  open = looked = false;
  std::thread waits(call);
  for (bool waiting = false; !waiting; std::this_thread::yield()) {
    std::unique_lock lock(mutex);
    waiting = looked;
  }
  {
    std::unique_lock lock(mutex);
    open = true;
    gate.look_again();
  }
  waits.join();
  std::unique_lock lock(mutex);
  gate.end_step(lock);
}

// One that waits already goes when they begin to rest, and those that come meanwhile do.
TEST(StepGate, WhileStepsRestCallsGoAsTheyCome) {
  std::mutex mutex;
  StepGate gate;
  bool looked = false;
  int made = 0;
  const auto call = [&] {
    std::unique_lock lock(mutex);
    const StepGate::Call own(gate, lock, [&] {
      looked = true;
      return false;
    });
    ++made;
  };
  std::thread waits(call);
  for (bool waiting = false; !waiting; std::this_thread::yield()) {
    std::unique_lock lock(mutex);
    waiting = looked;
  }
  {
    std::unique_lock lock(mutex);
    EXPECT_EQ(made, 0);
    gate.rest();
  }
  waits.join();
  call();
  EXPECT_EQ(made, 2);
  looked = false;
  {
    std::unique_lock lock(mutex);
    gate.end_step(lock);
  }
  std::thread behind(call);
  for (bool waiting = false; !waiting; std::this_thread::yield()) {
    std::unique_lock lock(mutex);
    waiting = looked || made == 3;
  }
  {
    std::unique_lock lock(mutex);
    EXPECT_EQ(made, 2);
    gate.end_step(lock);
  }
  behind.join();
  EXPECT_EQ(made, 3);
}

}  // namespace
}  // namespace prefix
