/* prefix_job.hpp - what a batch becomes in the shape of C++20: jobs, their events and results, and
 * queues of those that are done. prefix.hpp includes it; what functions do stands in prefix.h.
 */
#ifndef PREFIX_JOB_HPP
#define PREFIX_JOB_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "prefix_calls.hpp"

namespace prefix {
inline namespace cpp1 {

/* For a wait without limit. */
inline constexpr std::chrono::milliseconds kForever{-1};

/* Tags of jobs that are done and engines that are loaded. */
class Queue {
 public:
  Queue() : handle_(detail::made<prefix_queue>(nullptr, prefix_queue_create)) {}
  /* The oldest tag; nothing when there is none in that time. */
  std::optional<int64_t> next(std::chrono::milliseconds timeout, prefix_error* error = nullptr) {
    int64_t tag = 0;
    prefix_error failure = PREFIX_ERROR_INIT;
    const prefix_status status = prefix_queue_next(get(), timeout.count(), &tag, &failure);
    if (!detail::ok_unless(status, failure, error, PREFIX_ERR_TIMEOUT)) return std::nullopt;
    return tag;
  }
  void post(int64_t tag, prefix_error* error = nullptr) {
    call(error, [&](prefix_error* e) { return prefix_queue_post(get(), tag, e); });
  }
  /* For poll(): readable while there is a tag; -1 on failure. */
  int32_t descriptor(prefix_error* error = nullptr) {
    return detail::filled<int32_t>(
        -1, error, [&](auto... to) { return prefix_queue_descriptor(get(), to...); });
  }
  prefix_queue* get() const noexcept { return handle_.get(); }

 private:
  detail::Handle<prefix_queue, prefix_queue_release> handle_;
};

/* The values of all requests of a job, request after request. */
struct Values {
  std::vector<float> all;
  std::vector<int64_t> offsets;

  size_t size() const { return offsets.empty() ? 0 : offsets.size() - 1; }
  /* Of one request; NaN where it failed. */
  std::span<const float> operator[](size_t request) const {
    const auto begin = static_cast<size_t>(offsets[request]);
    return std::span(all).subspan(begin, static_cast<size_t>(offsets[request + 1]) - begin);
  }
};

/* A token that was likely at its place. */
struct TopToken {
  prefix_token token;
  float logprob;
};

namespace detail {
// What function(tokens, capacity, needed, logprobs, capacity, error) writes.
template <typename Function>
std::vector<TopToken> read_top(prefix_error* error, const Function& function) {
  std::vector<float> logprobs;
  const auto tokens = read<std::vector<prefix_token>>(
      64,
      [&](prefix_token* out, size_t n, size_t* needed, prefix_error* e) {
        logprobs.resize(n);
        return function(out, n, needed, logprobs.data(), n, e);
      },
      error);
  std::vector<TopToken> top;
  for (size_t i = 0; i < tokens.size(); ++i) top.push_back({tokens[i], logprobs[i]});
  return top;
}
}  // namespace detail

/* A request that failed, by its number. */
struct Failure {
  size_t request = 0;
  prefix_error error = PREFIX_ERROR_INIT;
};

/* A batch that runs or has run. Destroying it cancels what still runs, unless it is detached. */
class Job {
 public:
  explicit Job(prefix_job* handle) : handle_(handle) {}  // takes the reference

  /* Whether every request is finished, after waiting for it this long. */
  bool wait(std::chrono::milliseconds timeout = kForever, prefix_error* error = nullptr) const {
    prefix_error failure = PREFIX_ERROR_INIT;
    const prefix_status status = prefix_job_wait(get(), timeout.count(), &failure);
    return detail::ok_unless(status, failure, error, PREFIX_ERR_TIMEOUT);
  }
  void notify(Queue& queue, int64_t tag, prefix_error* error = nullptr) const {
    call(error, [&](prefix_error* e) { return prefix_job_notify(get(), queue.get(), tag, e); });
  }
  void cancel(prefix_error* error = nullptr) const {
    call(error, [&](prefix_error* e) { return prefix_job_cancel(get(), e); });
  }
  void cancel_request(size_t request, prefix_error* error = nullptr) const {
    call(error, [&](prefix_error* e) { return prefix_job_cancel_request(get(), request, e); });
  }
  void detach(prefix_error* error = nullptr) const {
    call(error, [&](prefix_error* e) { return prefix_job_detach(get(), e); });
  }
  size_t size(prefix_error* error = nullptr) const {
    return detail::filled<size_t>(0, error,
                                  [&](auto... to) { return prefix_job_count(get(), to...); });
  }
  size_t finished_count(prefix_error* error = nullptr) const {
    return detail::filled<size_t>(
        0, error, [&](auto... to) { return prefix_job_finished_count(get(), to...); });
  }
  /* The next event; nothing after this time, and when there will be no more. */
  std::optional<prefix_event> next_event(std::chrono::milliseconds timeout = kForever,
                                         prefix_error* error = nullptr) const {
    prefix_event event = PREFIX_EVENT_INIT;
    prefix_error failure = PREFIX_ERROR_INIT;
    const prefix_status status = prefix_job_next_event(get(), timeout.count(), &event, &failure);
    if (!detail::ok_unless(status, failure, error, PREFIX_ERR_TIMEOUT, PREFIX_ERR_NO_EVENT))
      return std::nullopt;
    return event;
  }
  /* The tag comes when there is an event to read, and again when next_event() ran out of them. */
  void notify_events(Queue& queue, int64_t tag, prefix_error* error = nullptr) const {
    call(error, [&](auto* e) { return prefix_job_notify_events(get(), queue.get(), tag, e); });
  }
  prefix_result_info info(size_t request, prefix_error* error = nullptr) const {
    return detail::filled<prefix_result_info>(PREFIX_RESULT_INFO_INIT, error, [&](auto... to) {
      return prefix_job_result_info(get(), request, to...);
    });
  }
  std::vector<float> values(size_t request, prefix_error* error = nullptr) const {
    return array<std::vector<float>>(prefix_job_result_values, request, error);
  }
  std::vector<prefix_token> tokens(size_t request, prefix_error* error = nullptr) const {
    return array<std::vector<prefix_token>>(prefix_job_result_tokens, request, error);
  }
  /* What there is, also of a request that was cancelled or ran out of time. */
  std::vector<prefix_token> partial_tokens(size_t request, prefix_error* error = nullptr) const {
    return array<std::vector<prefix_token>>(prefix_job_partial_tokens, request, error);
  }
  std::vector<float> logprobs(size_t request, prefix_error* error = nullptr) const {
    return array<std::vector<float>>(prefix_job_result_logprobs, request, error);
  }
  /* With option top_logprobs: for each token that was generated or scored the likeliest tokens of
   * its place, in their order. */
  std::vector<std::vector<TopToken>> top(size_t request, prefix_error* error = nullptr) const {
    const std::vector<TopToken> all = detail::read_top(
        error, [&](auto... to) { return prefix_job_result_top(get(), request, to...); });
    std::vector<std::vector<TopToken>> places;
    if (all.empty()) return places;
    size_t count = tokens(request, error).size();
    if (count == 0) count = values(request, error).size();
    if (count == 0) return places;
    const size_t width = all.size() / count;
    for (auto next = all.begin(); next != all.end(); next += static_cast<ptrdiff_t>(width))
      places.emplace_back(next, next + static_cast<ptrdiff_t>(width));
    return places;
  }
  /* Of one place of a generation, as soon as its event can be read. */
  std::vector<TopToken> partial_top(size_t request, size_t place,
                                    prefix_error* error = nullptr) const {
    return detail::read_top(
        error, [&](auto... to) { return prefix_job_partial_top(get(), request, place, to...); });
  }
  /* The sentence of a request that failed. */
  std::string message(size_t request, prefix_error* error = nullptr) const {
    return array<std::string>(prefix_job_result_message, request, error);
  }
  Values all_values(prefix_error* error = nullptr) const {
    Values values;
    const size_t count = size(error);
    if (error && error->code != PREFIX_OK) return values;
    values.offsets.resize(count + 1);
    values.all = read<std::vector<float>>(
        count,
        [&](float* out, size_t n, size_t* needed, prefix_error* e) {
          return prefix_job_all_values(get(), out, n, needed, values.offsets.data(),
                                       values.offsets.size(), e);
        },
        error);
    if (error && error->code != PREFIX_OK) values.offsets.clear();  // of no requests
    return values;
  }
  /* The first request that failed; nothing when none did. The job must be done. */
  std::optional<Failure> first_failure(prefix_error* error = nullptr) const {
    Failure failure;
    failure.request = static_cast<size_t>(-1);
    const prefix_status status = prefix_job_first_failure(get(), &failure.request, &failure.error);
    const bool found = failure.request != static_cast<size_t>(-1);
    // Without one, the status is that of the call itself.
    const prefix_error none = PREFIX_ERROR_INIT;
    detail::ok(found ? PREFIX_OK : status, found ? none : failure.error, error);
    return found ? std::optional(failure) : std::nullopt;
  }
  prefix_job_totals totals(prefix_error* error = nullptr) const {
    return detail::filled<prefix_job_totals>(PREFIX_JOB_TOTALS_INIT, error, [&](auto... to) {
      return prefix_job_get_totals(get(), to...);
    });
  }
  prefix_job* get() const noexcept { return handle_.get(); }

 private:
  template <typename Array, typename Function>
  Array array(Function function, size_t request, prefix_error* error) const {
    return read<Array>(64, [&](auto... to) { return function(get(), request, to...); }, error);
  }

  detail::Handle<prefix_job, prefix_job_release> handle_;
};

}  // namespace cpp1
}  // namespace prefix

#endif /* PREFIX_JOB_HPP */
