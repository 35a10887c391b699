// The second duty of a step: which rows it computes, and which sequences read them.
#include <algorithm>
#include <utility>

#include "engine/schedule/scheduler.h"

namespace prefix {
namespace {

// Between the first and the last position that are read not all need be.
bool is_read(const RequestSpec& spec, int32_t position) {
  return spec.positions.empty() || std::ranges::binary_search(spec.positions, position);
}

}  // namespace

void Scheduler::fill_step() {
  builder_.begin();
  int32_t budget = options_.row_budget;
  budget -= fill_decode(budget - rows_for_prompts());
  // Jobs take turns: each gets an equal share, then what is left goes to the first ones. A text
  // that is not cut may need all of it, so there the first one has no less.
  std::vector<JobState*> order;
  for (const auto& state : jobs_) order.push_back(state.get());
  if (order.size() > 1) {
    const auto turn = static_cast<size_t>(job_turn_++) % order.size();
    const int32_t top = order.front()->priority;
    const int32_t share = options_.whole_texts
                              ? options_.row_budget
                              : options_.row_budget / static_cast<int32_t>(order.size()) + 1;
    for (size_t i = 0; i < order.size() && budget > 0; ++i) {
      JobState* state = order[(turn + i) % order.size()];
      if (state->priority < top) continue;
      budget -= fill_prefill(state, std::min(budget, share));
    }
  }
  for (size_t i = 0; i < order.size() && budget > 0; ++i) budget -= fill_prefill(order[i], budget);
}

// What decoding leaves: nothing, unless a prompt waits that ranks no lower. Where all rows would go to
// generations, it would wait for their ends.
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
  int32_t used = 0;
  const auto n = decoding.size();
  const size_t turn = n > static_cast<size_t>(budget) ? static_cast<size_t>(decode_turn_) % n : 0;
  for (size_t i = 0; i < n && used < budget; ++i) {
    const auto& [request, s] = decoding[(turn + i) % n];
    const Node& node = tree_.node(tree_.node_at(s->node, s->length - 1));
    int32_t rows;
    if (states_.on()) {
      rows = builder_.scan(s->node, s->resume, s->length, budget - used).rows();
    } else if (s->length - node.start <= node.computed) {
      rows = builder_.recompute(s->node, s->length - 1);
    } else {
      rows = builder_.take(s->node, bands_.fill(*s), budget - used);
    }
    used += rows;
    request->state->totals.rows += rows;
    ++decode_turn_;
  }
  return used;
}

int32_t Scheduler::fill_prefill(JobState* only, int32_t budget) {
  int32_t used = 0;
  for (const auto& request : running_) {
    if (used >= budget) break;
    if (request->state.get() != only || request->answered()) continue;
    for (Sequence& s : request->sequences) {
      if (s.decoding) continue;
      if (options_.whole_texts && s.length > budget - used) continue;
      for (; s.recompute_next < s.recompute_end && used < budget; ++s.recompute_next) {
        const int32_t rows = builder_.recompute(s.node, s.recompute_next);
        accounting_.count_recomputed(*request, s, s.recompute_next, rows);
        used += rows;
      }
      if (states_.on()) {
        const StepBuilder::Scanned added = builder_.scan(s.node, s.resume, s.length, budget - used);
        accounting_.count_scanned(*request, added.recomputed);
        used += added.rows();
      } else {
        if (used < budget) used += builder_.take(s.node, bands_.fill(s), budget - used);
      }
      begin(*request);
    }
  }
  only->totals.rows += used;
  return used;
}

void Scheduler::begin(RunningRequest& request) {
  if (std::exchange(request.started, true)) return;
  request.result().timing.queue_us = request.state->job->age_ns() / 1000;
  post(request, {.kind = Event::kStarted});
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
      const auto read = [&](int32_t position) {
        const int32_t row = builder_.row_of(s.node, position);
        if (row >= 0) begin(*request);
        if (row >= 0 && is_read(request->spec(), position))
          outputs_.push_back(
              {.request = request.get(), .sequence = i, .position = position, .row = row});
        return row >= 0;
      };
      if (s.decoding) {
        read(s.length - 1);
        continue;
      }
      while (s.recompute_read < s.recompute_next) read(s.recompute_read++);
      while (s.output_next < s.output_end && read(s.output_next)) ++s.output_next;
    }
  }
  for (const Output& output : outputs_)
    if (output.row != Output::kKept) step_.reads.push_back(output.row);
  std::sort(step_.reads.begin(), step_.reads.end());
  step_.reads.erase(std::unique(step_.reads.begin(), step_.reads.end()), step_.reads.end());
}

}  // namespace prefix
