// Decides what every step computes, and turns its results into tokens and scores.
//
//   enqueue ─> waiting ─ admit (match, extend, lock) ─> prefill ─┬─> finished
//               │  ^                                             └─> decode ─> finished
//               v  └ the fetch has ended
//              waits for pages from a tier below
//
//   loop:  plan()     under the engine's lock: expire (scheduler.cc), admit (admission.cc), fill a
//                     step and lay it out (batching.cc)
//          execute()  without the lock: the model runs, heads and sampling (results.cc)
//          complete() under the lock: commit to the tree, apply results (results.cc)
//
// A step takes one row for each decoding sequence and fills the rest of the row budget with pending
// prompt tokens, a few jobs at a time taking turns; a prompt that ranks no lower finds a quarter
// left. Nothing is padded; a sequence that ends leaves at once. Requests whose pages do not fit
// wait until others finish; who lacks room in a quota holds up its own namespace alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cache/leases.h"
#include "engine/outputs.h"
#include "engine/schedule/accounting.h"
#include "engine/schedule/bands.h"
#include "engine/schedule/job_queue.h"
#include "engine/schedule/namespace_uses.h"
#include "engine/schedule/roots.h"
#include "engine/schedule/sequence.h"
#include "engine/schedule/states.h"
#include "engine/schedule/texts.h"
#include "engine/schedule/turns.h"
#include "model/model.h"
#include "plan/step.h"
#include "tree/policy_ghosts.h"
#include "tree/tree.h"

namespace prefix {

struct SchedulerOptions {
  int32_t row_budget = 2048;
  bool sharing = true;  // off: every request computes and stores its own path
  bool cache = true;    // off: nodes go with the last request that uses them
  int32_t threads = 1;
  // Null: the tree keeps its policy, and no state is placed by what was learned.
  std::shared_ptr<PolicyGhosts> ghosts;
  int32_t path_states = 0;  // that stay on a path; 0: no limit
  // A text is in one step as a whole, or not at all: its tokens see those behind them. What is kept
  // of it is what was read (texts.h), and no text is longer than the row budget.
  bool whole_texts = false;
  // Called between the layers of a step and between blocks of its results; may cancel jobs. Null:
  // nothing.
  std::function<void()> between_layers;
};

// How much of its own path in the cache is left to a request that did not fit.
enum class OwnPath : uint8_t { kAll, kWholePages, kNothing };

class Scheduler {
 public:
  // tiers may be null, and are without sharing. Deadlines, times to live and leases go by `now`.
  Scheduler(Model& model, KvMemory& kv, PagePool& pages, Tree& tree,
            const SchedulerOptions& options, LowerTiers* tiers, Now now = Clock::now);

  // Takes the requests of the job that are not finished yet (bad ones were refused before).
  void enqueue(std::shared_ptr<Job> job);
  bool idle() const { return jobs_.empty(); }
  // After plan(): there is nothing to compute, all requests wait for pages from a tier below.
  bool blocked_on_tiers() const { return step_.rows() == 0 && running_.empty() && !idle(); }

  void plan();
  void execute();
  void complete();

  // Ends everything that is waiting or running with this status, whatever state it is in, and takes
  // no memory. For an engine that failed or is being closed: nothing may be run afterwards.
  void abort_all(Code code, const char* message) noexcept;

  // Gives up the step that runs, between two layers; abort_all() is to come. Any thread.
  void stop() { stopped_ = true; }

  // Evicts what is past its time to live, and ends leases that are.
  void expire_cache();

  int64_t add_lease(NodeId node, int64_t ttl_ms) { return leases_.add(node, end_of(ttl_ms)); }
  bool remove_lease(int64_t lease) { return leases_.remove(lease); }
  void end_leases(int32_t name_space) { leases_.end_in(name_space); }
  // Requests that are not finished name it.
  bool uses(int32_t name_space) const { return uses_.has_requests(name_space); }
  // Tokens by which generations of a namespace that run may still grow.
  int64_t reserved_tokens(int32_t name_space) const { return uses_.reserved_tokens(name_space); }
  // Throws kInternal where that is not what their sequences have set aside; for tests.
  void check() const;
  // A namespace that no request uses and whose roots have no children.
  void forget(int32_t name_space) {
    roots_.remove(name_space);
    uses_.forget(name_space);
  }

  Roots& roots() { return roots_; }
  const SchedulerCounters& counters() const { return accounting_.counters(); }
  MissReasons& misses() { return accounting_.misses(); }
  const RequestHistograms& histograms() const { return accounting_.histograms(); }
  bool failed() const { return failed_; }

