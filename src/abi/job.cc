// Jobs: a batch that was submitted, with its events and results. The last release of a job cancels
// it unless it was detached.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <random>
#include <span>

#include "abi/entry.h"
#include "engine/result_size.h"

namespace {

using prefix::cat;
using prefix::Code;
using prefix::fail;
using prefix::Job;
using prefix::RequestResult;
using prefix::RequestSpec;
using prefix::Task;
using prefix::abi::array_out;
using prefix::abi::guard;
using prefix::abi::HandleTable;
using prefix::abi::job_of;
using prefix::abi::JobObject;
using prefix::abi::Kind;
using prefix::abi::require;
using prefix::abi::takes;
using prefix::abi::Waited;

// Another one for each request: the system is asked once, and then it counts. Below 2^53, so that
// every language's numbers hold it.
int64_t fresh_seed() {
  static std::atomic<uint64_t> next = [] {
    std::random_device device;
    return (uint64_t{device()} << 32) | device();
  }();
  return static_cast<int64_t>(next.fetch_add(1, std::memory_order_relaxed) &
                              ((uint64_t{1} << 53) - 1));
}

std::shared_ptr<JobObject> submit(prefix_engine* engine, const prefix_batch* batch) {
  const auto e = prefix::abi::find<prefix::abi::EngineObject>(Kind::kEngine, engine, "the engine");
  const auto b = prefix::abi::find<prefix::abi::BatchObject>(Kind::kBatch, batch, "the batch");
  if (b->engine != e)
    fail(Code::kInvalidArgument, b->engine ? "the batch was made for another engine"
                                           : "the batch was made without an engine, only to plan");
  std::vector<prefix::RequestSpec> requests;
  std::vector<std::string> namespaces;
  {
    std::lock_guard lock(b->mutex);
    requests = b->requests;
    namespaces = b->namespaces;
  }
  // Here, so that a batch that is submitted again draws anew.
  for (RequestSpec& spec : requests)
    if (spec.task == Task::kGenerate && spec.sampling.seed < 0) spec.sampling.seed = fresh_seed();
  auto object = std::make_shared<JobObject>();
  object->engine = e;
  object->job = e->load->engine()->submit(std::move(requests), namespaces);
  return object;
}

void require_index(const Job& job, size_t index) {
  if (index >= job.count())
    fail(Code::kOutOfRange, "request ", index, "; the job has ", job.count());
}

const RequestResult& result_of(Job& job, size_t index) {
  require_index(job, index);
  if (!job.finished(index)) fail(Code::kMisuse, "request ", index, " is not finished yet");
  return job.result(index);
}

// Of a request that succeeded; that of another ends the call as it ended the request.
const RequestResult& success_of(Job& job, size_t index) {
  const RequestResult& result = result_of(job, index);
  if (result.status != Code::kOk) throw prefix::Error(result.status, result.message);
  return result;
}

// Hands out a list of a result: of a request that succeeded, or with `partial` as far as any came.
template <typename T>
prefix_status result_list(const char* function, const prefix_job* job, size_t index,
                          std::vector<T> RequestResult::* list, T* out, size_t capacity,
                          size_t* needed, prefix_error* err, bool partial = false) {
  return guard(function, err, [&] {
    const auto j = job_of(job);
    const std::vector<T>& found = (partial ? result_of(*j, index) : success_of(*j, index)).*list;
    array_out(found.data(), found.size(), out, capacity, needed);
  });
}

// Two arrays of n elements each: both fit, or neither is written.
void top_out(std::span<const int32_t> found, std::span<const float> found_logprobs,
             prefix_token* tokens, size_t capacity, size_t* needed, float* logprobs,
             size_t capacity_logprobs) {
  if (capacity > 0) require(tokens, "tokens");
  if (capacity_logprobs > 0) require(logprobs, "logprobs");
  if (needed) *needed = found.size();
  const bool wants_tokens = takes(found.size(), tokens, "tokens", capacity);
  const bool wants_logprobs = takes(found.size(), logprobs, "logprobs", capacity_logprobs);
  if (wants_tokens) std::ranges::copy(found, tokens);
  if (wants_logprobs) std::ranges::copy(found_logprobs, logprobs);
}

void require_done(Job& job) {
  if (!job.done())
    fail(Code::kMisuse, job.finished_count(), " of ", job.count(), " requests are finished");
}

}  // namespace

