// Roles that run at the same time on a GPU, on the CPU one at a time: threads that pass a baton. At
// each pause a random one goes on.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

namespace prefix::ops::gpu {

class Turns {
 public:
  explicit Turns(uint64_t seed) : random_(seed) {}

  // Runs the roles to their ends, one at a time.
  void run(const std::vector<std::function<void()>>& roles) {
    waiting_.assign(roles.size(), false);
    live_ = roles.size();
    done_.assign(roles.size(), false);
    turn_ = random_() % roles.size();
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < roles.size(); ++i)
      threads.emplace_back([this, &roles, i] { play(i, roles[i]); });
    threads.clear();
    if (error_) std::rethrow_exception(error_);
  }

  // Another role may go on here.
  void pause() { pass(current_); }
  template <class F>
  void wait_until(const F& ready) {
    const size_t me = current_;
    int tries = 0;
    while (!ready()) {
      waiting_[me] = true;
      if (std::all_of(waiting_.begin(), waiting_.end(), [](bool w) { return w; }) && ++tries > 100)
        throw std::logic_error("deadlock: every role waits for another");
      pass(me);
    }
    // Somebody moved on, so others may be able to.
    for (size_t i = 0; i < waiting_.size(); ++i) waiting_[i] = done_[i];
  }
  // Something happened that may end a wait.
  void progress() {
    for (size_t i = 0; i < waiting_.size(); ++i) waiting_[i] = done_[i];
  }

 private:
  struct Stopped {};

  void play(size_t me, const std::function<void()>& role) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return turn_ == me || stop_; });
      current_ = me;
    }
    try {
      if (!stop_) role();
    } catch (const Stopped&) {
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      stop_ = true;
    }
    const std::lock_guard lock(mutex_);
    done_[me] = waiting_[me] = true;
    if (--live_ > 0) turn_ = next(me);
    changed_.notify_all();
  }
  void pass(size_t me) {
    std::unique_lock lock(mutex_);
    turn_ = next(me);
    if (turn_ != me) {
      changed_.notify_all();
      changed_.wait(lock, [&] { return turn_ == me || stop_; });
    }
    current_ = me;
    if (stop_) throw Stopped{};
  }
  size_t next(size_t me) {
    for (;;) {
      const size_t i = random_() % done_.size();
      if (!done_[i]) return i;
      if (live_ == 0) return me;
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::mt19937_64 random_;
  std::vector<bool> waiting_, done_;
  size_t turn_ = 0, current_ = 0, live_ = 0;
  bool stop_ = false;
  std::exception_ptr error_;
};

}  // namespace prefix::ops::gpu
