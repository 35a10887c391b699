// States of recurrent layers: whose they are, and which goes when pages are wanted.
//
// Leaves without a state go first: nothing can be continued behind them. Then states, by the keys
// of policy.h with times and uses of their own: a hit refreshes the state it continues from, not
// those above it. Computing a state again costs the tokens from the state above it on, and what it
// frees are its pages and, at a leaf, the run of its node. A leaf whose state went is one without.
// A state at a fork stays until the fork is gone: what shares it is still there (Marconi, Pan et
// al. 2024, section 4).
//
//   state_queue_   [ 31 | 40 | 58 | ... ]   by key; lru, gds, gdsf, ...: the first one goes
//                                           marconi: by last use; it goes through all of them,
//                                           since its scale moves with every step
#include <algorithm>
#include <bit>
#include <utility>

#include "base/page.h"
#include "base/status.h"
#include "tree/state_scores.h"
#include "tree/tree.h"

namespace prefix {

std::vector<int32_t> Tree::take_state_pages(int32_t pages) {
  PREFIX_CHECK(pages <= pages_.available());
  std::vector<int32_t> taken;
  taken.reserve(static_cast<size_t>(pages));
  pages_.prepare(pages);
  for (int32_t i = 1; i < pages; ++i) taken.push_back(pages_.allocate_blank(-1));
  // The state may end in this one: nothing of others may lie behind it,
  // where it leaves the process.
  if (pages > 0) taken.push_back(pages_.allocate(-1));
  held_state_pages_ += pages;
  loose_state_pages_ += pages;
  return taken;
}

void Tree::give_state_pages(std::vector<int32_t> pages) {
  for (const int32_t page : pages) pages_.release(page);
  held_state_pages_ -= static_cast<int32_t>(pages.size());
  loose_state_pages_ -= static_cast<int32_t>(pages.size());
}

void Tree::add_state(NodeId id, std::vector<int32_t> pages, bool keep) {
  const Node& n = nodes_[id];
  PREFIX_CHECK(n.length > 0 && n.computed == n.length && !has_state(id));
  const auto count = static_cast<int32_t>(pages.size());
  StateQueue place;
  try {
    place.insert({{}, id});
    states_.try_emplace(id);
  } catch (...) {
    give_state_pages(std::move(pages));
    throw;
  }
  State& state = states_.at(id);
  state.place = place.extract(place.begin());
  state.pages = std::move(pages);
  state.last_use = state.created = tick_;
  state.uses = 1;
  state.base = state_.age;
  state.pins = 1;
  for (const int32_t page : state.pages) pages_.unmark(page);  // it was another state's, perhaps
  loose_state_pages_ -= count;
  Namespace& s = space_of(n);
  s.state_tokens += int64_t{count} * kPageTokens;
  state_pages_ += count;
  offer_changes(s);
  update_state(id);
  update_queue(id);
  if (keep) keep_state(id);
  update_states_below(id);
}

void Tree::keep_state(NodeId id) {
  if (std::exchange(states_.at(id).keep, true)) return;
  count_kept_state(id, 1);
  if (observer_.state_kept) observer_.state_kept(id);
}

void Tree::count_kept_state(NodeId id, int32_t by) {
  for (; id != kNoNode; id = nodes_[id].parent) nodes_[id].kept_states += by;
}

std::vector<int32_t> Tree::take_state(NodeId id) {
  State& state = states_.at(id);
  if (observer_.taking_state) observer_.taking_state(id);
  if (state.keep) count_kept_state(id, -1);
  if (state.queued) state_queue_.erase({state.key, id});
  std::vector<int32_t> pages = std::move(state.pages);
  const auto count = static_cast<int32_t>(pages.size());
  if (state.pins == 0) held_state_pages_ += count;
  loose_state_pages_ += count;
  Namespace& s = space_of(nodes_[id]);
  s.state_tokens -= int64_t{count} * kPageTokens;
  state_pages_ -= count;
  offer_changes(s);
  states_.erase(id);
  update_queue(id);
  update_states_below(id);
  return pages;
}

void Tree::drop_state(NodeId id) { give_state_pages(take_state(id)); }

void Tree::evict_state(NodeId id, EvictReason why) {
  if (ages(state_.policy))
    state_.age = std::max(state_.age, std::bit_cast<double>(states_.at(id).key.rank));
  if (whole_ && nodes_[id].first_child != kNoNode)
    tell_evicting(id, 0, why);  // the text goes alone
  drop_state(id);
  ++state_evictions_;
  const Node& n = nodes_[id];
  if (may_go(n) && (whole_ || !n.queued)) evict(id, why);
}

void Tree::thin_states(NodeId id, int32_t limit) {
  int32_t states = 0;
  std::vector<NodeId> may_go;  // deepest first
  for (NodeId at = id; at != kNoNode; at = nodes_[at].parent) {
    if (!has_state(at) || !states_.at(at).keep || states_.at(at).exempt) continue;
    ++states;
    if (at != id && states_.at(at).queued) may_go.push_back(at);
  }
  for (; states > limit && !may_go.empty(); --states, may_go.pop_back()) drop_state(may_go.back());
}

void Tree::exempt_state(NodeId id) {
  State& state = states_.at(id);
  // That it was asked for is saved with it, so it has to be saved again.
  if (!std::exchange(state.exempt, true)) pages_.set_saved(state.pages.front(), 0);
}

NodeId Tree::state_of(NodeId root, std::span<const int32_t> tokens) const {
  const Match m = match(root, tokens);
  const Node& n = nodes_[m.node];
  return static_cast<size_t>(n.end()) == tokens.size() && m.offset == n.length && has_state(m.node)
             ? m.node
             : kNoNode;
}

NodeId Tree::state_at(NodeId id, int32_t length, bool kept) const {
  if (states_.empty()) return kNoNode;
  for (; id != kNoNode; id = nodes_[id].parent)
    if (nodes_[id].end() <= length && states_.contains(id) && (!kept || state_is_kept(id)))
      return id;
  return kNoNode;
}

void Tree::pin_state(NodeId id) {
  State& state = states_.at(id);
  if (state.pins++ == 0) held_state_pages_ += static_cast<int32_t>(state.pages.size());
  update_state(id);
}

void Tree::unpin_state(NodeId id) {
  State& state = states_.at(id);
  PREFIX_CHECK(state.pins > 0);
  if (--state.pins > 0) return;
  held_state_pages_ -= static_cast<int32_t>(state.pages.size());
  if (state.keep) {
    update_state(id);
  } else {
    drop_state(id);
  }
}

void Tree::use_state(NodeId id) { renew_state(id, states_.at(id).uses + 1); }

void Tree::renew_state(NodeId id, uint32_t uses) {
  State& state = states_.at(id);
  state.last_use = tick_;
  state.uses = uses;
  state.base = state_.age;
  update_state(id);
}

// Of computing it again, in first tokens.
double Tree::state_cost(NodeId id) const {
  const Node& n = nodes_[id];
  // A text is computed from its beginning, whatever is there of it.
  const NodeId above = whole_ ? kNoNode : state_at(n.parent, n.end());
  const double begin = above == kNoNode ? 0 : nodes_[above].end();
  const double tokens = n.end() - begin;
  return state_.cost(begin + 0.5 * tokens) * tokens;
}

// Marconi's: for the state and the whole prefix, in tokens that fit there.
double Tree::state_efficiency(NodeId id, const State& state) const {
  const double size = static_cast<double>(state.pages.size()) * kPageTokens;
  return state_cost(id) / (size + nodes_[id].end());
}

EvictionQueue::Key Tree::state_key(NodeId id, const State& state) const {
  Node as = nodes_[id];
  as.last_use = state.last_use;
  as.uses = state.uses;
  const int64_t of_class = state_.class_of(as);
  switch (state_.policy) {
    case Policy::kFifo:
      return {of_class, state.created};
    case Policy::kFilo:
      return {of_class, -state.created};
    case Policy::kGds:
    case Policy::kGdsf: {
      const double run = as.first_child == kNoNode ? as.length : 0;  // it goes, too
      const double gain =
          state_cost(id) / (static_cast<double>(state.pages.size()) * kPageTokens + run);
      const uint32_t uses = state_.policy == Policy::kGdsf ? as.uses : 1;
      return {of_class, std::bit_cast<int64_t>(greedy_dual(state.base, gain, uses))};
    }
    default:
      return {of_class, state_.rank_of(id, as)};
  }
}

// The queue has the states that are kept, not pinned, and not at a fork.
void Tree::update_state(NodeId id) noexcept {
  State& state = states_.at(id);
  if (state.queued) state.place = state_queue_.extract({state.key, id});
  const Node& n = nodes_[id];
  const bool fork = at_fork(n);
  if (std::exchange(state.fork, fork) && !fork) state.base = state_.age;  // it may go again
  state.queued = state.pins == 0 && !fork;
  if (!state.queued) return;
  expired_queued_ = expired_queued_ || n.expired;
  state.key = state_key(id, state);
  state.place.value() = {state.key, id};
  state_queue_.insert(std::move(state.place));
}

// What computing them costs has changed: those on the paths below with no other state between.
void Tree::update_states_below(NodeId id) {
  if (!ages(state_.policy)) return;
  for (NodeId at = nodes_[id].first_child; at != kNoNode;) {
    const Node& n = nodes_[at];
    if (has_state(at)) {
      update_state(at);
    } else if (n.kept_states > 0) {  // others are not queued
      at = n.first_child;
      continue;
    }
    while (at != id && nodes_[at].next == kNoNode) at = nodes_[at].parent;
    at = at == id ? kNoNode : nodes_[at].next;
  }
}

// It is of the namespace, or of any that stays above its floor.
bool Tree::state_may_go(NodeId id, int32_t within) const {
  const Root& root = roots_[static_cast<size_t>(nodes_[id].root)];
  if (within >= 0) return root.name_space == within;
  const auto gone = static_cast<int64_t>(states_.at(id).pages.size()) * kPageTokens;
  return root.space->held() - gone >= root.space->floor;
}

// The one that goes next, of one namespace or of all that are above their floors.
NodeId Tree::state_victim(int32_t within) const {
  for (const auto& [key, id] : state_queue_) {
    if (!state_may_go(id, within)) continue;
    const bool scored = state_.policy == Policy::kMarconi && !nodes_[id].expired;
    return scored ? marconi_victim(within) : id;
  }
  return kNoNode;
}

// There is one. Of equals the first in the queue goes.
NodeId Tree::marconi_victim(int32_t within) const {
  MarconiScale scale(state_.alpha, tick_ + 1);
  for (const auto& [key, id] : state_queue_) {
    const State& s = states_.at(id);
    if (state_may_go(id, within)) scale.add(s.last_use, state_efficiency(id, s));
  }
  NodeId best = kNoNode;
  double lowest = 0;
  for (const auto& [key, id] : state_queue_) {
    if (!state_may_go(id, within)) continue;
    const State& s = states_.at(id);
    const double score = scale.score(s.last_use, state_efficiency(id, s));
    if (best != kNoNode && score >= lowest) continue;
    best = id;
    lowest = score;
  }
  return best;
}

bool Tree::make_state_room(int32_t pages, int32_t name_space, int32_t taken) {
  return make_room_in(name_space, (int64_t{pages} + taken) * kPageTokens) &&
         make_room(pages, name_space);
}

bool Tree::make_quota_room(NodeId id, int32_t pages) {
  return make_room_in(name_space(nodes_[id]), int64_t{pages} * kPageTokens);
}

void Tree::check_states(std::vector<int32_t>& owners) const {
  std::unordered_map<int32_t, int64_t> of_namespace;
  size_t queued = 0;
  int32_t held = loose_state_pages_;
  for (const auto& [id, state] : states_) {
    const Node& n = nodes_[id];
    PREFIX_CHECK(n.root >= 0 && n.length > 0 && n.computed == n.length);
    const bool fork = at_fork(n);
    PREFIX_CHECK(state.queued == (state.pins == 0 && !fork) && (state.keep || state.pins > 0));
    PREFIX_CHECK(state.fork == fork);
    if (state.queued) {
      ++queued;
      PREFIX_CHECK(!ages(state_.policy) || state.key == state_key(id, state));
    }
    if (state.pins > 0) held += static_cast<int32_t>(state.pages.size());
    of_namespace[name_space(n)] += static_cast<int64_t>(state.pages.size()) * kPageTokens;
    for (const int32_t page : state.pages) {
      if (owners.size() <= static_cast<size_t>(page)) owners.resize(static_cast<size_t>(page) + 1);
      ++owners[static_cast<size_t>(page)];
    }
  }
  PREFIX_CHECK(queued == state_queue_.size() && held == held_state_pages_);
  int64_t tokens = 0;
  for (const auto& [number, space] : namespaces_) {
    PREFIX_CHECK(of_namespace[number] == space.state_tokens);
    tokens += space.state_tokens;
  }
  PREFIX_CHECK(tokens == state_pages_ * kPageTokens);
}

}  // namespace prefix