extern "C" {

prefix_status prefix_submit(prefix_engine* engine, const prefix_batch* batch, prefix_job** out,
                            prefix_error* err) {
  return guard("prefix_submit", err, [&] {
    require(out, "out");
    *out = static_cast<prefix_job*>(HandleTable::get().add(Kind::kJob, submit(engine, batch)));
  });
}

prefix_status prefix_run(prefix_engine* engine, const prefix_batch* batch, prefix_job** out,
                         prefix_error* err) {
  return guard("prefix_run", err, [&] {
    require(out, "out");
    auto object = submit(engine, batch);
    object->job->wait(-1);
    *out = static_cast<prefix_job*>(HandleTable::get().add(Kind::kJob, std::move(object)));
  });
}

prefix_status prefix_job_retain(prefix_job* job, prefix_error* err) {
  return guard("prefix_job_retain", err,
               [&] { HandleTable::get().retain(Kind::kJob, job, "the job"); });
}

void prefix_job_release(prefix_job* job) {
  guard("prefix_job_release", nullptr, [&] { HandleTable::get().release(Kind::kJob, job); });
}

prefix_status prefix_job_wait(prefix_job* job, int64_t timeout_ms, prefix_error* err) {
  return guard("prefix_job_wait", err, [&]() -> Waited {
    const auto j = job_of(job);
    if (j->wait(timeout_ms)) return {};
    return {Code::kTimeout, cat(j->finished_count(), " of ", j->count(),
                                " requests are finished after ", timeout_ms, " ms")};
  });
}

prefix_status prefix_job_detach(prefix_job* job, prefix_error* err) {
  return guard("prefix_job_detach", err,
               [&] { prefix::abi::find<JobObject>(Kind::kJob, job, "the job")->detached = true; });
}

prefix_status prefix_job_notify(prefix_job* job, prefix_queue* queue, int64_t tag,
                                prefix_error* err) {
  return guard("prefix_job_notify", err,
               [&] { job_of(job)->notify(prefix::abi::queue_of(queue), tag); });
}

prefix_status prefix_job_notify_events(prefix_job* job, prefix_queue* queue, int64_t tag,
                                       prefix_error* err) {
  return guard("prefix_job_notify_events", err,
               [&] { job_of(job)->notify_events(prefix::abi::queue_of(queue), tag); });
}

prefix_status prefix_job_cancel(prefix_job* job, prefix_error* err) {
  return guard("prefix_job_cancel", err, [&] { job_of(job)->cancel(); });
}

prefix_status prefix_job_cancel_request(prefix_job* job, size_t index, prefix_error* err) {
  return guard("prefix_job_cancel_request", err, [&] {
    const auto j = job_of(job);
    require_index(*j, index);
    j->cancel(index);
  });
}

prefix_status prefix_job_count(const prefix_job* job, size_t* count, prefix_error* err) {
  return guard("prefix_job_count", err, [&] {
    require(count, "count");
    *count = job_of(job)->count();
  });
}

prefix_status prefix_job_finished_count(const prefix_job* job, size_t* count, prefix_error* err) {
  return guard("prefix_job_finished_count", err, [&] {
    require(count, "count");
    *count = static_cast<size_t>(job_of(job)->finished_count());
  });
}

prefix_status prefix_job_next_event(prefix_job* job, int64_t timeout_ms, prefix_event* event,
                                    prefix_error* err) {
  return guard("prefix_job_next_event", err, [&]() -> Waited {
    const auto j = job_of(job);
    prefix::abi::require_struct(event);  // before an event is taken out for it
    bool over = false;
    const auto next = j->next_event(timeout_ms, &over);
    if (over) return {Code::kNoEvent, "the job is done and all its events were read"};
    if (!next) return {Code::kTimeout, cat("no event within ", timeout_ms, " ms")};
    prefix_event e{};
    e.kind = next->kind;
    e.request = next->request;
    e.user_tag = next->user_tag;
    e.token = next->token;
    e.logprob = next->logprob;
    e.status = static_cast<int32_t>(next->status);
    e.cached = next->cached;
    e.computed = next->computed;
    e.count = next->count;
    e.time_us = next->time_ns / 1000;
    prefix::abi::struct_out(e, event);
    return {};
  });
}

prefix_status prefix_job_result_info(const prefix_job* job, size_t index, prefix_result_info* out,
                                     prefix_error* err) {
  return guard("prefix_job_result_info", err, [&] {
    const auto j = job_of(job);
    const RequestResult& r = result_of(*j, index);
    prefix_result_info info{};
    info.status = static_cast<int32_t>(r.status);
    info.finish = static_cast<int32_t>(r.finish);
    info.user_tag = j->spec(index).user_tag;
    info.prompt_tokens = r.usage.prompt;
    info.cached_tokens = r.usage.cached;
    info.shared_tokens = r.usage.shared;
    info.computed_tokens = r.usage.computed;
    info.generated_tokens = r.usage.generated;
    info.queue_us = r.timing.queue_us;
    info.first_us = r.timing.first_us;
    info.total_us = r.timing.total_us;
    if (j->spec(index).task == Task::kGenerate) info.seed = j->spec(index).sampling.seed;
    info.miss_first_seen = r.usage.missed.first_seen;
    info.miss_namespace = r.usage.missed.name_space;
    info.miss_budget = r.usage.missed.budget;
    info.miss_evicted = r.usage.missed.evicted;
    info.miss_granularity = r.usage.missed.granularity;
    info.miss_state = r.usage.missed.state;
    info.draft_tokens = r.usage.drafted;
    info.draft_tokens_accepted = r.usage.drafts_accepted;
    prefix::abi::struct_out(info, out);
  });
}

prefix_status prefix_job_result_message(const prefix_job* job, size_t index, char* buf, size_t cap,
                                        size_t* needed, prefix_error* err) {
  return guard("prefix_job_result_message", err, [&] {
    const auto j = job_of(job);
    prefix::abi::text_out(result_of(*j, index).message, buf, cap, needed);
  });
}

prefix_status prefix_job_result_values(const prefix_job* job, size_t index, float* out,
                                       size_t capacity, size_t* needed, prefix_error* err) {
  return result_list("prefix_job_result_values", job, index, &RequestResult::values, out, capacity,
                     needed, err);
}

prefix_status prefix_job_result_tokens(const prefix_job* job, size_t index, prefix_token* out,
                                       size_t capacity, size_t* needed, prefix_error* err) {
  return result_list("prefix_job_result_tokens", job, index, &RequestResult::tokens, out, capacity,
                     needed, err);
}

prefix_status prefix_job_partial_tokens(const prefix_job* job, size_t index, prefix_token* out,
                                        size_t capacity, size_t* needed, prefix_error* err) {
  return result_list("prefix_job_partial_tokens", job, index, &RequestResult::tokens, out, capacity,
                     needed, err, true);
}

prefix_status prefix_job_result_logprobs(const prefix_job* job, size_t index, float* out,
                                         size_t capacity, size_t* needed, prefix_error* err) {
  return result_list("prefix_job_result_logprobs", job, index, &RequestResult::token_logprobs, out,
                     capacity, needed, err);
}

prefix_status prefix_job_result_top(const prefix_job* job, size_t index, prefix_token* tokens,
                                    size_t capacity, size_t* needed, float* logprobs,
                                    size_t capacity_logprobs, prefix_error* err) {
  return guard("prefix_job_result_top", err, [&] {
    const auto j = job_of(job);
    const RequestResult& r = success_of(*j, index);
    top_out(r.top_tokens, r.top_logprobs, tokens, capacity, needed, logprobs, capacity_logprobs);
  });
}

prefix_status prefix_job_partial_top(const prefix_job* job, size_t index, size_t place,
                                     prefix_token* tokens, size_t capacity, size_t* needed,
                                     float* logprobs, size_t capacity_logprobs, prefix_error* err) {
  return guard("prefix_job_partial_top", err, [&] {
    const auto j = job_of(job);
    require_index(*j, index);
    if (j->spec(index).task != Task::kGenerate)
      fail(Code::kInvalidArgument, "request ", index, " does not generate");
    j->read_top(index, place, [&](std::span<const int32_t> ids, std::span<const float> of_them) {
      top_out(ids, of_them, tokens, capacity, needed, logprobs, capacity_logprobs);
    });
  });
}

prefix_status prefix_job_all_values(const prefix_job* job, float* out, size_t capacity,
                                    size_t* needed, int64_t* offsets, size_t capacity_offsets,
                                    prefix_error* err) {
  return guard("prefix_job_all_values", err, [&] {
    const auto object = prefix::abi::find<JobObject>(Kind::kJob, job, "the job");
    Job& j = *object->job;
    require_done(j);
    const prefix::EngineInfo& info = object->engine->load->engine()->info();
    std::vector<int64_t> begins;
    std::vector<float> all;
    for (size_t i = 0; i < j.count(); ++i) {
      begins.push_back(static_cast<int64_t>(all.size()));
      const RequestResult& result = j.result(i);
      if (result.status == Code::kOk) {
        all.insert(all.end(), result.values.begin(), result.values.end());
      } else {
        all.resize(all.size() + prefix::value_count(j.spec(i), info), std::nanf(""));
      }
    }
    begins.push_back(static_cast<int64_t>(all.size()));
    if (capacity > 0) require(out, "out");
    if (capacity_offsets > 0) require(offsets, "offsets");
    if (needed) *needed = all.size();
    // Both fit, or neither is written.
    const bool wants_values = takes(all.size(), out, "out", capacity);
    const bool wants_offsets = takes(begins.size(), offsets, "offsets", capacity_offsets);
    if (wants_values) std::copy(all.begin(), all.end(), out);
    if (wants_offsets) std::copy(begins.begin(), begins.end(), offsets);
  });
}

prefix_status prefix_job_first_failure(const prefix_job* job, size_t* index, prefix_error* err) {
  return guard("prefix_job_first_failure", err, [&] {
    const auto j = job_of(job);
    require_done(*j);
    for (size_t i = 0; i < j->count(); ++i) {
      const RequestResult& result = j->result(i);
      if (result.status == Code::kOk) continue;
      if (index) *index = i;
      fail(result.status, "request ", i, ": ", result.message);
    }
  });
}

prefix_status prefix_job_get_totals(const prefix_job* job, prefix_job_totals* out,
                                    prefix_error* err) {
  return guard("prefix_job_get_totals", err, [&] {
    const prefix::JobTotals t = job_of(job)->totals();
    prefix_job_totals totals{};
    totals.requests = t.requests;
    totals.failed = t.failed;
    totals.tokens_given = t.tokens_given;
    totals.tokens_computed = t.tokens_computed;
    totals.tokens_cached = t.tokens_cached;
    totals.tokens_shared = t.tokens_shared;
    totals.tokens_generated = t.tokens_generated;
    totals.steps = t.steps;
    totals.rows = t.rows;
    totals.total_us = t.total_us;
    prefix::abi::struct_out(totals, out);
  });
}

}  // extern "C"
