#include "engine/schedule/job_queue.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace prefix {
namespace {

// By rank, then as they came.
bool goes_before(const std::shared_ptr<JobState>& a, const std::shared_ptr<JobState>& b) {
  return a->priority != b->priority ? a->priority > b->priority : a->id < b->id;
}

}  // namespace

void JobQueue::add(std::shared_ptr<JobState> state) {
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
  back.sort(goes_before);
  queued_.merge(back, goes_before);
}

bool JobQueue::finish_one(JobState& state) noexcept {
  ranks_changed_ = ranks_changed_ || !state.one_priority;
  if (--state.unfinished > 0) return false;
  state.next_ended = std::exchange(ended_, &state);
  return true;
}

void JobQueue::remove_ended() {
  while (ended_) {
    const JobState& state = *std::exchange(ended_, ended_->next_ended);
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
  queued_.sort(goes_before);
}

const JobQueue::Jobs& JobQueue::abort() noexcept {
  fetch_waits_.clear();
  looked_up_ = 0;
  engaged_.splice(engaged_.end(), queued_);
  for (const std::shared_ptr<JobState>& state : engaged_) state->waiting.clear();
  return engaged_;
}

void JobQueue::clear() noexcept {
  engaged_.clear();
  ended_ = nullptr;
}

}  // namespace prefix
