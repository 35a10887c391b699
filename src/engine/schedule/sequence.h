// What the scheduler knows of a request while it runs.
//
//   RunningRequest (one request) ── sequences ──> one path in the tree each:
//       logits             [ prompt ]                    output wanted at its last token
//       embed              [ prompt ]                    outputs as its pooling says
//       logprobs           [ prompt ) last               outputs at from-1 .. n-2
//       choices            [ prompt | choice i ) last    outputs at n-1 .. n+c-2, each its branch
//       warm               [ prompt ]                    no output
//       generate           [ prompt | grows ]            output at the last token of each step
//
// A last token that is only scored (RequestSpec::scores_last) is none of the path.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "cache/lower_tiers.h"
#include "engine/job.h"
#include "engine/row_sum.h"
#include "engine/sampling/sampler.h"
#include "engine/schedule/draft_length.h"
#include "engine/schedule/texts.h"
#include "ops/logits.h"
#include "tree/tree.h"

namespace prefix {

struct JobState;

// What a generation guesses that comes next (drafting.cc).
struct Draft {
  DraftLength length;

  // In this step:
  std::vector<int32_t> tokens;    // behind the path
  std::vector<Sampler> samplers;  // of the rows of these tokens
  NodeId node = kNoNode;          // holds the last one
  bool cached = false;            // they are in the cache; else the path grew by them
  int32_t accepted = 0;           // the first ones, that the model says as well
  int32_t kept = 0;               // of these in the path, until they are results

  int32_t count() const { return static_cast<int32_t>(tokens.size()); }
};

struct Sequence {
  int32_t choice = -1;
  NodeId node = kNoNode;  // holds the last token; locked
  int32_t length = 0;     // tokens in the path
  int32_t behind = 0;     // behind it: 1 where a last token is only scored
  int32_t found = 0;      // those that were there when it was admitted, with the one behind it
  // Positions whose rows are read. Those before recompute_end were computed before the request
  // came and are computed once more to be read; the others are read when they are computed. Both in
  // ascending order, up to these marks:
  //
  //   first .. recompute_read .. recompute_next .. recompute_end .. output_next .. output_end
  //     \_ read _/     \_ in this step _/  \_ to do _/       \_ read _/    \_ to come _/
  int32_t output_end = 0;
  int32_t recompute_read = 0;
  int32_t recompute_next = 0;
  int32_t recompute_end = 0;
  int32_t output_next = 0;
  int32_t outputs_left = 0;
  int32_t reserved_pages = 0;
  int32_t reserved_tokens = 0;  // it may still grow by these, which its namespace's quota allows
  int32_t band = 0;             // pages set aside, through which its path slides (bands.h)
  bool decoding = false;
  int64_t turn = 0;                // decoding: grows from one that had a row to the next
  std::optional<Sampler> sampler;  // generate
  Draft draft;                     // generate
  // generate: the most likely tokens of the row that is read, as many as are kept, with their
  // log-probs in place of logits; behind them those of the rows of its draft.
  std::vector<ops::Candidate> top;
  RowSum mean;    // embed, pooling = mean
  TextRows rows;  // embed, of a text to keep: what was read of it

  // Of models with recurrent layers (states.h): it continues at `resume`, from the pinned state of
  // a node, from its own, or from the beginning of the text (0).
  int32_t resume = 0;
  int32_t reached = 0;  // what `resume` will be when the step is done
  NodeId resume_node = kNoNode;
  std::vector<int32_t> own;    // pages of the state that only it has: it decodes
  bool own_reserved = false;   // pages for that are set aside
  std::vector<int32_t> cuts;   // positions at which a state should stay in the cache, ascending
  std::vector<int32_t> asked;  // of these, those that the caller named, ascending
};

struct RunningRequest {
  std::shared_ptr<JobState> state;
  size_t index = 0;  // in the job
  NodeId root = kNoNode;
  bool own_root = false;  // nothing of it is in the cache: the root goes with the request
  bool slides = false;    // its sequences have bands
  // Of a whole text: where it is kept, and the rows that are, when the request reads no other ones.
  NodeId text_root = kNoNode;
  TextRows kept;
  bool started = false;
  bool end_counted = false;   // choices: that the prompt's last token was computed again
  int64_t last_token_ns = 0;  // generate: since submission
  std::vector<Sequence> sequences;

