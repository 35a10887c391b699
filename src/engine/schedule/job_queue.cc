#include "engine/schedule/job_queue.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace prefix {
namespace {

// By rank, then as they came.
bool goes_before(const JobState& a, const JobState& b) {
  return a.priority != b.priority ? a.priority > b.priority : a.id < b.id;
}

bool is_before(const std::shared_ptr<JobState>& a, const std::shared_ptr<JobState>& b) {
  return goes_before(*a, *b);
}

}  // namespace

void JobQueue::add(std::shared_ptr<JobState> state) {
  JobState::Deadlines deadline;
  if (state->deadline < INT64_MAX) deadline.emplace(state->deadline, state.get());
  // From both ends: most jobs go behind all that wait, or before most of them.
  auto at = queued_.begin();
  for (auto back = queued_.end(); at != back && (*at)->priority >= state->priority; ++at) {
    if ((*std::prev(back))->priority >= state->priority) {
      at = back;
      break;
    }
    --back;
  }
  at = queued_.insert(at, std::move(state));
  (*at)->place = at;
  deadlines_.merge(deadline);
}

void JobQueue::begin_due(int64_t now, std::vector<JobState*>& due) {
  for (auto at = deadlines_.begin(); at != deadlines_.end() && at->first < now; ++at)
    if (!std::exchange(at->second->due, true)) due.push_back(at->second);
  for (JobState* const state : due) {
    if (state->deadline < INT64_MAX)
      state->deadline_place = deadlines_.extract({state->deadline, state});
    state->deadline = INT64_MAX;
  }
  std::ranges::sort(due, [](const JobState* a, const JobState* b) { return goes_before(*a, *b); });
}

void JobQueue::end_due(const std::vector<JobState*>& due) noexcept {
  for (JobState* const state : due) {
    state->due = false;
    JobState::Deadlines::node_type place = std::move(state->deadline_place);
    if (state->deadline == INT64_MAX) continue;
    place.value() = {state->deadline, state};
    deadlines_.insert(std::move(place));
  }
}

void JobQueue::set_looked_up(WaitingRequest& request) {
  request.looked_up = true;
  ++request.state->looked_up;
  ++looked_up_;
}

void JobQueue::forget(const WaitingRequest& request) {
  request.state->looked_up -= request.looked_up;
  looked_up_ -= request.looked_up;
}

void JobQueue::erase(Waiting request) {
  forget(*request);
  request->state->waiting.erase(request);
}

void JobQueue::leave_if_empty(JobState& state) {
  if (!state.waiting.empty()) return;
  engaged_.splice(engaged_.end(), queued_, state.place);
  state.queued = false;
}

void JobQueue::wait_for(std::shared_ptr<const Fetch> fetch, Waiting request) {
  auto wait = std::ranges::find(fetch_waits_, fetch, &FetchWait::fetch);
  if (wait == fetch_waits_.end())
    wait = fetch_waits_.insert(fetch_waits_.end(), FetchWait{std::move(fetch), {}});
  wait->requests.splice(wait->requests.end(), request->state->waiting, request);
}

void JobQueue::end_waits() {
  Jobs back;
  for (FetchWait& wait : fetch_waits_) {
    if (!wait.fetch->done) continue;
    std::list<WaitingRequest>& ended = wait.requests;
    while (!ended.empty()) {
      JobState& state = *ended.front().state;
      std::list<WaitingRequest> of_job;
      while (!ended.empty() && ended.front().state == &state) {
        state.looked_up += ended.front().looked_up;
        looked_up_ += ended.front().looked_up;
        of_job.splice(of_job.end(), ended, ended.begin());
      }
      const auto earlier = [](const auto& a, const auto& b) { return a.rank < b.rank; };
      of_job.sort(earlier);
      state.waiting.merge(of_job, earlier);
      if (std::exchange(state.queued, true)) continue;
      back.splice(back.end(), engaged_, state.place);
    }
  }
  drop_empty_waits();
  back.sort(is_before);
  queued_.merge(back, is_before);
}

bool JobQueue::finish_one(JobState& state) noexcept {
  ranks_changed_ = ranks_changed_ || !state.one_priority;
  if (--state.unfinished > 0) return false;
  state.next_ended = std::exchange(ended_, &state);
  return true;
}

void JobQueue::remove_ended() {
  while (ended_) {
    JobState& state = *std::exchange(ended_, ended_->next_ended);
    deadlines_.erase({state.deadline, &state});
    state.cancels->end();
    (state.queued ? queued_ : engaged_).erase(state.place);
  }
}

void JobQueue::rank(const std::list<std::unique_ptr<RunningRequest>>& running) {
  if (!std::exchange(ranks_changed_, false)) return;
  const auto raise = [](JobState& state, size_t index) {
    state.priority = std::max(state.priority, state.job->spec(index).priority);
  };
  for (const Jobs* jobs : {&queued_, &engaged_})
    for (const std::shared_ptr<JobState>& state : *jobs) {
      state->priority = INT32_MIN;
      if (!state->waiting.empty()) raise(*state, state->waiting.front().index);
    }
  for (const FetchWait& wait : fetch_waits_)
    for (const WaitingRequest& w : wait.requests) raise(*w.state, w.index);
  for (const std::unique_ptr<RunningRequest>& request : running)
    raise(*request->state, request->index);
  queued_.sort(is_before);
}

const JobQueue::Jobs& JobQueue::abort() noexcept {
  fetch_waits_.clear();
  looked_up_ = 0;
  engaged_.splice(engaged_.end(), queued_);
  for (const std::shared_ptr<JobState>& state : engaged_) state->waiting.clear();
  return engaged_;
}

void JobQueue::clear() noexcept {
  deadlines_.clear();
  for (const std::shared_ptr<JobState>& state : engaged_) state->cancels->end();
  engaged_.clear();
  ended_ = nullptr;
}

}  // namespace prefix
