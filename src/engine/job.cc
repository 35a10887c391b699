#include "engine/job.h"

namespace prefix {
namespace {

// Tokens of a job that nobody reads are dropped beyond this many events; the end of every request
// and all errors are always kept, and results hold all tokens anyway.
constexpr size_t kMaxEvents = 1 << 20;

int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

}  // namespace

Job::Job(std::vector<RequestSpec> requests)
    : specs_(std::move(requests)),
      results_(specs_.size()),
      cancelled_(specs_.size()),
      finished_(specs_.size(), 0),
      submitted_(std::chrono::steady_clock::now()) {}

bool Job::wait(int64_t timeout_ms) {
  std::unique_lock lock(mutex_);
  const auto complete = [this] { return finished_count_ == static_cast<int64_t>(specs_.size()); };
  if (timeout_ms < 0) {
    changed_.wait(lock, complete);
    return true;
  }
  return changed_.wait_for(lock, waiting_time(timeout_ms), complete);
}

bool Job::done() { return finished_count() == static_cast<int64_t>(specs_.size()); }

bool Job::finished(size_t i) {
  std::lock_guard lock(mutex_);
  return finished_[i] != 0;
}

int64_t Job::finished_count() {
  std::lock_guard lock(mutex_);
  return finished_count_;
}

void Job::cancel() { cancel_all_ = true; }

void Job::cancel(size_t i) { cancelled_[i] = true; }

std::optional<Event> Job::next_event(int64_t timeout_ms) {
  std::unique_lock lock(mutex_);
  const auto ready = [this] {
    return !events_.empty() || finished_count_ == static_cast<int64_t>(specs_.size());
  };
  if (timeout_ms < 0) {
    changed_.wait(lock, ready);
  } else {
    changed_.wait_for(lock, waiting_time(timeout_ms), ready);
  }
  if (events_.empty()) return std::nullopt;
  const Event event = events_.front();
  events_.pop_front();
  return event;
}

JobTotals Job::totals() {
  std::lock_guard lock(mutex_);
  return totals_;
}

void Job::post(Event event) {
  event.time_ns = now_ns();
  {
    std::lock_guard lock(mutex_);
    if (events_.size() >= kMaxEvents) return;
    events_.push_back(event);
  }
  changed_.notify_all();
}

void Job::finish(size_t i, Event last) {
  last.time_ns = now_ns();
  {
    std::lock_guard lock(mutex_);
    events_.push_back(last);
    finished_[i] = 1;
    ++finished_count_;
  }
  changed_.notify_all();
}

void Job::set_totals(const JobTotals& totals) {
  std::lock_guard lock(mutex_);
  totals_ = totals;
}

}  // namespace prefix