  bool answered() const { return !kept.positions.empty(); }
  const RequestSpec& spec() const;
  RequestResult& result() const;
  // Where the log-probs of a sequence go that are asked for, those of its last tokens; empty for
  // tasks without. PagePool::kNotKnown: still to be read.
  std::span<float> logprobs(const Sequence& sequence) const;
  // That of the token at `position`.
  float& logprob(const Sequence& sequence, int32_t position) const;
  // Prompt and answer so far, of a generation.
  std::vector<int32_t> text() const;
  // The token at `position` of a sequence.
  int32_t token_at(const Sequence& sequence, int32_t position) const;
};

// A request that is not admitted yet: plans look at it, or it waits for a fetch.
struct WaitingRequest {
  JobState* state = nullptr;
  size_t index = 0;        // in the job
  size_t rank = 0;         // among those of its job that waited when that came
  bool looked_up = false;  // in the tiers below, and need not be (again)
};

// Requests that wait for pages from a tier below, the same ones. No plan looks at them before these
// have come or will not.
struct FetchWait {
  std::shared_ptr<const Fetch> fetch;
  std::list<WaitingRequest> requests;
};

struct JobState {
  std::shared_ptr<Job> job;
  int64_t id = 0;
  std::list<std::shared_ptr<JobState>>::iterator place;  // among the scheduler's jobs
  bool queued = true;                                    // and of these, those in its queue
  JobState* next_ended = nullptr;                        // of those that are to leave them
  std::list<WaitingRequest> waiting;                     // that plans look at, next one in front
  size_t looked_up = 0;                                  // of these
  size_t unfinished = 0;
  int32_t priority = INT32_MIN;  // the highest of its unfinished requests
  bool one_priority = true;      // all its requests have the same
  bool one_namespace = true;
  std::vector<RunningRequest*> prompts;  // that this step computes rows of
  int64_t turn = 0;                      // how often its prompts had the rows of a step; turns.h
  int64_t turn_rows = 0;                 // in this one
  int64_t first_step = 0;                // steps that were made before it came
  using Deadlines = std::set<std::pair<int64_t, JobState*>>;
  int64_t deadline = INT64_MAX;         // of its unfinished requests, at the earliest
  Deadlines::node_type deadline_place;  // in the queue's; here while it is not there
  std::shared_ptr<Cancels::Place> cancels;
  bool due = false;  // some of them may end now: cancelled, or overdue
  JobTotals totals;
};

inline const RequestSpec& RunningRequest::spec() const { return state->job->spec(index); }
inline RequestResult& RunningRequest::result() const { return state->job->edit_result(index); }
inline std::vector<int32_t> RunningRequest::text() const {
  const std::vector<int32_t>& answer = result().tokens;
  std::vector<int32_t> all;
  all.reserve(spec().tokens.size() + answer.size());
  all = spec().tokens;
  all.insert(all.end(), answer.begin(), answer.end());
  return all;
}
inline int32_t RunningRequest::token_at(const Sequence& sequence, int32_t position) const {
  const std::vector<int32_t>& prompt = spec().tokens;
  const auto p = static_cast<size_t>(position);
  if (p < prompt.size()) return prompt[p];
  return spec().choices[static_cast<size_t>(sequence.choice)][p - prompt.size()];
}

inline std::span<float> RunningRequest::logprobs(const Sequence& sequence) const {
  RequestResult& r = result();
  if (spec().task == Task::kLogprobs) return r.values;
  if (spec().task != Task::kChoices) return {};
  const auto choice = static_cast<size_t>(sequence.choice);
  const auto begin = static_cast<size_t>(r.choice_offsets[choice]);
  return std::span(r.token_logprobs).subspan(begin, spec().choices[choice].size());
}
inline float& RunningRequest::logprob(const Sequence& sequence, int32_t position) const {
  const std::span<float> all = logprobs(sequence);
  return all[all.size() - static_cast<size_t>(sequence.length + sequence.behind - position)];
}

}  // namespace prefix
