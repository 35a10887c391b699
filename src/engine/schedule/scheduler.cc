#include "engine/schedule/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/page.h"
#include "base/status.h"
#include "engine/schedule/known_logprobs.h"

namespace prefix {
namespace {

Finish finish_of(Code failure) {
  return failure == Code::kCancelled ? Finish::kCancelled : Finish::kError;
}

StepShape shape_of(Model& model, const SchedulerOptions& options) {
  return {.heads = model.config().heads,
          .kv_heads = model.config().kv_heads,
          .threads = options.threads,
          .tile_rows = model.device().tile_rows(),
          .state_pages = model.state_pages(),
          .windows = model.windows(),
          .bidirectional = options.whole_texts,
          .keeps_reads = model.device().keeps_rows(),
          .last_attention = model.last_attention()};
}

}  // namespace

Scheduler::Scheduler(Model& model, KvMemory& kv, PagePool& pages, Tree& tree,
                     const SchedulerOptions& options, LowerTiers* tiers, Now now)
    : model_(model),
      kv_(kv),
      pages_(pages),
      tree_(tree),
      tiers_(tiers),
      options_(options),
      builder_(tree, shape_of(model, options)),
      states_(tree, pages, builder_, model.state_pages(), options.path_states),
      texts_(tree, pages, kv, model.config().hidden),
      bands_(tree, pages, options.row_budget),
      heads_(model),
      jobs_(tiers ? tiers->max_fetches() : 0),
      roots_(model, tree),
      leases_(tree, options.cache),
      accounting_(tree, model.max_positions()),
      turns_(options.row_budget),
      now_(std::move(now)),
      start_(now_()) {}

void Scheduler::enqueue(std::shared_ptr<Job> job) {
  auto state = std::make_shared<JobState>();
  state->job = std::move(job);
  state->id = next_job_++;
  Job& j = *state->job;
  state->totals.requests = static_cast<int64_t>(j.count());
  state->turn = turns_.now();
  state->first_step = accounting_.counters().steps;
  state->cancels = cancels_->place_for(state.get());
  for (size_t i = 0; i < j.count(); ++i) {
    if (j.finished(i)) {
      ++state->totals.failed;
      continue;
    }
    state->waiting.push_back({.state = state.get(), .index = i});
    uses_.expect(j.spec(i).name_space);
    state->priority = std::max(state->priority, j.spec(i).priority);
    const RequestSpec& first = j.spec(state->waiting.front().index);
    state->one_priority = state->one_priority && j.spec(i).priority == first.priority;
    state->one_namespace = state->one_namespace && j.spec(i).name_space == first.name_space;
    state->deadline = std::min(state->deadline, deadline_of(j, i));
  }
  state->waiting.sort([&](const WaitingRequest& a, const WaitingRequest& b) {
    return j.spec(a.index).priority > j.spec(b.index).priority;
  });
  for (WaitingRequest& w : state->waiting) w.rank = state->unfinished++;
  const auto waiting = static_cast<int64_t>(state->unfinished);
  const int64_t failed = state->totals.failed;
  const JobState& there = *state;
  if (waiting == 0)
    j.set_totals(state->totals);
  else
    jobs_.add(std::move(state));
  // Last: all before this may fail for lack of memory.
  for (const WaitingRequest& w : there.waiting) uses_.begin(j.spec(w.index).name_space);
  if (waiting > 0) j.tell_cancels(there.cancels);
  SchedulerCounters& counters = accounting_.counters();
  counters.waiting += waiting;
  counters.failed += failed;
}

// --- planning --------------------------------------------------------------------------------

int64_t Scheduler::now_ms() const { return ns_of(now_() - start_) / 1000000; }

void Scheduler::expire_cache() {
  const int64_t now = now_ms();
  leases_.expire(now);
  tree_.expire(now);
}

// On the clock of now_(), since start_.
int64_t Scheduler::deadline_of(const Job& job, size_t index) const {
  constexpr int64_t kNsPerMs = 1000000;
  const int64_t ms = job.spec(index).deadline_ms;
  const int64_t submitted = ns_of(job.submitted() - start_);
  if (ms <= 0 || ms > (INT64_MAX - std::max<int64_t>(0, submitted)) / kNsPerMs) return INT64_MAX;
  return submitted + ms * kNsPerMs;
}

// Of jobs where nothing was cancelled and no deadline has passed no request is looked at.
void Scheduler::expire_requests() {
  const int64_t now = ns_of(now_() - start_);
  if (!cancels_->any() && now <= jobs_.next_deadline()) return;
  std::vector<JobState*> due;
  cancels_->take([&](JobState& state) {
    if (!std::exchange(state.due, true)) due.push_back(&state);
  });
  jobs_.begin_due(now, due);
  const auto verdict = [&](JobState& state, size_t index, std::string* message) {
    const Job& job = *state.job;
    if (job.cancel_requested(index)) {
      *message = "cancelled by the caller";
      return Code::kCancelled;
    }
    const int64_t deadline = deadline_of(job, index);
    if (now > deadline) {
      *message = cat("deadline_ms = ", job.spec(index).deadline_ms,
                     " passed before the request was finished");
      return Code::kDeadline;
    }
    state.deadline = std::min(state.deadline, deadline);
    return Code::kOk;
  };
  std::string message;
  for (const std::unique_ptr<RunningRequest>& request : running_) {
    if (!request->state->due) continue;
    const Code code = verdict(*request->state, request->index, &message);
    if (code != Code::kOk) finish(*request, code, message);
  }
  jobs_.erase_if(due, [&](const WaitingRequest& w) {
    ++accounting_.counters().looks;
    const Code code = verdict(*w.state, w.index, &message);
    if (code != Code::kOk) refuse(*w.state, w.index, code, message);
    return code != Code::kOk;
  });
  jobs_.end_due(due);
  remove_finished();
}

void Scheduler::plan() {
  const auto start = now_();
  outputs_.clear();
  step_ok_ = false;
  expire_cache();
  expire_requests();
  if (tiers_) tiers_->poll();
  jobs_.rank(running_);
  jobs_.end_waits();
  admit();
  remove_finished();
  states_.resume(running_);
  if (states_.on())
    finish_complete();  // another one may have brought a state which they waited for
  remove_finished();
  fill_step();
  states_.begin(running_);
  builder_.build(step_);
  collect_outputs();
  builder_.keep_reads(step_);
  states_.plan(running_, step_);
  step_.clear = pages_.take_dirty();
  accounting_.counters().plan_ns += ns_of(now_() - start);
}

void Scheduler::check() const {
  std::unordered_map<int32_t, int64_t> reserved;
  for (const auto& request : running_)
    for (const Sequence& s : request->sequences)
      reserved[namespace_of(*request)] += s.reserved_tokens;
  uses_.for_each_reserved(
      [&](int32_t name_space, int64_t tokens) { PREFIX_CHECK(tokens == reserved[name_space]); });
}

// --- ending ----------------------------------------------------------------------------------

// Takes no memory; what it would keep or save in more of it is lost. `ran`: it was admitted.
void Scheduler::end_sequence(const RunningRequest& request, Sequence& s, bool ran) {
  pages_.unreserve(s.reserved_pages);
  if (s.reserved_tokens > 0) uses_.reserve(namespace_of(request), -s.reserved_tokens);
  states_.release(s, options_.cache && !request.own_root);
  if (tiers_ && ran && !request.own_root) tiers_->save(s.node, s.length);
  bands_.release(s, running_);
  if (ran) tree_.prolong(s.node, s.length, use_of(request).expires_ms);
  tree_.unlock(s.node, options_.cache && !request.own_root);
}

void Scheduler::end_sequences(RunningRequest& request) {
  for (Sequence& s : request.sequences) end_sequence(request, s, true);
  request.sequences.clear();
}

void Scheduler::release(RunningRequest& request) {
  end_sequences(request);
  // The root of a text may be that of other requests too.
  if (request.own_root && request.root != kNoNode &&
      tree_.node(request.root).first_child == kNoNode) {
    if (request.text_root != kNoNode)
      texts_.end(request.text_root, request.spec().tokens, request.root);
    tree_.remove_root(request.root);
  }
  request.root = kNoNode;
}

// The end of a request that waited.
void Scheduler::refuse(JobState& state, size_t index, Code code, std::string message) noexcept {
  RequestResult& result = state.job->edit_result(index);
  result.status = code;
  result.message = std::move(message);
  result.finish = finish_of(code);
  --accounting_.counters().waiting;
  finish_request(state, index);
}

void Scheduler::finish(RunningRequest& request, Code code, const std::string& message) {
  if (request.root == kNoNode) return;  // finished already in this step
  RequestResult& result = request.result();
  result.status = code;
  result.message = message;
  if (code != Code::kOk) result.finish = finish_of(code);
  if (code == Code::kOk && request.spec().task == Task::kChoices) {
    for (size_t c = 0; c + 1 < result.choice_offsets.size(); ++c) {
      double sum = 0;
      for (int64_t i = result.choice_offsets[c]; i < result.choice_offsets[c + 1]; ++i)
        sum += result.token_logprobs[static_cast<size_t>(i)];
      result.values.push_back(static_cast<float>(sum));
    }
  }
  follow_ghosts(request);
  if (code == Code::kOk && options_.cache && !request.own_root) keep_logprobs(tree_, request);
  TextRows rows;
  if (code == Code::kOk && options_.cache) rows = std::move(request.sequences.front().rows);
  release(request);
  if (!rows.positions.empty())
    texts_.keep(request.text_root, request.spec().tokens, rows, use_of(request));
  --accounting_.counters().running;
  finished_ = true;
  finish_request(*request.state, request.index);
}

// The policy is a guess that may be dropped: without memory for it the last one stays.
void Scheduler::follow_ghosts(const RunningRequest& request) noexcept {
  const RequestSpec& spec = request.spec();
  if (!options_.ghosts || spec.task != Task::kGenerate) return;
  try {
    const PolicyGhosts::Choice now = options_.ghosts->follow(
        namespace_of(request), request.text(), static_cast<int64_t>(spec.tokens.size()));
    tree_.set_policy(now.policy, now.alpha);
  } catch (...) {
    options_.ghosts.reset();
  }
}

void Scheduler::finish_request(JobState& state, size_t index) noexcept {
  Job& job = *state.job;
  RequestResult& result = job.edit_result(index);
  result.timing.total_us = job.age_ns() / 1000;
  accounting_.count_finished(job.spec(index).task, result, state.totals);
  if (jobs_.finish_one(state)) {
    state.totals.steps = accounting_.counters().steps - state.first_step;
    state.totals.total_us = job.age_ns() / 1000;
    job.set_totals(state.totals);
  }
  uses_.end(job.spec(index).name_space);
  job.finish(index);
}

// Ending a request leaves it in the lists, which may be walked just then; this sweeps them.
void Scheduler::remove_finished() {
  if (std::exchange(finished_, false))
    running_.remove_if(
        [](const std::unique_ptr<RunningRequest>& request) { return request->root == kNoNode; });
  jobs_.remove_ended();
}

// Looks at the jobs only: the tree and what runs may be in any state, and are not used again.
void Scheduler::abort_all(Code code, const char* message) noexcept {
  outputs_.clear();
  running_.clear();
  for (const std::shared_ptr<JobState>& state : jobs_.abort()) {
    for (size_t index = 0; index < state->job->count(); ++index) {
      if (state->job->finished(index)) continue;
      RequestResult& result = state->job->edit_result(index);
      result.status = code;
      result.finish = finish_of(code);
      try {
        result.message = message;
      } catch (const std::bad_alloc&) {
        result.message = "out of memory";  // short enough to need none
      }
      finish_request(*state, index);
    }
  }
  jobs_.clear();
  accounting_.counters().waiting = accounting_.counters().running = 0;
}

}  // namespace prefix
