// A worker pool, of one engine or of several.
//
//   caller ── run(n, task) ──┬─ caller itself
//                            ├─ worker 1        indices 0..n-1 are handed out one by one
//                            └─ worker 2        from a shared counter
//
// Several callers take turns, in the order in which they came: a Turn lasts a call of run(), or as
// long as a caller keeps one for many calls, as a step of the CPU does.
//
//   engine A   Turn ├ run run run ┤            waits ├ run run ┤
//   engine B        waits         ├ run run ┤  ...
//
// The operations of a step follow each other within microseconds, less than it takes to wake a
// sleeping thread: workers look for the next call for as long as a wake-up takes, then sleep on a
// condition variable, so that an idle engine uses no CPU. A thread that waits no longer than that
// before it sleeps loses at most twice what the better of the two would have cost.
//
// A call ends without those that sleep: it waits for the workers that joined its round, and a round
// is open to them until its indices are handed out.
//
//   caller   open ├ take take take ┤ close   waits for joined == 0
//   worker 1           join ├ take take ┤ leave
//   worker 2   wakes up ...................... finds it closed and looks for the next one
//
// Which thread takes which index is not fixed, so a task must not let its result depend on it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/processors.h"

namespace prefix {

class Threads {
 public:
  // `count` threads in all, the caller of run() included; at least 1. The workers run on `cpus`, or
  // wherever the system puts them when there are none. Throws kOutOfMemory when the system does not
  // give as many, kUnsupportedDevice when it does not bind them.
  explicit Threads(int count, Processors cpus = {});
  ~Threads();
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  int count() const { return static_cast<int>(workers_.size()) + 1; }
  const Processors& cpus() const { return cpus_; }
  // Binds the calling thread as the workers are; for threads of the library alone, never for one of
  // the host. Returns an errno.
  int bind_caller() const;
  // Callers that wait for their turn, now.
  int64_t waiting();

  // The sole use of the workers, by the thread that makes it and until it is destroyed there. While
  // another thread has it the constructor waits; a thread that has it already takes no second one.
  // A thread that has a turn must not wait for anything but its own tasks.
  class Turn {
   public:
    explicit Turn(Threads& threads);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    Threads& threads_;
    const bool taken_;  // by this one, not by one around it
  };

  // Calls task(index, worker) for every index in [0, n), worker in [0, count()), and returns when
  // all are done. Any thread but a task: it waits for its turn, unless it has it. The first
  // exception of a task is rethrown here.
  void run(int64_t n, const std::function<void(int64_t index, int worker)>& task);

 private:
  bool take_turn();
  void end_turn();
  void bind_workers();
  void stop();
  void work(int worker);
  void take_indices(int worker);
  bool join(uint64_t& seen);
  void leave();

  const Processors cpus_;
  std::vector<std::thread> workers_;

  // Turns: number serving_ has it, or may take it; those that drew serving_ + 1 to next_number_ - 1
  // wait.
  std::mutex turns_mutex_;
  std::condition_variable turn_ended_;
  uint64_t next_number_ = 0;
  uint64_t serving_ = 0;
  std::atomic<std::thread::id> holder_{};  // of the turn

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  // Written by run() before it opens a round, and read by workers that joined it.
  const std::function<void(int64_t, int)>* task_ = nullptr;
  int64_t n_ = 0;
  std::atomic<int64_t> next_{0};
  // Of one round of run(), in one number so that no worker joins a round that was closed:
  //
  //   | number of the round: 47 bits | open: 1 | workers that joined and did not leave: 16 |
  std::atomic<uint64_t> round_{0};
  std::atomic<bool> stop_{false};
  int sleeping_ = 0;  // workers in wake_.wait
  std::exception_ptr error_;
};

}  // namespace prefix
