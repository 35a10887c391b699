// Jobs that are not finished, and which of their requests plans look at.
//
//   add ─> queued ───────────────────> engaged ───> ended
//            ^   all its requests run or  │   the last one is finished
//            │   wait for pages           │
//            └────── a fetch ended ───────┘
//
// A job stands where the highest of its requests that are left puts it, then as it came. Its waiting
// requests are in `JobState::waiting`, or with the fetch that they wait for.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "engine/schedule/sequence.h"

namespace prefix {

class JobQueue {
 public:
  using Jobs = std::list<std::shared_ptr<JobState>>;
  using Waiting = std::list<WaitingRequest>::iterator;

  // There is room for as many fetches, so that waiting for one takes no memory.
  explicit JobQueue(size_t max_fetches) { fetch_waits_.reserve(max_fetches); }

  // Behind those of its priority.
  void add(std::shared_ptr<JobState> state);
  bool empty() const { return queued_.empty() && engaged_.empty(); }

  // Those that plans look at, in their order. An iterator stays good while its job stays queued.
  Jobs& queued() { return queued_; }
  // Of their waiting requests: those that need not be looked up in the tiers.
  size_t looked_up() const { return looked_up_; }
  void set_looked_up(WaitingRequest& request);
  // It waits no longer.
  void erase(Waiting request);
  // Behind the last of its waiting requests: plans need not look at the job.
  void leave_if_empty(JobState& state);

  // No plan looks at the request before the fetch has ended.
  void wait_for(std::shared_ptr<const Fetch> fetch, Waiting request);
  // Who waited for a fetch that has ended is looked at again, in the place where it was.
  void end_waits();

  // The first deadline of what is unfinished, or an earlier one; INT64_MAX: there is none.
  int64_t next_deadline() const {
    return deadlines_.empty() ? INT64_MAX : deadlines_.begin()->first;
  }
  // Adds jobs whose deadline has passed to those that are due, and puts all of these in the order of
  // the queue. Until end_due() they have no deadline.
  void begin_due(int64_t now, std::vector<JobState*>& due);
  // Their deadlines are those of the requests that are left.
  void end_due(const std::vector<JobState*>& due) noexcept;
  // Takes out the waiting requests of these jobs of which ends(request) is true; it may call
  // finish_one().
  template <typename F>
  void erase_if(const std::vector<JobState*>& due, const F& ends) {
    for (JobState* const state : due) {
      if (!state->queued) continue;
      std::erase_if(state->waiting, [&](const WaitingRequest& w) {
        if (!ends(w)) return false;
        forget(w);
        return true;
      });
      leave_if_empty(*state);
    }
    for (FetchWait& wait : fetch_waits_)
      std::erase_if(wait.requests,
                    [&](const WaitingRequest& w) { return w.state->due && ends(w); });
    drop_empty_waits();
  }

  // One more request of the job is finished; true: it was the last one. The job stays in its list,
  // which may be walked just then, until remove_ended().
  bool finish_one(JobState& state) noexcept;
  void remove_ended();
  // Puts jobs where the requests that they have left belong; `running` are those that do not wait.
  void rank(const std::list<std::unique_ptr<RunningRequest>>& running);

  // Nothing waits any longer: all jobs, until clear().
  const Jobs& abort() noexcept;
  void clear() noexcept;

 private:
  void forget(const WaitingRequest& request);
  void drop_empty_waits() {
    std::erase_if(fetch_waits_, [](const FetchWait& wait) { return wait.requests.empty(); });
  }

  Jobs queued_;
  Jobs engaged_;
  size_t looked_up_ = 0;
  std::vector<FetchWait> fetch_waits_;
  JobState::Deadlines deadlines_;
  JobState* ended_ = nullptr;  // linked by next_ended
  bool ranks_changed_ = false;
};

}  // namespace prefix