 private:
  // admission.cc: paths in the tree, reservations.
  void admit();
  bool admit_from(const std::shared_ptr<JobState>& state);
  bool is_blocked(const JobState& state, size_t index) const;
  // Nothing can be looked up in the tiers now.
  bool tiers_busy() const { return tiers_ && tiers_->busy(); }
  bool waits_for_tier(JobQueue::Waiting request);
  enum class Admission : uint8_t { kEnough, kLacksQuota, kLacksPages };
  Admission admit_request(const std::shared_ptr<JobState>& state, size_t index);
  bool room_comes(const RunningRequest& request, bool lacks_quota) const;
  void set_root(RunningRequest& request);
  int32_t pages_alone(const RunningRequest& request) const;
  bool fits_alone(const RunningRequest& request) const;
  NodeId shared_root(const RequestSpec& spec);
  NodeId add_own_root(const RunningRequest& request);
  AttachOptions use_of(int64_t job, const RequestSpec& spec) const;
  AttachOptions use_of(const RunningRequest& request) const {
    return use_of(request.state->id, request.spec());
  }
  Sequence answered_sequence(RunningRequest& request);
  std::vector<int64_t> placed_states(const RequestSpec& spec, const Match& match) const;
  Sequence make_sequence(RunningRequest& request, int32_t choice);
  void set_aside(RunningRequest& request, Sequence& s, int32_t growth);
  void refuse_what_never_fits(const RunningRequest& request, int32_t prompt, int32_t growth) const;
  [[noreturn]] void refuse_growth(int32_t growth) const;
  void make_results(RunningRequest& request) const;
  Match continuable(RunningRequest& request, std::span<const int32_t> tokens, Match match,
                    int32_t output_begin);
  void leave_shared_root(RunningRequest& request);
  bool drop_own_path(RunningRequest& request, OwnPath& kept);
  int32_t reserved_growth(const RunningRequest& request) const;
  int32_t namespace_of(const RunningRequest& request) const;

  // batching.cc: the rows of a step.
  void fill_step();
  int32_t rows_for_prompts() const;
  int32_t fill_decode(int32_t budget);
  int32_t add_decode_rows(const Sequence& s, int32_t budget);
  // Tokens of a sequence that are not computed yet.
  int32_t take(const Sequence& s, int32_t budget);
  std::vector<JobState*> jobs_with_prompts();
  int32_t fill_prefill(JobState& state, int32_t budget);
  void collect_outputs();
  void begin(RunningRequest& request);
  void answer(RunningRequest& request);

  // drafting.cc: several tokens of a generation in a step.
  static int32_t rows_for_drafts(int32_t budget, size_t generations);
  int32_t draft(RunningRequest& request, Sequence& s, int32_t limit);
  bool guess(const RunningRequest& request, Sequence& s, size_t limit);
  void grow_by_draft(RunningRequest& request, Sequence& s);
  void settle_drafts();
  void check_draft(std::span<const Output> outputs);
  void end_draft(RunningRequest& request, Sequence& s);
  void take_back(RunningRequest& request, Sequence& s, int32_t wrong);

  // results.cc: what comes of them.
  bool everything_cancelled() const;
  void commit();
  void apply(Output& output);
  void compute_alone(RunningRequest& request, Sequence& s);
  bool ends(const RunningRequest& request, int32_t token) const;
  void apply_token(RunningRequest& request, Sequence& s, const Output& output);
  void extend(RunningRequest& request, Sequence& s, int32_t token, const AttachOptions& use);
  bool is_complete(const RunningRequest& request) const;
  void finish_complete();

  // scheduler.cc: the end of a request. What costs a look at all that waits is done only
  // when there is something to find.
  void expire_requests();
  int64_t deadline_of(const Job& job, size_t index) const;
  void refuse(JobState& state, size_t index, Code code, std::string message) noexcept;
  void finish(RunningRequest& request, Code code, const std::string& message);
  void follow_ghosts(const RunningRequest& request) noexcept;
  void end_sequence(const RunningRequest& request, Sequence& s, bool ran);
  void end_sequences(RunningRequest& request);
  void release(RunningRequest& request);
  void finish_request(JobState& state, size_t index) noexcept;
  void remove_finished();
  int64_t now_ms() const;
  // Of a time to live that begins now, on the clock of now_ms(); 0: it has none.
  int64_t end_of(int64_t ttl_ms) const {
    if (ttl_ms <= 0) return 0;
    const int64_t now = now_ms();
    return now + std::min(ttl_ms, INT64_MAX - now);
  }

  Model& model_;
  KvMemory& kv_;
  PagePool& pages_;
  Tree& tree_;
  LowerTiers* tiers_;
  SchedulerOptions options_;
  StepBuilder builder_;
  StepPlan step_;
  States states_;
  Texts texts_;
  Bands bands_;
  Heads heads_;
  std::vector<Output> outputs_;
  std::span<const int32_t> not_finite_;  // of the rows of the step: Step::not_finite()
  JobQueue jobs_;
  std::list<std::unique_ptr<RunningRequest>> running_;  // admission order
  Roots roots_;
  Leases leases_;
  NamespaceUses uses_;
  Accounting accounting_;
  int64_t next_job_ = 1;
  int64_t decode_turn_ = 0;
  Turns turns_;
  bool finished_ = false;  // some of running_ is over
  std::shared_ptr<Cancels> cancels_ = std::make_shared<Cancels>();
  // The request that pages were lacking for last, and how often the tree had changed by then.
  struct {
    int64_t job = 0;
    size_t index = 0;
    int64_t changes = 0;
  } blocked_;
  bool drafted_ = false;  // the step has rows of drafts
  bool step_ok_ = false;
  int64_t step_ns_ = 0;
  bool failed_ = false;
  std::atomic<bool> stopped_{false};
  Now now_;
  Clock::time_point start_;
  Code error_ = Code::kOk;
  std::string error_message_;
};

}  // namespace prefix
