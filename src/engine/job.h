// A submitted batch: what its requests have reached so far, seen from any thread.
//
// The engine's scheduler thread is the only writer; callers wait, poll events, cancel and read
// results. A result is immutable once its request is finished.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "engine/cancels.h"
#include "engine/completion_queue.h"
#include "engine/event_notice.h"
#include "engine/request.h"
#include "ops/logits.h"

namespace prefix {

struct Event {
  enum Kind : int32_t {
    kStarted = 0,
    kToken = 1,
    kLost = 2,  // `count` kToken that were not read in time
    kFinished = 3,
    kError = 4
  };
  Kind kind = kStarted;
  int64_t request = 0;
  int64_t user_tag = 0;
  int32_t token = -1;
  float logprob = 0;
  Code status = Code::kOk;
  int64_t cached = 0;
  int64_t computed = 0;
  int64_t count = 0;
  int64_t time_ns = 0;  // monotonic
};

// What one run of the whole batch did; complete when the job is done.
struct JobTotals {
  int64_t requests = 0, failed = 0;
  int64_t tokens_given = 0, tokens_computed = 0, tokens_cached = 0, tokens_shared = 0;
  int64_t tokens_generated = 0;
  int64_t steps = 0, rows = 0;
  int64_t total_us = 0;
};

class Job {
 public:
  explicit Job(std::vector<RequestSpec> requests, Now now = Clock::now);

  size_t count() const { return specs_.size(); }
  const RequestSpec& spec(size_t i) const { return specs_[i]; }

  // True when every request is finished. timeout_ms < 0: no limit; 0: only check.
  bool wait(int64_t timeout_ms);
  bool done();
  bool finished(size_t i);
  int64_t finished_count();
  // Idempotent; requests that are not finished end with kCancelled at the next step boundary.
  void cancel();
  void cancel(size_t i);

  // Next event, or nothing after timeout_ms; also nothing at once when the job is done and drained,
  // which *over tells. Without memory to arm the notice again it throws and changes nothing.
  std::optional<Event> next_event(int64_t timeout_ms, bool* over = nullptr);

  // Puts the tag into the queue when the job is done; at once when it is.
  void notify(std::shared_ptr<CompletionQueue> queue, int64_t tag);
  // The same when there is an event to read or the job is done, at once when it is so, and again
  // each time after next_event() has found nothing. Takes the place of the call before.
  void notify_events(std::shared_ptr<CompletionQueue> queue, int64_t tag);

  // Only after finished(i). Valid for the life of the job.
  const RequestResult& result(size_t i) const { return results_[i]; }
  // read(tokens, logprobs) of the most likely ones of a place of a generation, finished or not.
  // Throws kOutOfRange when it has not got that far.
  template <typename Read>
  void read_top(size_t i, size_t place, const Read& read) {
    std::lock_guard lock(mutex_);
    const auto k = static_cast<size_t>(specs_[i].top_logprobs);
    const RequestResult& result = results_[i];
    const size_t places = k > 0 ? result.top_tokens.size() / k : 0;
    if (place >= places)
      fail(Code::kOutOfRange, "place ", place, "; request ", i, " has the likeliest tokens of ",
           places);
    read(std::span(result.top_tokens).subspan(place * k, k),
         std::span(result.top_logprobs).subspan(place * k, k));
  }
  JobTotals totals();

  // --- scheduler side ---
  bool cancel_requested(size_t i) const { return cancel_all_ || cancelled_[i]; }
  // Each call of cancel() tells it, those before this one in all.
  void tell_cancels(std::shared_ptr<Cancels::Place> cancels);
  RequestResult& edit_result(size_t i) { return results_[i]; }  // before finish(i)
  // Room for what add_top() takes.
  void reserve_top(size_t i, size_t places);
  // Of the next token of a generation: the likeliest tokens, with their log-probs in place of
  // logits.
  void add_top(size_t i, std::span<const ops::Candidate> top) noexcept;
  // Events before the last one of a request. Where too many are not read, or there is no memory, a
  // kToken is counted instead, and the next event comes after a kLost. Without memory a kStarted is
  // left out.
  void post(size_t i, Event::Kind kind, int32_t token = -1, float logprob = 0) noexcept;
  // result(i) is complete. The last event of the request comes in the same step: after it
  // the result can be read, and the job does not end before its last event. Without memory for the
  // event it is made from the result when the next event is read.
  void finish(size_t i) noexcept;
  void set_totals(const JobTotals& totals);
  Clock::time_point submitted() const { return submitted_; }
  int64_t age_ns() const { return ns_of(now_() - submitted_); }

 private:
  // An event that waits to be read, in few bytes: the rest is in its request and the result.
  struct Kept {
    struct Sampled {
      int32_t token;
      float logprob;
    };
    int64_t time_ns;
    Event::Kind kind;
    uint32_t request;
    union {
      Sampled sampled;
      int64_t lost;
    };
  };
  static_assert(sizeof(Kept) == 24);

  void tell_cancel();
  Event event_of(const Kept& kept) const;
  Kept last_event(size_t i) const;
  Kept lost_event(int64_t lost) const;
  void tell_lost();  // with the lock held, as the next ones
  bool readable() const { return !events_.empty() || untold_ > 0 || complete(); }
  void tell_reader() noexcept {
    if (readable()) event_notice_.tell();
  }
  bool complete() const { return finished_count_ == static_cast<int64_t>(specs_.size()); }

  std::vector<RequestSpec> specs_;
  std::vector<RequestResult> results_;
  std::vector<std::atomic<bool>> cancelled_;
  std::atomic<bool> cancel_all_{false};
  std::shared_ptr<Cancels::Place> cancels_;  // null: the scheduler has not taken the job yet
  bool cancelled_before_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  enum class End : char { kNone, kTold, kUntold };
  std::vector<End> finished_;
  int64_t finished_count_ = 0;
  int64_t untold_ = 0;
  std::deque<Kept> events_;
  int64_t lost_ = 0;
  std::vector<std::pair<std::shared_ptr<CompletionQueue>, int64_t>> notices_;
  EventNotice event_notice_;
  JobTotals totals_;
  Now now_;  // of deadlines and events; waiting goes by the wall clock
  Clock::time_point submitted_;
};

}  // namespace prefix
