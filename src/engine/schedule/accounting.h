// What requests got from the cache and what they cost: the usage of each, the totals of its job,
// the counters and histograms of the engine, and why prompt tokens were not in the cache.
//
//   prompt tokens of a request = cached | shared | computed
//                                   |        |        └─ in a step, for this request
//                                   |        └─ computed for another request of its job, or pending
//                                   └─ in the tree, computed before its job came
#pragma once

#include <cstdint>

#include "cache/miss_reasons.h"
#include "engine/request_histograms.h"
#include "engine/schedule/sequence.h"
#include "tree/tree.h"

namespace prefix {

struct SchedulerCounters {
  int64_t running = 0, waiting = 0, finished = 0, failed = 0;              // requests
  int64_t given = 0, computed = 0, cached = 0, shared = 0, generated = 0;  // tokens
  MissCounts missed;                                                       // of `computed`
  int64_t steps = 0, rows = 0, plan_ns = 0, run_ns = 0;
  int64_t drafted = 0, drafts_accepted = 0;  // tokens of drafts
  int64_t looks = 0;                         // of plans at requests that wait, and at their jobs
};

class Accounting {
 public:
  Accounting(const Tree& tree, int32_t max_positions) : tree_(tree), histograms_(max_positions) {}

  // A request leaves the queue and runs; or does not fit and goes back.
  void admitted() { --counters_.waiting, ++counters_.running; }
  void put_back() { ++counters_.waiting, --counters_.running; }

  // Adds positions [from, length) of a sequence to its request's usage.
  // `match` is what the tree had of it before it was attached.
  void count_usage(RunningRequest& request, const Sequence& s, const Match& match, int32_t from);
  // Of an admitted request, which finds all of its text or nothing (whole).
  void count_misses(RunningRequest& request, bool whole);
  // A position that was counted as cached or shared is computed once more to be read: by a row of
  // its own (rows = 1), or by one that is in the step already (rows = 0). Choices share the
  // positions of their prompt, which were counted for the first one.
  void count_recomputed(RunningRequest& request, const Sequence& s, int32_t position, int32_t rows);
  // Tokens that were counted as cached or shared are computed once more, because the state behind
  // them is not there.
  void count_scanned(RunningRequest& request, int32_t tokens);
  // Tokens of a generation were guessed, or turned out to be what the model says.
  void count_draft(RunningRequest& request, int32_t drafted, int32_t accepted) noexcept;
  // A generation has one token more; `age_ns` is the time since its submission.
  void count_token(RunningRequest& request, int64_t age_ns) noexcept;
  // The result has the status, the usage and the times of a request that ends now.
  void count_finished(Task task, const RequestResult& result, JobTotals& totals) noexcept;

  SchedulerCounters& counters() { return counters_; }
  const SchedulerCounters& counters() const { return counters_; }
  MissReasons& misses() { return misses_; }
  const RequestHistograms& histograms() const { return histograms_; }

 private:
  const Tree& tree_;
  SchedulerCounters counters_;
  MissReasons misses_;
  RequestHistograms histograms_;
};

}  // namespace prefix
