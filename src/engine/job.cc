#include "engine/job.h"

#include <new>
#include <utility>

namespace prefix {
namespace {

// Of a job whose events are not read; the end of every request is kept beyond it, and results hold
// all tokens anyway.
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
  return wait_until_ready(changed_, lock, timeout_ms, [this] { return complete(); });
}

bool Job::done() {
  std::lock_guard lock(mutex_);
  return complete();
}

void Job::notify(std::shared_ptr<CompletionQueue> queue, int64_t tag) {
  queue->promise();
  std::lock_guard lock(mutex_);
  if (complete()) return queue->put(tag);
  try {
    notices_.emplace_back(queue, tag);
  } catch (...) {
    queue->take_back();
    throw;
  }
}

void Job::notify_events(std::shared_ptr<CompletionQueue> queue, int64_t tag) {
  queue->promise();
  std::lock_guard lock(mutex_);
  event_notice_.set(std::move(queue), tag);
  tell_reader();
}

bool Job::finished(size_t i) {
  std::lock_guard lock(mutex_);
  return finished_[i] != End::kNone;
}

int64_t Job::finished_count() {
  std::lock_guard lock(mutex_);
  return finished_count_;
}

void Job::cancel() {
  cancel_all_ = true;
  tell_cancel();
}

void Job::cancel(size_t i) {
  cancelled_[i] = true;
  tell_cancel();
}

// After the mark: who is told finds it.
void Job::tell_cancel() {
  std::lock_guard lock(mutex_);
  if (cancels_) {
    cancels_->tell();
  } else {
    cancelled_before_ = true;
  }
}

void Job::tell_cancels(std::shared_ptr<Cancels::Place> cancels) {
  std::lock_guard lock(mutex_);
  cancels_ = std::move(cancels);
  if (cancelled_before_) cancels_->tell();
}

std::optional<Event> Job::next_event(int64_t timeout_ms, bool* over) {
  std::unique_lock lock(mutex_);
  wait_until_ready(changed_, lock, timeout_ms, [this] { return readable(); });
  if (events_.empty() && untold_ > 0) {
    if (lost_ > 0) return event_of(lost_event(std::exchange(lost_, 0)));
    const auto untold = std::find(finished_.begin(), finished_.end(), End::kUntold);
    *untold = End::kTold;
    --untold_;
    return event_of(last_event(static_cast<size_t>(untold - finished_.begin())));
  }
  if (events_.empty()) {
    if (complete()) {
      event_notice_.end();
    } else {
      event_notice_.rearm();
    }
    if (over) *over = complete();
    return std::nullopt;
  }
  const Kept kept = events_.front();
  events_.pop_front();
  return event_of(kept);
}

Event Job::event_of(const Kept& kept) const {
  Event event{.kind = kept.kind, .time_ns = kept.time_ns};
  if (kept.kind == Event::kLost) {
    event.request = -1;
    event.count = kept.lost;
    return event;
  }
  event.request = kept.request;
  event.user_tag = specs_[kept.request].user_tag;
  if (kept.kind == Event::kToken) {
    event.token = kept.sampled.token;
    event.logprob = kept.sampled.logprob;
  } else if (kept.kind != Event::kStarted) {
    const RequestResult& result = results_[kept.request];
    event.status = result.status;
    event.cached = result.usage.cached;
    event.computed = result.usage.computed;
  }
  return event;
}

JobTotals Job::totals() {
  std::lock_guard lock(mutex_);
  return totals_;
}

void Job::reserve_top(size_t i, size_t places) {
  const size_t n = places * static_cast<size_t>(specs_[i].top_logprobs);
  std::lock_guard lock(mutex_);
  results_[i].top_tokens.reserve(n);
  results_[i].top_logprobs.reserve(n);
}

void Job::add_top(size_t i, std::span<const ops::Candidate> top) noexcept {
  std::lock_guard lock(mutex_);
  RequestResult& result = results_[i];
  for (const ops::Candidate& c : top) {
    result.top_tokens.push_back(c.id);
    result.top_logprobs.push_back(c.logit);
  }
}

void Job::post(size_t i, Event::Kind kind, int32_t token, float logprob) noexcept {
  const Kept kept{.time_ns = ns_of(now_().time_since_epoch()),
                  .kind = kind,
                  .request = static_cast<uint32_t>(i),
                  .sampled = {token, logprob}};
  {
    std::lock_guard lock(mutex_);
    try {
      if (kind != Event::kToken || events_.size() < kMaxEvents) {
        tell_lost();
        events_.push_back(kept);
      } else {
        ++lost_;
      }
    } catch (const std::bad_alloc&) {
      lost_ += kind == Event::kToken;
    }
    tell_reader();
  }
  changed_.notify_all();
}

Job::Kept Job::lost_event(int64_t lost) const {
  return {.time_ns = ns_of(now_().time_since_epoch()),
          .kind = Event::kLost,
          .request = 0,
          .lost = lost};
}

void Job::tell_lost() {
  if (lost_ == 0) return;
  events_.push_back(lost_event(lost_));
  lost_ = 0;
}

Job::Kept Job::last_event(size_t i) const {
  return {.time_ns = ns_of(now_().time_since_epoch()),
          .kind = results_[i].status == Code::kOk ? Event::kFinished : Event::kError,
          .request = static_cast<uint32_t>(i),
          .sampled = {}};
}

void Job::finish(size_t i) noexcept {
  {
    std::lock_guard lock(mutex_);
    finished_[i] = End::kTold;
    try {
      tell_lost();
      events_.push_back(last_event(i));
    } catch (const std::bad_alloc&) {
      finished_[i] = End::kUntold;
      ++untold_;
    }
    ++finished_count_;
    tell_reader();
    if (complete()) {
      for (const auto& [queue, tag] : notices_) queue->put(tag);
      notices_.clear();
    }
  }
  changed_.notify_all();
}

void Job::set_totals(const JobTotals& totals) {
  std::lock_guard lock(mutex_);
  totals_ = totals;
}

}  // namespace prefix
