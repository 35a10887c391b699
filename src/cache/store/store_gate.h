// Keeps a server that does not answer from costing time.
//
//             failure                    the first call after the pause
//   open ───────────────> closed ───────────────────────────────────────> probing
//    ^                      ^  each time for twice as long: 1, 2, 4 ... 32     │
//    │                      └──────────────────── fails ───────────────────────┤
//    └──────────────────────────────────────────── answers ────────────────────┘
//
// While it is closed or probing every page is a miss at once; the pages of the call that begins the
// probe too, so only the thread that makes a probe waits for it. An age counts the failures:
// a connection of an earlier age is not used again, and what fails on it is no news.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <utility>

#include "base/clock.h"

namespace prefix {

class StoreGate {
 public:
  using Clock = prefix::Clock;
  enum class Answer { kOpen, kClosed, kProbe };

  explicit StoreGate(std::chrono::nanoseconds pause, Now now = Clock::now)
      : pause_(pause), now_(std::move(now)) {}

  // After kProbe either answered() or failed() must follow.
  Answer ask() {
    const std::lock_guard lock(mutex_);
    if (state_ == State::kOpen) return Answer::kOpen;
    if (state_ == State::kProbing || now_() < again_) return Answer::kClosed;
    state_ = State::kProbing;
    return Answer::kProbe;
  }
  uint64_t age() const {
    const std::lock_guard lock(mutex_);
    return age_;
  }
  // The probe was answered.
  void answered() {
    const std::lock_guard lock(mutex_);
    state_ = State::kOpen;
  }
  // A trip did what it should; true when that was not so before.
  bool works(uint64_t age) {
    const std::lock_guard lock(mutex_);
    return age == age_ && std::exchange(failures_, 0) > 0;
  }
  // True for the first failure of an age, the one to speak of.
  bool failed(uint64_t age) {
    const std::lock_guard lock(mutex_);
    if (age != age_) return false;
    ++age_;
    state_ = State::kClosed;
    again_ = now_() + pause_ * (1 << std::min(failures_, 5));
    ++failures_;
    return true;
  }

 private:
  enum class State { kOpen, kClosed, kProbing };

  const std::chrono::nanoseconds pause_;
  const Now now_;
  mutable std::mutex mutex_;  // of all below
  State state_ = State::kOpen;
  int failures_ = 0;  // in a row
  Clock::time_point again_;
  uint64_t age_ = 0;
};

}  // namespace prefix
