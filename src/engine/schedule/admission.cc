// The first duty of a step: requests from the queue get their paths in the tree and the pages that
// they may need, or wait.
#include <algorithm>
#include <new>
#include <utility>

#include "base/page.h"
#include "base/status.h"
#include "engine/request_path.h"
#include "engine/result_size.h"
#include "engine/sampling/constraint_mask.h"
#include "engine/schedule/known_logprobs.h"
#include "engine/schedule/scheduler.h"

namespace prefix {
namespace {

std::string no_memory_for(const RequestSpec& spec) noexcept {
  try {
    return cat("out of host memory for a request of ", spec.tokens.size(), " tokens");
  } catch (const std::bad_alloc&) {
    return "out of memory";  // short enough to need none
  }
}

// The path that a request was to share cannot be continued where it needs it, and others hold it.
struct PathTaken {};

}  // namespace

// In order: who lacks pages is not overtaken, and in a namespace nobody who waits for its quota is;
// requests of other namespaces have no part in that. While nothing can be looked up in the tiers
// below, it ends behind the last request that need not be, whoever waits there.
void Scheduler::admit() {
  uses_.begin_plan();
  size_t left = jobs_.looked_up();
  for (auto at = jobs_.queued().begin(); at != jobs_.queued().end();) {
    if (left == 0 && tiers_busy()) return;
    ++accounting_.counters().looks;
    const std::shared_ptr<JobState>& state = *at++;
    left -= state->looked_up;
    if (!admit_from(state)) return;
    jobs_.leave_if_empty(*state);
  }
}

// False: nobody behind these goes either.
bool Scheduler::admit_from(const std::shared_ptr<JobState>& state) {
  size_t left = state->looked_up;
  for (auto at = state->waiting.begin(); at != state->waiting.end();) {
    if (left == 0 && tiers_busy()) return true;
    ++accounting_.counters().looks;
    const JobQueue::Waiting request = at++;
    const size_t index = request->index;
    left -= request->looked_up;
    const int32_t name_space = state->job->spec(index).name_space;
    const bool lacks_quota = uses_.waits_for_quota(name_space);
    if (lacks_quota && state->one_namespace) return true;
    if (lacks_quota || waits_for_tier(request)) continue;  // others may go first
    if (is_blocked(*state, index)) return false;
    switch (admit_request(state, index)) {
      case Admission::kEnough:
        jobs_.erase(request);
        break;
      case Admission::kLacksQuota:
        uses_.wait_for_quota(name_space);
        break;
      case Admission::kLacksPages:
        blocked_ = {state->id, index, tree_.changes()};
        return false;
    }
  }
  return true;
}

// Pages of the request may come from a tier below. If that was asked, the request leaves those that
// plans look at.
bool Scheduler::waits_for_tier(JobQueue::Waiting request) {
  if (!tiers_ || request->looked_up) return false;
  if (tiers_->busy()) return true;
  const JobState& state = *request->state;
  const RequestSpec& spec = state.job->spec(request->index);
  NodeId root;
  try {
    root = shared_root(spec);
  } catch (const std::bad_alloc&) {
    return false;  // admit_request() finds that out, too, and refuses the request
  }
  // Without recurrent layers a path that is here needs nothing from below.
  if (!states_.on() || !knows_logprobs(tree_, root, spec)) {
    std::shared_ptr<const Fetch> fetch =
        tiers_->lookup(root, spec.tokens, tree_.match(root, spec.tokens), output_begin(spec),
                       &request->looked_up, use_of(state.id, spec));
    if (fetch) {
      jobs_.wait_for(std::move(fetch), request);
      return true;
    }
  }
  jobs_.set_looked_up(*request);
  return false;
}

// It did not fit, and nothing has changed since that could let it: so it need not be tried.
// States and bands hold pages beside.
bool Scheduler::is_blocked(const JobState& state, size_t index) const {
  return blocked_.job == state.id && blocked_.index == index && !running_.empty() &&
         !states_.on() && tree_.window() == 0 && tree_.changes() == blocked_.changes;
}

// Whether a request that does not fit need but wait: those that run make room when they end, but in
// a quota those of its namespace alone. Others may run for ever.
bool Scheduler::room_comes(const RunningRequest& request, bool lacks_quota) const {
  const int32_t name_space = namespace_of(request);
  return std::ranges::any_of(running_, [&](const std::unique_ptr<RunningRequest>& other) {
    return !lacks_quota || namespace_of(*other) == name_space;
  });
}

Scheduler::Admission Scheduler::admit_request(const std::shared_ptr<JobState>& state,
                                              size_t index) {
  const RequestSpec& spec = state->job->spec(index);
  std::unique_ptr<RunningRequest> request;
  try {
    request = std::make_unique<RunningRequest>();
    request->state = state;
    request->index = index;
    set_root(*request);
  } catch (const std::bad_alloc&) {
    if (request) release(*request);
    refuse(*state, index, Code::kOutOfMemory, no_memory_for(spec));
    return Admission::kEnough;
  }
  accounting_.admitted();
  const auto paths = spec.task == Task::kChoices ? static_cast<int32_t>(spec.choices.size()) : 1;
  for (OwnPath keep = OwnPath::kAll;;) {
    try {
      make_results(*request);
      request->sequences.reserve(static_cast<size_t>(paths));
      for (int32_t c = 0; c < paths; ++c)
        request->sequences.push_back(make_sequence(*request, spec.task == Task::kChoices ? c : -1));
      if (options_.sharing) accounting_.count_misses(*request, options_.whole_texts);
      running_.push_back(std::move(request));
      break;
    } catch (const PathTaken&) {
      leave_shared_root(*request);
    } catch (const Error& e) {
      request->result().usage = Usage{};
      if (e.code() == Code::kCacheFull && !request->slides &&
          bands_.help(longest_path(spec, model_.max_positions()))) {
        end_sequences(*request);
        request->slides = true;
        continue;
      }
      const bool lacks_quota = dynamic_cast<const QuotaFull*>(&e) != nullptr;
      if (e.code() == Code::kCacheFull && room_comes(*request, lacks_quota) &&
          fits_alone(*request)) {
        release(*request);
        accounting_.put_back();
        return lacks_quota ? Admission::kLacksQuota : Admission::kLacksPages;
      }
      if (e.code() == Code::kCacheFull && drop_own_path(*request, keep)) continue;
      finish(*request, e.code(), e.message());
      return Admission::kEnough;
    } catch (const std::bad_alloc&) {
      request->result().usage = Usage{};
      finish(*request, Code::kOutOfMemory, no_memory_for(spec));
      return Admission::kEnough;
    }
  }
  RunningRequest& admitted = *running_.back();
  if (is_complete(admitted)) {
    if (spec.task != Task::kWarm) {  // all that it reads was known
      begin(admitted);
      admitted.result().timing.first_us = admitted.result().timing.queue_us;
    }
    finish(admitted, Code::kOk, "");
  }
  return Admission::kEnough;
}

// Where what is read goes, of a size that is known.
void Scheduler::make_results(RunningRequest& request) const {
  const RequestSpec& spec = request.spec();
  RequestResult& result = request.result();
  if (spec.task == Task::kEmbed && spec.pooling == Pooling::kTokens)
    result.values.assign(value_count(spec, model_.config()), 0.0f);
  if (spec.task == Task::kLogprobs) {
    const size_t places = scored_tokens(spec);
    const size_t top = places * static_cast<size_t>(spec.top_logprobs);
    result.values.assign(places, PagePool::kNotKnown);
    result.top_tokens.resize(top);
    result.top_logprobs.resize(top);
  }
  if (spec.task == Task::kGenerate && spec.top_logprobs > 0)
    request.state->job->reserve_top(request.index,
                                    static_cast<size_t>(growth(spec, model_.max_positions())));
  if (spec.task != Task::kChoices) return;
  result.values.reserve(spec.choices.size());  // their sums come where nothing may fail
  result.choice_offsets.assign(1, 0);
  for (const auto& choice : spec.choices)
    result.choice_offsets.push_back(result.choice_offsets.back() +
                                    static_cast<int64_t>(choice.size()));
  result.token_logprobs.assign(static_cast<size_t>(result.choice_offsets.back()),
                               PagePool::kNotKnown);
}

NodeId Scheduler::shared_root(const RequestSpec& spec) {
  return roots_.root_of(spec.name_space, max_length(spec, model_.max_positions()),
                        spec.adapter_number);
}

// Of a request that shares its path with no other one.
NodeId Scheduler::add_own_root(const RunningRequest& request) {
  const RequestSpec& spec = request.spec();
  return tree_.add_root(model_.rope_offset(max_length(spec, model_.max_positions())),
                        namespace_of(request), spec.adapter_number, options_.sharing);
}

// Below which root the request's path is: the one of its namespace, or its own. A text that is
// computed has one of its own, or that of an equal text.
void Scheduler::set_root(RunningRequest& request) {
  const RequestSpec& spec = request.spec();
  if (options_.sharing && !options_.whole_texts) {
    request.root = shared_root(spec);
    return;
  }
  if (options_.sharing) {
    request.text_root = shared_root(spec);
    request.kept = rows_at(texts_.find(request.text_root, spec.tokens), positions_read(spec));
    request.root =
        request.answered() ? request.text_root : texts_.computing(request.text_root, spec.tokens);
  }
  request.own_root = !request.answered();
  if (request.root != kNoNode) return;
  request.root = add_own_root(request);
  if (options_.sharing) texts_.begin(request.text_root, spec.tokens, request.root);
}

// Of the longest path of a request, when the cache has nothing of it.
int32_t Scheduler::pages_alone(const RunningRequest& request) const {
  const RequestSpec& spec = request.spec();
  const int32_t grows = growth(spec, model_.max_positions());
  const int32_t pages = pages_between(0, longest_path(spec, model_.max_positions()) - grows) +
                        (spec.task == Task::kGenerate ? pages_to_grow(grows) : 0);
  return request.slides ? std::min(pages, bands_.least()) : pages;
}

// Whether an empty cache would do; if not, there is nothing to wait for.
bool Scheduler::fits_alone(const RunningRequest& request) const {
  return pages_alone(request) <= pages_.capacity() &&
         longest_path(request.spec(), model_.max_positions()) <= tree_.quota(namespace_of(request));
}

// What the cache has of a request's path can keep the request from fitting: the edge that it leaves
// stays whole, and a page inside which a path parts is there twice. So that a request which would
// fit into an empty cache fits into a used one, this gives up what continues the last whole page
// that it shares, then all of the path, and sets what is left of it. False:
// there is nothing to give up, or it would not help.
bool Scheduler::drop_own_path(RunningRequest& request, OwnPath& kept) {
  end_sequences(request);
  if (kept == OwnPath::kNothing) return false;
  const RequestSpec& spec = request.spec();
  const int32_t name_space = namespace_of(request);
  if (pages_alone(request) > pages_.capacity() - tree_.held_frames()) return false;
  if (longest_path(spec, model_.max_positions()) >
      tree_.quota_left(name_space) + tree_.tokens_of(name_space))
    return false;

  const Match match = tree_.match(request.root, spec.tokens);
  const int32_t whole = match.matched / kPageTokens * kPageTokens;
  if (kept == OwnPath::kAll) {
    kept = OwnPath::kWholePages;
    if (whole != tree_.node(match.node).end()) {
      Match keep = match;
      keep.node = tree_.node_at(match.node, whole);
      keep.offset = whole - tree_.node(keep.node).start;
      if (tree_.drop_after(keep, EvictReason::kCapacity) > 0) return true;
    }
  }
  kept = OwnPath::kNothing;
  if (match.matched == 0) return false;
  Match first = match;
  first.node = tree_.node_at(match.node, 0);
  first.offset = first.matched = first.computed = 0;
  return tree_.drop_after(first, EvictReason::kCapacity) > 0;
}

// What its rows can read of a match, that of a sequence. Where pages that they see are hollow, the
// path is taken up where it is not; what cannot be used of it makes place for what is computed
// anew.
Match Scheduler::continuable(RunningRequest& request, std::span<const int32_t> tokens, Match match,
                             int32_t output_begin) {
  const auto usable = [&] {
    const int32_t next = std::min(output_begin, match.computed);
    // In a band there is room for what comes behind the tokens that are computed, not for these.
    if (request.slides && match.computed > next + 1 && pages_.bands() > 0) return false;
    return tree_.is_whole(match.node, tree_.first_seen(next), match.computed) &&
           tree_.has_rows(match.node, next, match.computed);
  };
  if (usable()) return match;
  const int32_t end = tree_.resumable(match.node, std::min(output_begin, match.computed));
  Match keep = match;
  keep.node = tree_.node_at(match.node, end);
  keep.offset = end - tree_.node(keep.node).start;
  tree_.drop_after(keep, EvictReason::kCapacity);
  match = tree_.match(request.root, tokens);
  if (!usable()) throw PathTaken{};
  return match;
}

// The request computes its path by itself, and others do not see it.
void Scheduler::leave_shared_root(RunningRequest& request) {
  end_sequences(request);
  request.result().usage = Usage{};
  request.root = add_own_root(request);
  request.own_root = true;
}

// Where later requests are likely to part from a prompt.
std::vector<int64_t> Scheduler::placed_states(const RequestSpec& spec, const Match& match) const {
  if (!options_.ghosts || spec.task != Task::kGenerate) return {};
  return options_.ghosts->place(match.matched, static_cast<int64_t>(spec.tokens.size()));
}

Sequence Scheduler::make_sequence(RunningRequest& request, int32_t choice) {
  if (request.answered()) return answered_sequence(request);
  const RequestSpec& spec = request.spec();
  const auto prompt = static_cast<int32_t>(spec.tokens.size());
  Sequence s;
  s.choice = choice;
  std::vector<int32_t> joined;
  std::span<const int32_t> tokens = spec.tokens;
  if (choice >= 0) {
    const std::vector<int32_t>& more = spec.choices[static_cast<size_t>(choice)];
    joined = spec.tokens;
    joined.insert(joined.end(), more.begin(), more.end());
    tokens = joined;
  }
  s.behind = spec.scores_last();
  tokens = tokens.first(tokens.size() - static_cast<size_t>(s.behind));
  s.length = static_cast<int32_t>(tokens.size());
  int32_t output_begin = prefix::output_begin(spec);
  s.output_end = output_end(spec, s.length);
  const bool chosen = spec.task == Task::kEmbed && !spec.positions.empty();
  s.outputs_left =
      chosen ? static_cast<int32_t>(spec.positions.size()) : s.output_end - output_begin;

  const int32_t max_growth = growth(spec, model_.max_positions());
  Match match = tree_.match(request.root, tokens);
  // Where the likeliest tokens are asked for all rows are read, whatever is known.
  if (!request.logprobs(s).empty() && spec.top_logprobs == 0)
    output_begin = take_logprobs(tree_, request, s, match);
  AttachOptions use = use_of(request);
  use.reserve_tokens = max_growth + reserved_growth(request);
  use.count_as_use = choice <= 0;
  use.slides = request.slides;
  if (s.outputs_left > 0 || spec.task == Task::kWarm) {  // else no row reads the path
    match = continuable(request, tokens, match, output_begin);
    use.reads_from = tree_.first_seen(std::min(output_begin, match.computed));
  }
  s.recompute_read = s.recompute_next = output_begin;
  s.recompute_end = s.output_next =
      states_.on() ? output_begin : std::max(output_begin, std::min(s.output_end, match.computed));
  refuse_what_never_fits(request, s.length, max_growth);
  s.node = tree_.attach(match, tokens, use);
  try {
    set_aside(request, s, max_growth);
    states_.admit(s, spec, match, placed_states(spec, match), options_.cache && !request.own_root);
  } catch (...) {
    end_sequence(request, s, false);
    throw;
  }
  s.found = match.matched;
  if (s.behind > 0 && s.found == s.length &&
      tree_.knows_next(match.node, s.length, request.token_at(s, s.length)))
    ++s.found;
  accounting_.count_usage(request, s, match, choice > 0 ? prompt : 0);
  return s;
}

// Pages and tokens by which the sequence will grow:
// they are reserved now, so that a running request never starves.
void Scheduler::set_aside(RunningRequest& request, Sequence& s, int32_t growth) {
  const RequestSpec& spec = request.spec();
  const int32_t name_space = namespace_of(request);
  if (request.slides) bands_.admit(s, s.length + growth, name_space);
  if (spec.task != Task::kGenerate) return;
  const int32_t pages = request.slides ? 0 : pages_to_grow(growth);
  if (pages > 0 && !(fits_alone(request) && tree_.make_room(pages, name_space)))
    refuse_growth(growth);
  s.sampler.emplace(spec.sampling, spec.tokens, model_.config().eos_ids);
  if (spec.constraint)
    s.sampler->add(std::make_unique<ConstraintMask>(spec.constraint, model_.config().vocab_size));
  s.top.resize(static_cast<size_t>(spec.top_logprobs));
  uses_.reserve(name_space, growth);
  s.reserved_tokens = growth;
  pages_.reserve(pages);
  s.reserved_pages = pages;
}

// What no empty cache has room for must not cost what is there:
// a prompt that has room takes it from others.
void Scheduler::refuse_what_never_fits(const RunningRequest& request, int32_t prompt,
                                       int32_t growth) const {
  if (request.spec().task != Task::kGenerate || request.slides) return;
  if (pages_between(0, prompt) <= pages_.capacity() && pages_alone(request) > pages_.capacity())
    refuse_growth(growth);
}

void Scheduler::refuse_growth(int32_t growth) const {
  fail(Code::kCacheFull, "generating ", growth, " tokens needs ", pages_to_grow(growth),
       " more pages of ", kPageTokens, " tokens, but only ", std::max(0, pages_.available()),
       " of ", pages_.capacity(), " (cache_bytes) are free");
}

AttachOptions Scheduler::use_of(int64_t job, const RequestSpec& spec) const {
  return {.job = static_cast<uint32_t>(job),
          .priority = static_cast<int16_t>(spec.cache_priority),
          .expires_ms = end_of(spec.cache_ttl_ms)};
}

// All that the request reads of its text is kept.
Sequence Scheduler::answered_sequence(RunningRequest& request) {
  const RequestSpec& spec = request.spec();
  const Match match = tree_.match(request.root, spec.tokens);
  Sequence s;
  s.length = s.found = static_cast<int32_t>(spec.tokens.size());
  s.node = tree_.attach_whole(request.root, spec.tokens, use_of(request));
  if (tree_.has_state(s.node)) tree_.use_state(s.node);  // a quota may have taken it just now
  s.outputs_left = static_cast<int32_t>(request.kept.positions.size());
  accounting_.count_usage(request, s, match, 0);
  return s;
}

// Where nothing is shared, all roots are in the first namespace.
int32_t Scheduler::namespace_of(const RunningRequest& request) const {
  return options_.sharing ? request.spec().name_space : 0;
}

// Of the same namespace, as reserve_tokens has it.
int32_t Scheduler::reserved_growth(const RunningRequest& request) const {
  const int64_t tokens = reserved_tokens(namespace_of(request));
  return static_cast<int32_t>(std::min<int64_t>(tokens, INT32_MAX / 2));
}

}  // namespace prefix
