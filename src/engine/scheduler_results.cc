// The second half of a step: it is computed, and its results go to those who asked.
#include <algorithm>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/page.h"
#include "base/status.h"
#include "engine/scheduler.h"

namespace prefix {
// --- running ---------------------------------------------------------------------------------

bool Scheduler::everything_cancelled() const {
  return std::all_of(active_.begin(), active_.end(), [](const std::unique_ptr<Active>& a) {
    return a->state->job->cancel_requested(a->index);
  });
}

void Scheduler::execute() {
  if (step_.rows() == 0) return;
  const auto start = now_();
  error_ = Code::kOk;
  try {
    std::optional<ops::Step> step =
        model_.forward(step_, kv_, [this] { return everything_cancelled(); });
    step_ok_ = step.has_value();
    // Results are there when they were downloaded; a step that nobody reads must be waited for.
    if (step) {
      if (outputs_.empty()) step->wait();
      heads_.compute(outputs_);
      not_finite_ = model_.device().not_finite();
      step->end();
    }
  } catch (const Error& e) {
    error_ = e.code();
    error_message_ = e.message();
  } catch (const std::bad_alloc&) {
    error_ = Code::kOutOfMemory;
    error_message_ = cat("out of host memory in a step of ", step_.rows(), " rows");
  } catch (const std::exception& e) {
    error_ = Code::kInternal;
    error_message_ = e.what();
  }
  if (error_ != Code::kOk) step_ok_ = false;
  step_ns_ = ns_of(now_() - start);  // counters are read under the lock, which is not held here
}

void Scheduler::complete() {
  const int64_t ns = std::exchange(step_ns_, 0);
  counters_.run_ns += ns;
  if (error_ != Code::kOk) {
    // Nothing of the step was committed; every running request shares its fate.
    const Code code = std::exchange(error_, Code::kOk);
    // A mistake of the library, or a device that answers no call any more.
    failed_ = code == Code::kInternal || code == Code::kDeviceLost;
    for (const auto& a : active_) finish(*a, code, error_message_);
    remove_finished();
    return;
  }
  if (!step_ok_) return;  // given up for cancellation: end_overdue() ends the requests
  ++counters_.steps;
  counters_.rows += step_.rows();
  if (tiers_) tiers_->computed(step_.rows(), ns);
  commit();
  for (const auto& state : jobs_) ++state->totals.steps;
  const auto finish_complete = [&] {
    for (const auto& a : active_)
      if (is_complete(*a)) finish(*a, Code::kOk, "");
  };
  for (Output& output : outputs_) {
    if (output.active->spec().task == Task::kGenerate || output.status != Code::kOk) continue;
    apply(output);
  }
  finish_complete();  // before generations grow: it may make room for them
  for (Output& output : outputs_) {
    if (output.status != Code::kOk) {
      finish(*output.active, output.status, output.message);
    } else if (output.active->spec().task == Task::kGenerate) {
      apply(output);
    }
  }
  finish_complete();
  remove_finished();
}

// The tokens of the step now have keys and values, but for those that are not finite and what comes
// behind them: these stay pending, so that no page with them counts as computed, and whoever needs
// them fails.
void Scheduler::commit() {
  struct Spoiled {
    NodeId node;
    int32_t position;
  };
  std::vector<Spoiled> spoiled;
  for (const StepPlan::Commit& c : step_.commits) {
    const Node& n = tree_.node(c.node);
    const Node& parent = tree_.node(n.parent);
    if (parent.computed < parent.length) continue;  // spoiled further up
    const auto flags = not_finite_.subspan(static_cast<size_t>(c.row),
                                           static_cast<size_t>(c.computed - n.computed));
    const auto first = std::find_if(flags.begin(), flags.end(), [](int32_t f) { return f != 0; });
    const int32_t computed = n.computed + static_cast<int32_t>(first - flags.begin());
    if (computed < c.computed) spoiled.push_back({c.node, n.start + computed});
    if (computed > n.computed) tree_.set_computed(c.node, computed);
  }
  for (const Spoiled& s : spoiled) {
    const Node& n = tree_.node(s.node);
    const std::string message = cat(
        "the model's key or value for token ", tree_.token(n, s.position - n.start),
        " at position ", s.position,
        " is not finite (NaN or infinity), by its weights or by this input; nothing from there ",
        "on was kept");
    const auto needs = [&](const Sequence& q) {
      return q.length > s.position && tree_.node_at(q.node, s.position) == s.node;
    };
    for (const auto& a : active_)
      if (std::any_of(a->sequences.begin(), a->sequences.end(), needs))
        finish(*a, Code::kNotFinite, message);
  }
}

void Scheduler::apply(Output& output) {
  Active& a = *output.active;
  if (a.sequences.empty()) return;  // finished by an error of another output
  Sequence& s = a.sequences[output.sequence];
  RequestResult& result = a.result();
  const RequestSpec& spec = a.spec();
  if (result.timing.first_us == 0) result.timing.first_us = a.state->job->age_ns() / 1000;
  switch (spec.task) {
    case Task::kLogits:
    case Task::kEmbed:
      result.values = std::move(output.values);
      break;
    case Task::kLogprobs:
      result.values[static_cast<size_t>(output.position + 1 - spec.from)] = output.logprob;
      break;
    case Task::kChoices: {
      const auto base = static_cast<size_t>(result.choice_offsets[static_cast<size_t>(s.choice)]);
      const size_t at = static_cast<size_t>(output.position + 1) - spec.tokens.size();
      result.token_logprobs[base + at] = output.logprob;
      break;
    }
    case Task::kGenerate:
      apply_token(a, s, output);
      return;
    case Task::kWarm:
      break;  // reads nothing
  }
  --s.outputs_left;
}

void Scheduler::apply_token(Active& a, Sequence& s, const Output& output) {
  const RequestSpec& spec = a.spec();
  RequestResult& result = a.result();
  const int32_t token = output.sampled.token;
  result.tokens.push_back(token);
  a.history.push_back(token);
  if (spec.sampling.logprobs) result.token_logprobs.push_back(output.sampled.logprob);
  ++result.usage.generated;
  post(a, {.kind = Event::kToken, .token = token, .logprob = output.sampled.logprob});

  const auto contains = [&](const std::vector<int32_t>& ids) {
    return std::find(ids.begin(), ids.end(), token) != ids.end();
  };
  const bool stop = contains(spec.sampling.stop_tokens) ||
                    (!spec.sampling.ignore_eos && contains(model_.config().eos_ids));
  const bool full =
      result.usage.generated >= spec.sampling.max_tokens || s.length >= model_.max_positions();
  if (stop || full) {
    result.finish = stop ? Finish::kStop : Finish::kLength;
    s.outputs_left = 0;
    return;
  }
  // What was promised at admission suffices for a path of its own. But whenever somebody has
  // continued this path by another token meanwhile, leaving him takes one page more.
  if (s.reserved_pages <= pages_between(0, s.promised_tokens - 1)) {
    if (!tree_.make_room(1, space_of(a))) {
      finish(a, Code::kCacheFull,
             cat("after ", result.usage.generated, " tokens the generation needs one page more, ",
                 "because others continue it differently, but all ", pages_.capacity(),
                 " (cache_bytes) are in use"));
      return;
    }
    pages_.reserve(1);
    ++s.reserved_pages;
  }
  int32_t pages = 0;
  s.node = tree_.advance(s.node, s.length, token, static_cast<uint32_t>(a.state->id), &pages);
  pages_.unreserve(pages);
  s.reserved_pages -= pages;
  --s.promised_tokens;
  --promised_tokens_[space_of(a)];
  ++s.length;
  s.decoding = true;
}

// --- ending ----------------------------------------------------------------------------------

void Scheduler::end_sequences(Active& a) {
  for (const Sequence& s : a.sequences) {
    pages_.unreserve(s.reserved_pages);
    if (s.promised_tokens > 0) promised_tokens_[space_of(a)] -= s.promised_tokens;
    if (tiers_) tiers_->save(s.node, s.length);
    tree_.unlock(s.node, options_.cache && !a.own_root);
  }
  a.sequences.clear();
}

void Scheduler::release(Active& a) {
  end_sequences(a);
  if (a.own_root && a.root != kNoNode) tree_.remove_root(a.root);
  a.root = kNoNode;
}

void Scheduler::finish(Active& a, Code code, const std::string& message) {
  if (a.root == kNoNode) return;  // finished already in this step
  RequestResult& result = a.result();
  result.status = code;
  result.message = message;
  if (code != Code::kOk)
    result.finish = code == Code::kCancelled ? Finish::kCancelled : Finish::kError;
  if (code == Code::kOk && a.spec().task == Task::kChoices) {
    for (size_t c = 0; c + 1 < result.choice_offsets.size(); ++c) {
      double sum = 0;
      for (int64_t i = result.choice_offsets[c]; i < result.choice_offsets[c + 1]; ++i)
        sum += result.token_logprobs[static_cast<size_t>(i)];
      result.values.push_back(static_cast<float>(sum));
    }
  }
  release(a);
  --counters_.running;
  finish_request(*a.state, a.index);
}

void Scheduler::finish_request(JobState& state, size_t index) noexcept {
  Job& job = *state.job;
  RequestResult& result = job.edit_result(index);
  result.timing.total_us = job.age_ns() / 1000;
  const Usage& u = result.usage;
  JobTotals& t = state.totals;
  t.tokens_given += u.prompt;
  t.tokens_cached += u.cached;
  t.tokens_shared += u.shared;
  t.tokens_computed += u.computed;
  t.tokens_generated += u.generated;
  counters_.given += u.prompt;
  counters_.cached += u.cached;
  counters_.shared += u.shared;
  counters_.computed += u.computed;
  counters_.generated += u.generated;
  ++(result.status == Code::kOk ? counters_.finished : counters_.failed);
  if (result.status != Code::kOk) ++t.failed;
  const bool last = --state.unfinished == 0;
  if (last) {
    t.seconds = static_cast<double>(job.age_ns()) * 1e-9;
    job.set_totals(t);
  }
  job.finish(index);
}

// Ending a request leaves it in the lists, which may be walked just then; this sweeps them.
void Scheduler::remove_finished() {
  active_.remove_if([](const std::unique_ptr<Active>& a) { return a->root == kNoNode; });
  jobs_.remove_if([](const std::shared_ptr<JobState>& s) { return s->unfinished == 0; });
}

void Scheduler::post(const Active& a, Event event) const {
  event.request = static_cast<int64_t>(a.index);
  event.user_tag = a.spec().user_tag;
  a.state->job->post(event);
}

// Looks at the jobs only: the tree and what runs may be in any state, and are not used again.
void Scheduler::abort_all(Code code, const char* message) noexcept {
  outputs_.clear();
  active_.clear();
  for (const std::shared_ptr<JobState>& state : jobs_) {
    state->waiting.clear();
    for (size_t index = 0; index < state->job->count(); ++index) {
      if (state->job->finished(index)) continue;
      RequestResult& result = state->job->edit_result(index);
      result.status = code;
      result.finish = code == Code::kCancelled ? Finish::kCancelled : Finish::kError;
      try {
        result.message = message;
      } catch (const std::bad_alloc&) {
        result.message = "out of memory";  // short enough to need none
      }
      finish_request(*state, index);
    }
  }
  jobs_.clear();
  counters_.waiting = counters_.running = 0;
}

}  // namespace prefix
