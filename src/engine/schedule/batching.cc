// The second duty of a step: which rows it computes, and which sequences read them.
#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "engine/schedule/scheduler.h"

namespace prefix {
namespace {

// Between the first and the last position that are read not all need be.
bool is_read(const RunningRequest& request, const Sequence& s, int32_t position) {
  if (!request.logprobs(s).empty()) return std::isnan(request.logprob(s, position + 1));
  const RequestSpec& spec = request.spec();
  return spec.positions.empty() || std::ranges::binary_search(spec.positions, position);
}

}  // namespace

void Scheduler::fill_step() {
  builder_.begin();
  int32_t budget = options_.row_budget;
  budget -= fill_decode(budget - rows_for_prompts());
  // A text that is not cut may need all rows, so there the first job has no less.
  const std::vector<JobState*> order = jobs_with_prompts();
  size_t shares = 0;  // the first jobs of the highest rank get equal ones, then what is left
  while (shares < std::min(order.size(), kJobsAtOnce) &&
         order[shares]->priority == order.front()->priority)
    ++shares;
  if (shares > 1) {
    const int32_t share = options_.whole_texts
                              ? options_.row_budget
                              : options_.row_budget / static_cast<int32_t>(shares) + 1;
    for (size_t i = 0; i < shares && budget > 0; ++i)
      budget -= fill_prefill(*order[i], std::min(budget, share));
  }
  for (size_t i = 0; i < order.size() && budget > 0; ++i) budget -= fill_prefill(*order[i], budget);
}

// In the order in which they get rows: by rank, then by turns, then as they came.
// Lists what each has.
std::vector<JobState*> Scheduler::jobs_with_prompts() {
  const auto has_prompt = [](const Sequence& s) { return !s.decoding; };
  std::vector<JobState*> order;
  for (const auto& request : running_) request->state->prompts.clear();
  for (const auto& request : running_) {
    if (request->answered() || std::ranges::none_of(request->sequences, has_prompt)) continue;
    JobState& state = *request->state;
    if (state.prompts.empty()) order.push_back(&state);
    state.prompts.push_back(request.get());
  }
  std::ranges::sort(order, [](const JobState* a, const JobState* b) {
    return std::tuple(-int64_t{a->priority}, a->turn, a->id) <
           std::tuple(-int64_t{b->priority}, b->turn, b->id);
  });
  if (!order.empty()) turns_.raise(order.front()->turn);
  return order;
}

// What decoding leaves: nothing, unless a prompt waits that ranks no lower. Where all rows would go
// to generations, it would wait for their ends.
int32_t Scheduler::rows_for_prompts() const {
  int32_t decoding = INT32_MIN, prompts = INT32_MIN;
  for (const auto& request : running_)
    for (const Sequence& s : request->sequences) {
      int32_t& top = s.decoding ? decoding : prompts;
      top = std::max(top, request->spec().priority);
    }
  if (prompts == INT32_MIN || prompts < decoding) return 0;
  return options_.row_budget > 1 ? std::max(1, options_.row_budget / 4) : 0;
}

int32_t Scheduler::fill_decode(int32_t budget) {
  std::vector<std::pair<RunningRequest*, Sequence*>> decoding;
  for (const auto& request : running_)
    for (Sequence& s : request->sequences)
      if (s.decoding) decoding.emplace_back(request.get(), &s);
  if (decoding.empty()) return 0;
  // More than there are rows for: those of the highest priority, and of these who waited longest.
  if (std::ssize(decoding) > budget)
    std::ranges::stable_sort(decoding, {}, [](const auto& one) {
      return std::pair(-int64_t{one.first->spec().priority}, one.second->turn);
    });
  int32_t drafts = rows_for_drafts(budget, decoding.size());
  auto drafting = static_cast<int32_t>(std::ranges::count_if(
      decoding, [](const auto& one) { return one.first->spec().draft_tokens > 0; }));
  int32_t used = 0;
  for (const auto& [request, s] : decoding) {
    if (used >= budget) break;
    const int32_t rows = add_decode_rows(*s, budget - used);
    used += rows;
    request->state->totals.rows += rows;
    s->turn = ++decode_turn_;
    if (request->spec().draft_tokens == 0) continue;
    const int32_t more = draft(*request, *s, drafts / drafting--);
    drafts -= more;
    used += more;
    request->state->totals.rows += more;
  }
  return used;
}

int32_t Scheduler::add_decode_rows(const Sequence& s, int32_t budget) {
  if (states_.on()) return builder_.scan(s.node, s.resume, s.length, budget).rows();
  const Node& node = tree_.node(tree_.node_at(s.node, s.length - 1));
  if (s.length - node.start <= node.computed) return builder_.recompute(s.node, s.length - 1);
  return take(s, budget);
}

int32_t Scheduler::take(const Sequence& s, int32_t budget) {
  const int32_t end = bands_.fill(s);
  return end > 0 ? builder_.take(s.node, end, budget) : 0;
}

int32_t Scheduler::fill_prefill(JobState& state, int32_t budget) {
  int32_t used = 0;
  for (RunningRequest* request : state.prompts) {
    if (used >= budget) break;
    for (Sequence& s : request->sequences) {
      if (s.decoding) continue;
      if (options_.whole_texts && s.length > budget - used) continue;
      for (; s.recompute_next < s.recompute_end && used < budget; ++s.recompute_next) {
        if (!is_read(*request, s, s.recompute_next)) continue;
        const int32_t rows = builder_.recompute(s.node, s.recompute_next);
        accounting_.count_recomputed(*request, s, s.recompute_next, rows);
        used += rows;
      }
      if (states_.on()) {
        // A choice whose log-probs were known: none of its rows is read.
        if (s.outputs_left == 0 && request->spec().task == Task::kChoices &&
            tree_.computed_end(s.node, s.length) == s.length)
          continue;
        const StepBuilder::Scanned added = builder_.scan(s.node, s.resume, s.length, budget - used);
        accounting_.count_scanned(*request, added.recomputed);
        used += added.rows();
      } else if (used < budget) {
        used += take(s, budget - used);
      }
      begin(*request);
    }
  }
  state.totals.rows += used;
  turns_.count(state, used);
  return used;
}

void Scheduler::begin(RunningRequest& request) {
  if (std::exchange(request.started, true)) return;
  request.result().timing.queue_us = request.state->job->age_ns() / 1000;
  request.state->job->post(request.index, Event::kStarted);
}

// Its rows are there already.
void Scheduler::answer(RunningRequest& request) {
  begin(request);
  for (size_t i = 0; i < request.kept.positions.size(); ++i) {
    const std::span<const float> row = request.kept.row(i);
    outputs_.push_back({.request = &request,
                        .position = request.kept.positions[i],
                        .row = Output::kKept,
                        .values = {row.begin(), row.end()}});
  }
}

// A row may serve sequences whose turn did not come: every one that waits for it reads it now.
void Scheduler::collect_outputs() {
  for (const auto& request : running_) {
    if (request->answered()) answer(*request);
    if (request->answered() || step_.rows() == 0) continue;
    for (size_t i = 0; i < request->sequences.size(); ++i) {
      Sequence& s = request->sequences[i];
      if (s.outputs_left == 0) continue;
      const auto read = [&](int32_t position, NodeId node, int32_t drafted = 0) {
        const int32_t row = builder_.row_of(node, position);
        if (row >= 0) begin(*request);
        if (row >= 0 && is_read(*request, s, position))
          outputs_.push_back({.request = request.get(),
                              .sequence = i,
                              .position = position,
                              .draft = drafted,
                              .row = row});
        return row >= 0;
      };
      if (s.decoding) {
        bool there = read(s.length - 1, s.node);
        for (int32_t n = 1; n <= s.draft.count() && there; ++n)
          there = read(s.length - 1 + n, s.draft.node, n);
        continue;
      }
      while (s.recompute_read < s.recompute_next) read(s.recompute_read++, s.node);
      while (s.output_next < s.output_end && read(s.output_next, s.node)) ++s.output_next;
    }
  }
  for (const Output& output : outputs_)
    if (output.row != Output::kKept) step_.reads.push_back(output.row);
  std::sort(step_.reads.begin(), step_.reads.end());
  step_.reads.erase(std::unique(step_.reads.begin(), step_.reads.end()), step_.reads.end());
}

}  // namespace prefix
