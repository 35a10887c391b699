// The worker pool of an engine.
//
//   caller ── run(n, task) ──┬─ caller itself
//                            ├─ worker 1        indices 0..n-1 are handed out one by one
//                            └─ worker 2        from a shared counter
//
// The operations of a step follow each other within microseconds, less than it takes to wake a
// sleeping thread: workers look for the next call for some 20 microseconds, then sleep on a
// condition variable, so that an idle engine uses no CPU. Which thread takes which index is not
// fixed, so a task must not let its result depend on it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace prefix {

class Threads {
 public:
  // `count` threads in all, the caller of run() included; at least 1. Throws kOutOfMemory when the
  // system does not give as many.
  explicit Threads(int count);
  ~Threads();
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  int count() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls task(index, worker) for every index in [0, n), worker in [0, count()), and returns when
  // all are done. One caller at a time. The first exception of a task is rethrown here.
  void run(int64_t n, const std::function<void(int64_t index, int worker)>& task);

 private:
  void stop();
  void work(int worker);
  void take_indices(int worker);

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  // Written by run() before round_ moves on and read by workers after they saw it move.
  const std::function<void(int64_t, int)>* task_ = nullptr;
  int64_t n_ = 0;
  std::atomic<int64_t> next_{0};
  std::atomic<uint64_t> round_{0};
  std::atomic<int> busy_{0};
  std::atomic<bool> stop_{false};
  int sleeping_ = 0;  // workers in wake_.wait
  std::exception_ptr error_;
};

}  // namespace prefix
