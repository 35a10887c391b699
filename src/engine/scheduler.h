// Decides what every step computes, and turns its results into tokens and scores.
//
//   enqueue ─> waiting ─ admit (match, extend, lock) ─> prefill ─┬─> finished
//                                                                └─> decode ─> finished
//   loop:  plan()     under the engine's lock: admit, cancel, fill a step, lay it out
//          execute()  without the lock: the model runs, heads and sampling
//          complete() under the lock: commit to the tree, hand out results
//
// A step takes one row for each decoding sequence and fills the rest of the row budget with pending
// prompt tokens, jobs taking turns. Nothing is padded; a sequence that ends leaves at once.
// Requests whose pages do not fit wait until others finish.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "engine/leases.h"
#include "engine/miss_reasons.h"
#include "engine/outputs.h"
#include "engine/sequence.h"
#include "model/model.h"
#include "plan/step.h"
#include "tree/tree.h"

namespace prefix {

struct SchedulerOptions {
  int32_t row_budget = 2048;
  bool sharing = true;  // off: every request computes and stores its own path
  bool cache = true;    // off: nodes go as soon as nobody runs on them
  int32_t threads = 1;
};

struct SchedulerCounters {
  int64_t running = 0, waiting = 0, finished = 0, failed = 0;
  int64_t given = 0, computed = 0, cached = 0, shared = 0, generated = 0;
  int64_t steps = 0, rows = 0, plan_ns = 0, run_ns = 0;
};

class Scheduler {
 public:
  // tiers may be null, and are without sharing.
  Scheduler(Model& model, KvMemory& kv, PagePool& pages, Tree& tree,
            const SchedulerOptions& options, LowerTiers* tiers);

  // Takes the requests of the job that are not finished yet (bad ones were refused before).
  void enqueue(std::shared_ptr<Job> job);
  bool idle() const { return jobs_.empty(); }
  // After plan(): there is nothing to compute, all requests wait for pages from a tier below.
  bool only_waits() const { return step_.rows() == 0 && active_.empty() && !jobs_.empty(); }

  void plan();
  void execute();
  void complete();

  // Ends everything that is waiting or running with this status, whatever state it is in, and takes
  // no memory. For an engine that failed or is being closed: nothing may be run afterwards.
  void abort_all(Code code, const char* message) noexcept;

  NodeId root_of(int32_t name_space, int32_t length);
  // Evicts what is past its time to live, and ends leases that are.
  void expire_cache();
  // Roots of one namespace, one per rotary regime that was used.
  std::vector<NodeId> roots_of(int32_t name_space) const;

  int64_t add_lease(NodeId node, int64_t ttl_ms) {
    return leases_.add(node, ttl_ms > 0 ? now_ms() + ttl_ms : 0);
  }
  bool remove_lease(int64_t lease) { return leases_.remove(lease); }

  const SchedulerCounters& counters() const { return counters_; }
  MissReasons& misses() { return misses_; }
  bool failed() const { return failed_; }

 private:
  void admit();
  int32_t longest(const RequestSpec& spec) const;
  bool waits_for_tier(const JobState& state, Waiting& waiting);
  bool admit_request(const std::shared_ptr<JobState>& state, size_t index);
  bool drop_own_path(Active& a);
  int32_t growth(const RequestSpec& spec) const;
  static int32_t pages_to_grow(int32_t tokens);
  Sequence make_sequence(Active& active, int32_t choice);
  static int32_t space_of(const Active& active);
  int32_t promised(const Active& active) const;
  void count_misses(const Active& active);
  void count_usage(Active& active, const Sequence& s, const Match& match, int32_t from);
  void end_overdue();
  int64_t now_ms() const;
  void fill_step();
  int32_t fill_decode(int32_t budget);
  int32_t fill_prefill(JobState* only, int32_t budget);
  void collect_outputs();
  bool is_complete(const Active& active) const;
  bool everything_cancelled() const;
  void commit();
  void apply(Output& output);
  void apply_token(Active& active, Sequence& s, const Output& output);
  void finish(Active& active, Code code, const std::string& message);
  void end_sequences(Active& active);
  void release(Active& active);
  void finish_request(JobState& state, size_t index) noexcept;
  void post(const Active& active, Event event) const;
  void remove_finished();

  Model& model_;
  KvMemory& kv_;
  PagePool& pages_;
  Tree& tree_;
  LowerTiers* tiers_;
  SchedulerOptions options_;
  StepBuilder builder_;
  StepPlan step_;
  Heads heads_;
  std::vector<Output> outputs_;
  std::span<const int32_t> not_finite_;        // of the rows of the step: Device::not_finite()
  std::list<std::shared_ptr<JobState>> jobs_;  // with unfinished requests
  std::list<std::unique_ptr<Active>> active_;  // admission order
  std::map<int64_t, NodeId> roots_;            // (namespace, regime)
  Leases leases_;
  std::unordered_map<int32_t, int64_t> promised_tokens_;  // to generations, by space
  SchedulerCounters counters_;
  MissReasons misses_;
  int64_t next_job_ = 1;
  int64_t next_order_ = 0;
  int64_t decode_turn_ = 0;
  int64_t job_turn_ = 0;
  bool step_ok_ = false;
  int64_t step_ns_ = 0;
  bool failed_ = false;
  Clock::time_point start_ = Clock::now();
  Code error_ = Code::kOk;
  std::string error_message_;
};

}  // namespace prefix
