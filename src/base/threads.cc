#include "base/threads.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/status.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace prefix {
namespace {

constexpr int kSpins = 400;  // some 20 microseconds

// True when ready() became true while spinning.
template <typename Ready>
bool spin_until(const Ready& ready) {
  for (int i = 0; i < kSpins; ++i) {
    if (ready()) return true;
#if defined(__x86_64__)
    _mm_pause();
#endif
  }
  return ready();
}

}  // namespace

Threads::Threads(int count, Processors cpus) : cpus_(std::move(cpus)) {
  try {
    workers_.reserve(static_cast<size_t>(std::max(count, 1)) - 1);
    for (int i = 1; i < count; ++i) workers_.emplace_back([this, i] { work(i); });
    bind_workers();
  } catch (const std::system_error& e) {
    const size_t started = workers_.size();
    stop();  // those that did start
    fail(Code::kOutOfMemory, "cannot start thread ", started + 2, " of ", count, ": ", e.what());
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
           processors_text(cpus_), ": ", std::generic_category().message(error));
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

void Threads::work(int worker) {
  uint64_t seen = 0;
  const auto called = [&] { return stop_ || round_.load(std::memory_order_acquire) != seen; };
  for (;;) {
    if (!spin_until(called)) {
      std::unique_lock lock(mutex_);
      ++sleeping_;
      wake_.wait(lock, called);
      --sleeping_;
    }
    if (stop_) return;
    seen = round_.load(std::memory_order_acquire);
    take_indices(worker);
    if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      std::lock_guard lock(mutex_);  // the caller may be about to sleep
      done_.notify_one();
    }
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
  busy_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
  {
    std::lock_guard lock(mutex_);
    round_.fetch_add(1, std::memory_order_release);
    if (sleeping_ > 0) wake_.notify_all();
  }
  take_indices(0);
  const auto finished = [&] { return busy_.load(std::memory_order_acquire) == 0; };
  if (!spin_until(finished)) {
    std::unique_lock lock(mutex_);
    done_.wait(lock, finished);
  }
  task_ = nullptr;
  if (error_) std::rethrow_exception(error_);
}

}  // namespace prefix
