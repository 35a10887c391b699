// A clock that stands still until the test moves it.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>

#include "base/clock.h"

namespace prefix::testing_support {

class ManualClock {
 public:
  // For what is under test; may be asked from any thread, and outlive this object.
  Now now() const {
    return [time = time_] { return Clock::time_point(Clock::duration(time->load())); };
  }
  void advance(std::chrono::nanoseconds by) { *time_ += Clock::duration(by).count(); }

 private:
  // Any time but the beginning, which could be mistaken for none.
  std::shared_ptr<std::atomic<Clock::rep>> time_ =
      std::make_shared<std::atomic<Clock::rep>>(Clock::duration(std::chrono::hours(1)).count());
};

}  // namespace prefix::testing_support
