// The third duty of a step: it is computed, committed to the tree, and its results go to requests.
#include <algorithm>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "base/page.h"
#include "base/status.h"
#include "engine/schedule/scheduler.h"

namespace prefix {
namespace {

// Of a position's vector among all of them.
ptrdiff_t place_of(const RequestSpec& spec, const Output& output) {
  const auto index =
      spec.positions.empty()
          ? output.position
          : std::ranges::lower_bound(spec.positions, output.position) - spec.positions.begin();
  return index * std::ssize(output.values);
}

}  // namespace

bool Scheduler::everything_cancelled() const {
  return stopped_ || std::all_of(running_.begin(), running_.end(),
                                 [](const std::unique_ptr<RunningRequest>& request) {
                                   return request->state->job->cancel_requested(request->index);
                                 });
}

void Scheduler::execute() {
  if (step_.rows() == 0 && outputs_.empty()) return;
  const auto start = now_();
  error_ = Code::kOk;
  const auto given_up = [this] {
    if (options_.between_layers) options_.between_layers();
    return everything_cancelled();
  };
  try {
    std::unique_ptr<ops::Step> step;
    if (step_.rows() > 0) step = model_.forward(step_, kv_, given_up);
    step_ok_ = step != nullptr || step_.rows() == 0;
    // Without rows (a null step) what is read is kept.
    // The keys and values of a step stay, also when nobody wants its results any more.
    if (step_ok_ && !outputs_.empty() && !heads_.compute(step.get(), outputs_, given_up))
      outputs_.clear();
    // Results are there when they were downloaded; a step without any must be waited for.
    if (step) {
      if (outputs_.empty()) step->wait();
      not_finite_ = step->not_finite();
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
  SchedulerCounters& counters = accounting_.counters();
  counters.run_ns += ns;
  if (error_ != Code::kOk) {
    // Nothing of the step was committed; every running request shares its fate.
    const Code code = std::exchange(error_, Code::kOk);
    // A mistake of the library, or a device that answers no call any more.
    failed_ = code == Code::kInternal || code == Code::kDeviceLost;
    states_.abort(running_);
    for (const auto& request : running_) finish(*request, code, error_message_);
    remove_finished();
    return;
  }
  if (!step_ok_) {  // given up: expire_requests() or abort_all() ends the requests
    if (step_.rows() > 0) states_.abort(running_);
    return;
  }
  if (step_.rows() > 0) ++counters.steps;
  counters.rows += step_.rows();
  if (tiers_) tiers_->computed(step_.rows(), ns);
  settle_drafts();
  commit();
  for (Output& output : outputs_) {
    if (output.request->spec().task == Task::kGenerate || output.status != Code::kOk) continue;
    apply(output);
  }
  finish_complete();  // before generations grow: it may make room for them
  for (Output& output : outputs_) {
    if (output.status != Code::kOk) {
      finish(*output.request, output.status, output.message);
    } else if (output.request->spec().task == Task::kGenerate) {
      apply(output);
    }
  }
  finish_complete();
  remove_finished();
  bands_.give_back(running_);
}

// The tokens of the step now have keys and values, but for those that are not finite and what comes
// behind them: these stay pending, so that no page with them counts as computed, and every request
// that needs them fails.
void Scheduler::commit() {
  struct Spoiled {
    NodeId node;
    int32_t position;
  };
  std::vector<Spoiled> spoiled;
  for (const StepPlan::Commit& c : step_.commits) {
    const Node& n = tree_.node(c.node);
    const Node& parent = tree_.node(n.parent);
    if (parent.computed < parent.length) continue;       // spoiled further up
    const int32_t end = std::min(c.computed, n.length);  // without what was taken back of drafts
    const auto flags =
        not_finite_.subspan(static_cast<size_t>(c.row), static_cast<size_t>(end - n.computed));
    const auto first = std::find_if(flags.begin(), flags.end(), [](int32_t f) { return f != 0; });
    const int32_t computed = n.computed + static_cast<int32_t>(first - flags.begin());
    if (computed < end) spoiled.push_back({c.node, n.start + computed});
    if (computed > n.computed) tree_.set_computed(c.node, computed);
  }
  // Before requests end: it names nodes that may go with them.
  states_.commit(running_);
  for (const Spoiled& s : spoiled) {
    const Node& n = tree_.node(s.node);
    const std::string message = cat(
        "the model's key, value or state for token ", tree_.token(n, s.position - n.start),
        " at position ", s.position,
        " is not finite (NaN or infinity), by its weights or by this input; nothing from there ",
        "on was kept");
    const auto needs = [&](const Sequence& q) {
      return q.length > s.position && tree_.node_at(q.node, s.position) == s.node;
    };
    for (const auto& request : running_)
      if (std::any_of(request->sequences.begin(), request->sequences.end(), needs))
        finish(*request, Code::kNotFinite, message);
  }
}

void Scheduler::finish_complete() {
  for (const auto& request : running_)
    if (is_complete(*request)) finish(*request, Code::kOk, "");
}

bool Scheduler::is_complete(const RunningRequest& request) const {
  const bool waits_for_state = states_.on() && request.spec().task == Task::kWarm;
  return !request.sequences.empty() &&
         std::all_of(request.sequences.begin(), request.sequences.end(), [&](const Sequence& s) {
           const Node& n = tree_.node(tree_.node_at(s.node, s.length - 1));
           return s.outputs_left == 0 && s.length - n.start <= n.computed &&
                  (!waits_for_state || std::max(s.resume, s.reached) >= s.length);
         });
}

void Scheduler::apply(Output& output) {
  RunningRequest& request = *output.request;
  if (request.sequences.empty()) return;  // finished by an error of another output
  Sequence& s = request.sequences[output.sequence];
  RequestResult& result = request.result();
  const RequestSpec& spec = request.spec();
  if (result.timing.first_us == 0) result.timing.first_us = request.state->job->age_ns() / 1000;
  switch (spec.task) {
    case Task::kLogits:
      result.values = std::move(output.values);
      break;
    case Task::kEmbed:
      if (spec.pooling == Pooling::kTokens)
        std::ranges::copy(output.values, result.values.begin() + place_of(spec, output));
      else if (!output.values.empty())  // of a mean the last one has it
        result.values = std::move(output.values);
      break;
    case Task::kLogprobs:
    case Task::kChoices:
      request.logprob(s, output.position + 1) = output.logprob;
      break;
    case Task::kGenerate:
      apply_token(request, s, output);
      return;
    case Task::kWarm:
      break;  // reads nothing
  }
  --s.outputs_left;
}

// Others hold the path that a generation takes, and have given back what it would read of it: its
// tokens are computed once more, by itself, and slide.
void Scheduler::compute_alone(RunningRequest& request, Sequence& s) {
  const std::vector<int32_t> tokens = request.text();
  const NodeId root = add_own_root(request);
  try {
    const NodeId node = tree_.attach(
        {root, 0, 0, 0}, tokens, {.job = static_cast<uint32_t>(request.state->id), .slides = true});
    bands_.release(s, running_);
    pages_.unreserve(std::exchange(s.reserved_pages, 0));
    tree_.unlock(std::exchange(s.node, node), options_.cache);
    request.root = root;
    request.own_root = request.slides = true;
    s.length = static_cast<int32_t>(tokens.size());
    s.decoding = true;
    --s.reserved_tokens;
    uses_.reserve(namespace_of(request), -1);
    bands_.admit(s, s.length + s.reserved_tokens, namespace_of(request));
  } catch (const Error& e) {
    if (request.root != root) tree_.remove_root(root);
    finish(request, e.code(), e.message());
  }
}

// A generation ends with this token.
bool Scheduler::ends(const RunningRequest& request, int32_t token) const {
  const Sampling& sampling = request.spec().sampling;
  const auto contains = [&](const std::vector<int32_t>& ids) {
    return std::find(ids.begin(), ids.end(), token) != ids.end();
  };
  return contains(sampling.stop_tokens) ||
         (!sampling.ignore_eos && contains(model_.config().eos_ids));
}

void Scheduler::apply_token(RunningRequest& request, Sequence& s, const Output& output) {
  const RequestSpec& spec = request.spec();
  RequestResult& result = request.result();
  const int32_t token = output.sampled.token;
  result.tokens.push_back(token);
  s.sampler->accept(token);
  if (const auto k = static_cast<size_t>(spec.top_logprobs); k > 0)
    request.state->job->add_top(request.index,
                                std::span(s.top).subspan(k * static_cast<size_t>(output.draft), k));
  if (spec.sampling.logprobs) result.token_logprobs.push_back(output.sampled.logprob);
  ++result.usage.generated;
  accounting_.count_token(request, request.state->job->age_ns());
  request.state->job->post(request.index, Event::kToken, token, output.sampled.logprob);

  const bool stop = ends(request, token);
  const bool full =
      result.usage.generated >= spec.sampling.max_tokens || s.length >= model_.max_positions();
  if (stop || full) {
    result.finish = stop ? Finish::kStop : Finish::kLength;
    s.outputs_left = 0;
    return;
  }
  if (s.draft.kept > 0) {
    --s.draft.kept;
    ++s.length;
    return;
  }
  if (!tree_.make_way(&s.node, s.length, token)) {
    compute_alone(request, s);
    return;
  }
  // What was reserved at admission suffices for a path of its own. But whenever another sequence
  // has continued this path by another token meanwhile, the branch takes one page more.
  if (s.band == 0 && s.reserved_pages <= pages_between(0, s.reserved_tokens - 1)) {
    if (!tree_.make_room(1, namespace_of(request))) {
      finish(request, Code::kCacheFull,
             cat("after ", result.usage.generated, " tokens the generation needs one page more, ",
                 "because others continue it differently, but all ", pages_.capacity(),
                 " (cache_bytes) are in use"));
      return;
    }
    pages_.reserve(1);
    ++s.reserved_pages;
  }
  AttachOptions use = use_of(request);
  use.slides = s.band > 0;
  extend(request, s, token, use);
  s.decoding = true;
}

// The path goes on with a token, for which room was set aside.
void Scheduler::extend(RunningRequest& request, Sequence& s, int32_t token,
                       const AttachOptions& use) {
  int32_t pages = 0;
  s.node = tree_.advance(s.node, s.length, token, use, &pages);
  pages_.unreserve(pages);
  s.reserved_pages -= pages;
  --s.reserved_tokens;
  uses_.reserve(namespace_of(request), -1);
  ++s.length;
}

}  // namespace prefix
