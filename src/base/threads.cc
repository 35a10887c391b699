#include "base/threads.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "base/error_text.h"
#include "base/signals.h"
#include "base/status.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace prefix {
namespace {

// The parts of Threads::round_.
constexpr uint64_t kOpen = uint64_t{1} << 16;
constexpr uint64_t kJoined = kOpen - 1;
constexpr uint64_t kNextRound = kOpen << 1;
uint64_t number_of(uint64_t round) { return round / kNextRound; }

// What a wake-up takes on a virtual machine (median of 2,000 on 2 virtual cores: 45 to 53).
constexpr std::chrono::microseconds kWakeUp(50);

// True when ready() became true within that time.
template <typename Ready>
bool spin_until(const Ready& ready) {
  const Clock::time_point end = Clock::now() + kWakeUp;
  do {
    for (int i = 0; i < 16; ++i) {  // reading the clock takes as long as a pause
      if (ready()) return true;
#if defined(__x86_64__)
      _mm_pause();
#endif
    }
  } while (Clock::now() < end);
  return ready();
}

}  // namespace

Threads::Threads(int count, Processors cpus) : cpus_(std::move(cpus)) {
  try {
    workers_.reserve(static_cast<size_t>(std::max(count, 1)) - 1);
    {
      const SignalsBlocked blocked;
      for (int i = 1; i < count; ++i) workers_.emplace_back([this, i] { work(i); });
    }
    bind_workers();
  } catch (const std::system_error& e) {
    const size_t started = workers_.size();
    stop();  // those that did start
    fail(Code::kOutOfMemory, "cannot start thread ", started + 2, " of ", count, ": ",
         error_text(e.code().value()));
  } catch (...) {
    stop();
    throw;
  }
}

Threads::~Threads() { stop(); }

void Threads::bind_workers() {
  for (std::thread& worker : workers_)
    if (const int error = bind_thread(worker.native_handle(), cpus_); error != 0)
      fail(Code::kUnsupportedDevice, "the system does not bind threads to processors ",
           processors_text(cpus_), ": ", error_text(error));
}

int Threads::bind_caller() const { return bind_thread(pthread_self(), cpus_); }

bool Threads::take_turn() {
  const std::thread::id self = std::this_thread::get_id();
  if (holder_.load(std::memory_order_relaxed) == self) return false;
  std::unique_lock lock(turns_mutex_);
  const uint64_t number = next_number_++;
  turn_ended_.wait(lock, [&] { return serving_ == number; });
  holder_.store(self, std::memory_order_relaxed);
  return true;
}

void Threads::end_turn() {
  {
    std::lock_guard lock(turns_mutex_);
    holder_.store({}, std::memory_order_relaxed);
    ++serving_;
  }
  turn_ended_.notify_all();
}

int64_t Threads::waiting() {
  std::lock_guard lock(turns_mutex_);
  const auto drawn = static_cast<int64_t>(next_number_ - serving_);
  return drawn > 0 ? drawn - 1 : 0;
}

Threads::Turn::Turn(Threads& threads) : threads_(threads), taken_(threads.take_turn()) {}

Threads::Turn::~Turn() {
  if (taken_) threads_.end_turn();
}

void Threads::stop() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
}

void Threads::take_indices(int worker) {
  for (;;) {
    const int64_t index = next_.fetch_add(1, std::memory_order_relaxed);
    if (index >= n_) return;
    try {
      (*task_)(index, worker);
    } catch (...) {
      std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      next_.store(n_, std::memory_order_relaxed);
    }
  }
}

// False when the round that is open is `seen` or there is none.
bool Threads::join(uint64_t& seen) {
  uint64_t round = round_.load(std::memory_order_acquire);
  do {
    if (!(round & kOpen) || number_of(round) == seen) return false;
  } while (!round_.compare_exchange_weak(round, round + 1, std::memory_order_acq_rel));
  seen = number_of(round);
  return true;
}

void Threads::leave() {
  const uint64_t left = round_.fetch_sub(1, std::memory_order_acq_rel) - 1;
  if (left & (kOpen | kJoined)) return;
  std::lock_guard lock(mutex_);  // the caller may be about to sleep
  done_.notify_one();
}

void Threads::work(int worker) {
  uint64_t seen = 0;  // the first round is number 1
  const auto called = [&] {
    const uint64_t round = round_.load(std::memory_order_acquire);
    return stop_ || ((round & kOpen) && number_of(round) != seen);
  };
  for (;;) {
    if (!spin_until(called)) {
      std::unique_lock lock(mutex_);
      ++sleeping_;
      wake_.wait(lock, called);
      --sleeping_;
    }
    if (stop_) return;
    if (!join(seen)) continue;
    take_indices(worker);
    leave();
  }
}

void Threads::run(int64_t n, const std::function<void(int64_t, int)>& task) {
  if (n <= 0) return;
  const Turn turn(*this);
  if (workers_.empty() || n == 1) {
    for (int64_t i = 0; i < n; ++i) task(i, 0);
    return;
  }
  task_ = &task;
  n_ = n;
  error_ = nullptr;
  next_.store(0, std::memory_order_relaxed);
  {
    std::lock_guard lock(mutex_);
    round_.store((number_of(round_) + 1) * kNextRound | kOpen, std::memory_order_release);
    if (sleeping_ > 0) wake_.notify_all();
  }
  take_indices(0);
  round_.fetch_and(~kOpen, std::memory_order_acq_rel);
  const auto finished = [&] { return (round_.load(std::memory_order_acquire) & kJoined) == 0; };
  if (!spin_until(finished)) {
    std::unique_lock lock(mutex_);
    done_.wait(lock, finished);
  }
  task_ = nullptr;
  if (error_) std::rethrow_exception(error_);
}

}  // namespace prefix
