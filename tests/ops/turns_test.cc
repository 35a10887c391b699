// Two devices on one pool: a step of the CPU keeps the workers until it ends.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "ops/op.h"
#include "ops/step.h"

namespace prefix::ops {
namespace {

TEST(Turns, AStepOfTheCpuIsOneTurn) {
  const auto pool = std::make_shared<Threads>(2);
  const auto first = make_cpu_device({kBf16Types, "auto", pool});
  const auto second = make_cpu_device({kBf16Types, "auto", pool});
  std::atomic<bool> computed{false};
  std::thread other;
  {
    const std::unique_ptr<Step> step = first->begin_step({});
    other = std::thread([&] {
      const std::unique_ptr<Step> next = second->begin_step({});
      second->parallel(4, [&](int64_t) { computed = true; });
    });
    while (pool->waiting() == 0) std::this_thread::yield();
    first->parallel(4, [](int64_t) {});
    EXPECT_FALSE(computed);
  }
  other.join();
  EXPECT_TRUE(computed);
}

}  // namespace
}  // namespace prefix::ops
