// Roles that run at the same time on a GPU, on the CPU one at a time: threads that pass a baton. At
// each pause a random one of those that can go on does.
#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <random>
#include <semaphore>
#include <stdexcept>
#include <thread>
#include <vector>

namespace prefix::ops::gpu {

class Turns {
 public:
  explicit Turns(uint64_t seed) : random_(seed) {}

  // Runs the roles to their ends, one at a time.
  void run(const std::vector<std::function<void()>>& roles) {
    roles_.clear();
    for (size_t i = 0; i < roles.size(); ++i) roles_.emplace_back();
    stop_ = false;
    error_ = nullptr;
    {
      std::vector<std::jthread> threads;
      for (size_t i = 0; i < roles.size(); ++i)
        threads.emplace_back([this, &roles, i] { play(i, roles[i]); });
      roles_[random_() % roles.size()].turn.release();
    }
    if (error_) std::rethrow_exception(error_);
  }

  // Another role may go on here. Not at every call: it takes microseconds.
  void pause() {
    if (random_() % 4 == 0) pass();
  }
  template <class F>
  void wait_until(const F& ready) {
    if (ready()) return;
    roles_[current_].ready = ready;
    pass();
    roles_[current_].ready = nullptr;
  }

 private:
  struct Stopped {};
  struct Role {
    std::binary_semaphore turn{0};
    std::function<bool()> ready;  // empty: it can go on
    bool done = false;
  };

  void play(size_t me, const std::function<void()>& role) {
    roles_[me].turn.acquire();
    current_ = me;
    if (stop_) return;
    try {
      role();
      roles_[me].done = true;
      if (const size_t next = choose(); next < roles_.size()) roles_[next].turn.release();
    } catch (const Stopped&) {
    } catch (...) {
      stop(std::current_exception());
    }
  }
  void pass() {
    const size_t me = current_;
    const size_t next = choose();
    if (next == me) return;
    roles_[next].turn.release();
    roles_[me].turn.acquire();
    current_ = me;
    if (stop_) throw Stopped{};
  }
  // Who has the turn stops everybody.
  void stop(std::exception_ptr error) {
    error_ = std::move(error);
    stop_ = true;
    for (Role& role : roles_) {
      role.done = true;
      role.turn.release();
    }
  }
  // A role that can go on; their number when all are done.
  size_t choose() {
    const size_t count = roles_.size(), start = random_() % count;
    bool left = false;
    for (size_t k = 0; k < count; ++k) {
      const size_t i = (start + k) % count;
      if (roles_[i].done) continue;
      if (!roles_[i].ready || roles_[i].ready()) return i;
      left = true;
    }
    if (left) throw std::logic_error("deadlock: every role waits for another");
    return count;
  }

  std::mt19937_64 random_;
  std::deque<Role> roles_;
  size_t current_ = 0;
  bool stop_ = false;  // written by who has the turn, before it gives it away
  std::exception_ptr error_;
};

}  // namespace prefix::ops::gpu
