#include "engine/job.h"

#include <new>
#include <utility>

namespace prefix {
namespace {

// Tokens of a job that is not read are dropped beyond this many events; the end of every request
// and all errors are always kept, and results hold all tokens anyway.
constexpr size_t kMaxEvents = 1 << 20;

}  // namespace

Job::Job(std::vector<RequestSpec> requests, Now now)
    : specs_(std::move(requests)),
      results_(specs_.size()),
      cancelled_(specs_.size()),
      finished_(specs_.size(), End::kNone),
      now_(std::move(now)),
      submitted_(now_()) {}

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
  return finished_[i] != End::kNone;
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
    return !events_.empty() || untold_ > 0 ||
           finished_count_ == static_cast<int64_t>(specs_.size());
  };
  if (timeout_ms < 0) {
    changed_.wait(lock, ready);
  } else {
    changed_.wait_for(lock, waiting_time(timeout_ms), ready);
  }
  if (events_.empty() && untold_ > 0) {
    const auto untold = std::find(finished_.begin(), finished_.end(), End::kUntold);
    *untold = End::kTold;
    --untold_;
    return last_event(static_cast<size_t>(untold - finished_.begin()));
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

void Job::post(Event event) noexcept {
  event.time_ns = ns_of(now_().time_since_epoch());
  {
    std::lock_guard lock(mutex_);
    if (events_.size() >= kMaxEvents) return;
    try {
      events_.push_back(event);
    } catch (const std::bad_alloc&) {
      return;
    }
  }
  changed_.notify_all();
}

Event Job::last_event(size_t i) const {
  const RequestResult& result = results_[i];
  Event event{.kind = result.status == Code::kOk ? Event::kFinished : Event::kError};
  event.request = static_cast<int64_t>(i);
  event.user_tag = specs_[i].user_tag;
  event.status = result.status;
  event.cached = result.usage.cached;
  event.computed = result.usage.computed;
  event.time_ns = ns_of(now_().time_since_epoch());
  return event;
}

void Job::finish(size_t i) noexcept {
  {
    std::lock_guard lock(mutex_);
    finished_[i] = End::kTold;
    try {
      events_.push_back(last_event(i));
    } catch (const std::bad_alloc&) {
      finished_[i] = End::kUntold;
      ++untold_;
    }
    ++finished_count_;
  }
  changed_.notify_all();
}

void Job::set_totals(const JobTotals& totals) {
  std::lock_guard lock(mutex_);
  totals_ = totals;
}

}  // namespace prefix
