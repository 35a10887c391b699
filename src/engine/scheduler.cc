#include "engine/scheduler.h"

#include <algorithm>

#include "base/clock.h"
#include "base/status.h"
#include "tree/page_math.h"

namespace prefix {
Scheduler::Scheduler(Model& model, KvMemory& kv, PagePool& pages, Tree& tree,
                     const SchedulerOptions& options, LowerTiers* tiers)
    : model_(model),
      kv_(kv),
      pages_(pages),
      tree_(tree),
      tiers_(tiers),
      options_(options),
      builder_(tree, {model.config().heads, model.config().kv_heads, options.threads,
                      model.device().tile_rows()}),
      heads_(model),
      leases_(tree) {}

void Scheduler::enqueue(std::shared_ptr<Job> job) {
  auto state = std::make_shared<JobState>();
  state->job = std::move(job);
  state->id = next_job_++;
  Job& j = *state->job;
  state->totals.requests = static_cast<int64_t>(j.count());
  for (size_t i = 0; i < j.count(); ++i) {
    if (j.finished(i)) {
      ++state->totals.failed;
      continue;
    }
    state->waiting.push_back({.index = i});
    state->priority = std::max(state->priority, j.spec(i).priority);
  }
  std::stable_sort(state->waiting.begin(), state->waiting.end(),
                   [&](const Waiting& a, const Waiting& b) {
                     return j.spec(a.index).priority > j.spec(b.index).priority;
                   });
  std::reverse(state->waiting.begin(), state->waiting.end());
  state->unfinished = state->waiting.size();
  const auto waiting = static_cast<int64_t>(state->unfinished);
  const int64_t failed = state->totals.failed;
  if (waiting == 0) {
    j.set_totals(state->totals);
  } else {
    auto at = jobs_.begin();
    while (at != jobs_.end() && (*at)->priority >= state->priority) ++at;
    jobs_.insert(at, std::move(state));
  }
  counters_.waiting += waiting;  // last: all before this may fail for lack of memory
  counters_.failed += failed;
}

NodeId Scheduler::root_of(int32_t name_space, int32_t length) {
  const int32_t offset = model_.rope_offset(length);
  const int64_t key = static_cast<int64_t>(name_space) << 32 | static_cast<uint32_t>(offset);
  const auto found = roots_.find(key);
  if (found != roots_.end()) return found->second;
  return roots_[key] = tree_.add_root(offset, name_space);
}

std::vector<NodeId> Scheduler::roots_of(int32_t name_space) const {
  std::vector<NodeId> roots;
  for (auto at = roots_.lower_bound(int64_t{name_space} << 32);
       at != roots_.end() && at->first >> 32 == name_space; ++at)
    roots.push_back(at->second);
  return roots;
}

// --- admission -------------------------------------------------------------------------------

void Scheduler::admit() {
  for (const std::shared_ptr<JobState>& state : jobs_) {
    std::vector<Waiting>& waiting = state->waiting;
    for (size_t i = waiting.size(); i-- > 0;) {
      if (waits_for_tier(*state, waiting[i])) continue;     // others may go first
      if (!admit_request(state, waiting[i].index)) return;  // in order: wait for pages
      waiting.erase(waiting.begin() + static_cast<ptrdiff_t>(i));
    }
  }
}

int32_t Scheduler::longest(const RequestSpec& spec) const {
  const auto prompt = static_cast<int32_t>(spec.tokens.size());
  return spec.task == Task::kGenerate
             ? std::min(model_.max_positions(), prompt + spec.sampling.max_tokens)
             : prompt;
}

// Pages of the request may come from a tier below, and have not yet.
bool Scheduler::waits_for_tier(const JobState& state, Waiting& w) {
  if (!tiers_) return false;
  if (w.fetch && !w.fetch->done) return true;
  w.fetch.reset();
  while (!w.looked) {
    if (tiers_->busy()) return true;
    const RequestSpec& spec = state.job->spec(w.index);
    const NodeId root = root_of(spec.name_space, longest(spec));
    w.fetch = tiers_->look(root, spec.tokens, tree_.match(root, spec.tokens), &w.looked);
    if (w.fetch) return true;
  }
  return false;
}

// False: the request does not fit now and others run whose end will make room.
bool Scheduler::admit_request(const std::shared_ptr<JobState>& state, size_t index) {
  auto active = std::make_unique<Active>();
  active->state = state;
  active->index = index;
  active->order = next_order_++;
  const RequestSpec& spec = active->spec();
  active->own_root = !options_.sharing;
  active->root = active->own_root ? tree_.add_root(model_.rope_offset(longest(spec)))
                                  : root_of(spec.name_space, longest(spec));
  --counters_.waiting;
  ++counters_.running;
  const auto paths = spec.task == Task::kChoices ? static_cast<int32_t>(spec.choices.size()) : 1;
  for (bool again = false;; again = true) {
    try {
      for (int32_t c = 0; c < paths; ++c)
        active->sequences.push_back(make_sequence(*active, spec.task == Task::kChoices ? c : -1));
      break;
    } catch (const Error& e) {
      active->result().usage = Usage{};
      if (e.code() == Code::kCacheFull && !active_.empty()) {
        release(*active);
        ++counters_.waiting;
        --counters_.running;
        return false;
      }
      if (e.code() == Code::kCacheFull && !again && drop_own_path(*active)) continue;
      finish(*active, e.code(), e.message());
      return true;
    }
  }
  if (!active->own_root) count_misses(*active);
  if (spec.task == Task::kGenerate) active->history = spec.tokens;
  if (spec.task == Task::kLogprobs)
    active->result().values.assign(spec.tokens.size() - static_cast<size_t>(spec.from), 0.0f);
  if (spec.task == Task::kChoices) {
    std::vector<int64_t>& offsets = active->result().choice_offsets;
    offsets.assign(1, 0);
    for (const auto& choice : spec.choices)
      offsets.push_back(offsets.back() + static_cast<int64_t>(choice.size()));
    active->result().token_logprobs.assign(static_cast<size_t>(offsets.back()), 0.0f);
  }
  active_.push_back(std::move(active));
  if (is_complete(*active_.back())) finish(*active_.back(), Code::kOk, "");
  return true;
}

// What the cache has of a request's path can keep the request from fitting: the edge that it leaves
// stays whole, and the page in which it leaves it is there twice. So that a request which would fit
// into an empty cache fits into a used one, this gives up what continues the last whole page that
// it shares. False: there is nothing to give up, or it would not help.
bool Scheduler::drop_own_path(Active& a) {
  end_sequences(a);
  const RequestSpec& spec = a.spec();
  const bool generates = spec.task == Task::kGenerate;
  int32_t length = static_cast<int32_t>(spec.tokens.size());
  for (const auto& choice : spec.choices)
    length = std::max(length, static_cast<int32_t>(spec.tokens.size() + choice.size()));
  const int32_t grows = generates ? growth(spec) : 0;
  const int32_t pages = pages_between(0, length) + (generates ? pages_to_grow(grows) : 0);
  const int32_t space = space_of(a);
  if (pages > pages_.capacity() - tree_.held_tokens() / kPageTokens) return false;
  if (length + grows > tree_.quota_left(space) + tree_.tokens_of(space)) return false;

  const Match match = tree_.match(a.root, spec.tokens);
  const int32_t whole = match.matched / kPageTokens * kPageTokens;
  if (whole == tree_.node(match.node).end()) return false;
  Match keep = match;
  keep.node = tree_.node_at(match.node, whole);
  keep.offset = whole - tree_.node(keep.node).start;
  return tree_.drop_after(keep, Gone::kRoom) > 0;
}

bool Scheduler::is_complete(const Active& a) const {
  return !a.sequences.empty() &&
         std::all_of(a.sequences.begin(), a.sequences.end(), [&](const Sequence& s) {
           const Node& n = tree_.node(tree_.node_at(s.node, s.length - 1));
           return s.outputs_left == 0 && s.length - n.start <= n.computed;
         });
}

// Tokens that a generation adds to its path, at most.
int32_t Scheduler::growth(const RequestSpec& spec) const {
  return std::min(spec.sampling.max_tokens,
                  model_.max_positions() - static_cast<int32_t>(spec.tokens.size()) + 1);
}

// Growing by so many tokens takes their pages, one for a branch and one for a start in mid-page.
int32_t Scheduler::pages_to_grow(int32_t tokens) { return pages_between(0, tokens) + 2; }

Sequence Scheduler::make_sequence(Active& active, int32_t choice) {
  const RequestSpec& spec = active.spec();
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
  s.length = static_cast<int32_t>(tokens.size());
  const int32_t out_begin = spec.task == Task::kWarm       ? s.length
                            : spec.task == Task::kLogprobs ? spec.from - 1
                                                           : prompt - 1;
  s.out_end = choice >= 0 || spec.task == Task::kLogprobs ? s.length - 1 : s.length;
  s.outputs_left = s.out_end - out_begin;

  const int32_t most = spec.task == Task::kGenerate ? growth(spec) : 0;
  const Match match = tree_.match(active.root, tokens);
  s.node = tree_.attach(match, tokens,
                        {.job = static_cast<uint32_t>(active.state->id),
                         .priority = static_cast<int16_t>(spec.cache_priority),
                         .expires_ms = spec.cache_ttl_ms > 0 ? now_ms() + spec.cache_ttl_ms : 0,
                         .grows = most + promised(active),
                         .counts = choice <= 0});
  // They are promised now, so that a running request never starves.
  if (spec.task == Task::kGenerate) {
    s.reserved_pages = pages_to_grow(most);
    if (!tree_.make_room(s.reserved_pages, space_of(active))) {
      tree_.unlock(s.node, true);
      fail(Code::kCacheFull, "generating ", most, " tokens needs ", s.reserved_pages,
           " more pages of ", kPageTokens, " tokens, but only ", std::max(0, pages_.available()),
           " of ", pages_.capacity(), " (cache_bytes) are free");
    }
    pages_.reserve(s.reserved_pages);
    s.promised_tokens = most;
    promised_tokens_[space_of(active)] += most;
  }
  s.redo_read = s.redo_next = out_begin;
  s.redo_end = s.out_next = std::max(out_begin, std::min(s.out_end, match.computed));
  count_usage(active, s, match, choice > 0 ? prompt : 0);
  s.found = match.matched;
  return s;
}

// A request that shares nothing has a root of its own, in the first space.
int32_t Scheduler::space_of(const Active& a) { return a.own_root ? 0 : a.spec().name_space; }

// Tokens by which running generations of the same namespace may still grow.
int32_t Scheduler::promised(const Active& a) const {
  const auto found = promised_tokens_.find(space_of(a));
  const int64_t tokens = found == promised_tokens_.end() ? 0 : found->second;
  return static_cast<int32_t>(std::min<int64_t>(tokens, INT32_MAX / 2));
}

// Of every token once: the prompt and the first choice together, of others the choice alone.
void Scheduler::count_misses(const Active& active) {
  const RequestSpec& spec = active.spec();
  for (const Sequence& s : active.sequences) {
    if (s.choice < 0) {
      misses_.count(spec.name_space, spec.tokens, s.found);
      continue;
    }
    const std::vector<int32_t>& choice = spec.choices[static_cast<size_t>(s.choice)];
    std::vector<int32_t> tokens = spec.tokens;
    tokens.insert(tokens.end(), choice.begin(), choice.end());
    const auto before = s.choice > 0 ? static_cast<int32_t>(spec.tokens.size()) : 0;
    misses_.count(spec.name_space, tokens, std::max(s.found, before));
  }
}

// Adds positions [from, length) of a sequence to the request's usage.
void Scheduler::count_usage(Active& active, const Sequence& s, const Match& match, int32_t from) {
  Usage& usage = active.result().usage;
  const int64_t before = usage.cached + usage.shared;
  for (NodeId id = s.node; id != kNoNode; id = tree_.node(id).parent) {
    const Node& n = tree_.node(id);
    const int32_t begin = std::max(from, n.start);
    const int32_t end = std::min(n.end(), match.matched);
    const int32_t computed = std::min(end, n.start + n.computed);
    if (begin >= end) continue;
    const int64_t cached =
        n.job == static_cast<uint32_t>(active.state->id) ? 0 : std::max(0, computed - begin);
    usage.cached += cached;
    usage.shared += end - begin - cached;
  }
  const int64_t total = std::max(0, s.length - from);
  usage.prompt += total;
  usage.computed += total - (usage.cached + usage.shared - before);
}

// --- planning --------------------------------------------------------------------------------

int64_t Scheduler::now_ms() const { return ns_since(start_) / 1000000; }

void Scheduler::expire_cache() {
  const int64_t now = now_ms();
  leases_.expire(now);
  tree_.expire(now);
}

void Scheduler::end_overdue() {
  const auto now = Clock::now();
  const auto verdict = [&](const Job& job, size_t index, std::string* message) {
    if (job.cancel_requested(index)) {
      *message = "cancelled by the caller";
      return Code::kCancelled;
    }
    const int64_t deadline = job.spec(index).deadline_ms;
    const std::chrono::duration<double, std::milli> since = now - job.submitted();
    if (deadline > 0 && since.count() > static_cast<double>(deadline)) {
      *message = cat("deadline_ms = ", deadline, " passed before the request was finished");
      return Code::kTimeout;
    }
    return Code::kOk;
  };
  std::string message;
  for (const std::unique_ptr<Active>& a : active_) {
    const Code code = verdict(*a->state->job, a->index, &message);
    if (code != Code::kOk) finish(*a, code, message);
  }
  for (const std::shared_ptr<JobState>& state : jobs_) {
    std::erase_if(state->waiting, [&](const Waiting& w) {
      const Code code = verdict(*state->job, w.index, &message);
      if (code == Code::kOk) return false;
      RequestResult& result = state->job->edit_result(w.index);
      result.status = code;
      result.message = message;
      result.finish = code == Code::kCancelled ? Finish::kCancelled : Finish::kError;
      --counters_.waiting;
      finish_request(*state, w.index);
      return true;
    });
  }
  remove_finished();
}

void Scheduler::plan() {
  const auto start = Clock::now();
  outputs_.clear();
  step_ok_ = false;
  expire_cache();
  end_overdue();
  if (tiers_) tiers_->poll();
  admit();
  remove_finished();
  fill_step();
  builder_.build(step_);
  step_.clear = pages_.take_dirty();
  collect_outputs();
  counters_.plan_ns += ns_since(start);
}

void Scheduler::fill_step() {
  builder_.begin();
  int32_t budget = options_.row_budget;
  budget -= fill_decode(budget);
  // Jobs take turns: each gets an equal share, then whoever comes first takes what is left.
  std::vector<JobState*> order;
  for (const auto& state : jobs_) order.push_back(state.get());
  if (order.size() > 1) {
    const auto turn = static_cast<size_t>(job_turn_++) % order.size();
    const int32_t top = order.front()->priority;
    for (size_t i = 0; i < order.size() && budget > 0; ++i) {
      JobState* state = order[(turn + i) % order.size()];
      if (state->priority < top) continue;
      budget -= fill_prefill(
          state, std::min(budget, options_.row_budget / static_cast<int32_t>(order.size()) + 1));
    }
  }
  for (size_t i = 0; i < order.size() && budget > 0; ++i) budget -= fill_prefill(order[i], budget);
}

int32_t Scheduler::fill_decode(int32_t budget) {
  std::vector<std::pair<Active*, Sequence*>> decoding;
  for (const auto& a : active_)
    for (Sequence& s : a->sequences)
      if (s.decoding) decoding.emplace_back(a.get(), &s);
  if (decoding.empty()) return 0;
  int32_t used = 0;
  const auto n = decoding.size();
  const size_t turn = n > static_cast<size_t>(budget) ? static_cast<size_t>(decode_turn_) % n : 0;
  for (size_t i = 0; i < n && used < budget; ++i) {
    const auto& [active, s] = decoding[(turn + i) % n];
    const NodeId id = tree_.node_at(s->node, s->length - 1);
    const int32_t rows = s->length - tree_.node(id).start <= tree_.node(id).computed
                             ? builder_.recompute(s->node, s->length - 1)
                             : builder_.take(s->node, s->length, budget - used);
    used += rows;
    active->state->totals.rows += rows;
    ++decode_turn_;
  }
  return used;
}

int32_t Scheduler::fill_prefill(JobState* only, int32_t budget) {
  int32_t used = 0;
  for (const auto& a : active_) {
    if (used >= budget) break;
    if (a->state.get() != only) continue;
    for (Sequence& s : a->sequences) {
      if (s.decoding) continue;
      Usage& usage = a->result().usage;
      for (; s.redo_next < s.redo_end && used < budget; ++s.redo_next) {
        // A row that is computed once more only to be read counts as computed, not as cached.
        const int32_t row = builder_.recompute(s.node, s.redo_next);
        int64_t& known = usage.cached > 0 ? usage.cached : usage.shared;
        --known;
        ++(row > 0 ? usage.computed : usage.shared);
        misses_.count_again(row);
        used += row;
      }
      const int32_t rows = builder_.take(s.node, s.length, budget - used);
      used += rows;
      if (!a->started) {
        a->started = true;
        a->result().timing.queue_us = ns_since(a->state->job->submitted()) / 1000;
        post(*a, {.kind = Event::kStarted});
      }
    }
  }
  only->totals.rows += used;
  return used;
}

// A row may serve sequences whose turn did not come: whoever waits for it reads it now.
void Scheduler::collect_outputs() {
  if (step_.rows() == 0) return;
  for (const auto& a : active_) {
    for (size_t i = 0; i < a->sequences.size(); ++i) {
      Sequence& s = a->sequences[i];
      if (s.outputs_left == 0) continue;
      const auto read = [&](int32_t position) {
        const int32_t row = builder_.row_of(s.node, position);
        if (row >= 0)
          outputs_.push_back({.active = a.get(), .sequence = i, .position = position, .row = row});
        return row >= 0;
      };
      if (s.decoding) {
        read(s.length - 1);
        continue;
      }
      while (s.redo_read < s.redo_next) read(s.redo_read++);
      while (s.out_next < s.out_end && read(s.out_next)) ++s.out_next;
    }
  }
  for (const Output& output : outputs_) step_.reads.push_back(output.row);
  std::sort(step_.reads.begin(), step_.reads.end());
  step_.reads.erase(std::unique(step_.reads.begin(), step_.reads.end()), step_.reads.end());
}

}  // namespace prefix
