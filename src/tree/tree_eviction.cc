// Which leaves go, and how.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "base/page.h"
#include "base/status.h"
#include "tree/tree.h"

namespace prefix {

EvictionQueue& Tree::queue_of(const Node& n) {
  const Namespace& space = space_of(n);
  return space.own ? *space.own : common_;
}

void Tree::dequeue(NodeId id) {
  queue_of(nodes_[id]).erase(id);
  offer_changes(space_of(nodes_[id]));
}

// The queue has the computed leaves that are not held and own no state, and nothing else. False:
// there is no memory for another one.
bool Tree::update_queue(NodeId id) noexcept {
  const Node& n = nodes_[id];
  const bool waits = may_go(n) && !has_state(id);
  if (waits == n.queued) return true;
  if (waits) {
    offer_changes(space_of(n));
    expired_queued_ = expired_queued_ || n.expired;
    return queue_of(n).insert(id);
  }
  dequeue(id);
  return true;
}

void Tree::queue_or_evict(NodeId id, EvictReason why) {
  if (!update_queue(id)) evict(id, why);
}

void Tree::set_limits(int32_t name_space, int64_t floor, int64_t quota) {
  Namespace& s = namespaces_.try_emplace(name_space).first->second;
  const std::vector<NodeId> waiting = queued_leaves(&s);
  std::unique_ptr<EvictionQueue> own;
  Offers offer;
  if (floor > 0 || quota > 0) {
    own = std::make_unique<EvictionQueue>(nodes_, state_);
    offer.insert(Offer{{}, name_space, &s});
    limited_.reserve(limited_.size() + 1);
    changed_.reserve(limited_.capacity());
  }
  for (const NodeId id : waiting) dequeue(id);
  withdraw_offer(s);
  ++changes_;
  s.floor = floor;
  s.quota = quota;
  s.own = std::move(own);
  s.place = s.own ? offer.extract(offer.begin()) : Offers::node_type();
  s.changed = false;
  std::erase(limited_, &s);
  std::erase(changed_, &s);
  if (s.own) limited_.push_back(&s);
  offer_changes(s);
  for (const NodeId id : waiting) queue_or_evict(id, EvictReason::kCapacity);
  make_room_in(name_space, 0);  // what is in use stays
}

// By number, of one namespace.
std::vector<NodeId> Tree::queued_leaves(const Namespace* space) const {
  std::vector<NodeId> leaves;
  for (const Root& root : roots_) {
    if (root.space != space) continue;
    for (NodeId id = root.node; id != kNoNode;) {
      if (nodes_[id].queued) leaves.push_back(id);
      NodeId next = nodes_[id].first_child;
      for (; next == kNoNode && id != root.node; id = nodes_[id].parent) next = nodes_[id].next;
      id = next;
    }
  }
  std::ranges::sort(leaves);
  return leaves;
}

// The same of all.
std::vector<NodeId> Tree::queued_leaves() const {
  std::vector<NodeId> leaves;
  for (NodeId id = 0; id < nodes_.limit(); ++id)
    if (nodes_[id].root >= 0 && nodes_[id].queued) leaves.push_back(id);
  return leaves;
}

void Tree::set_policy(Policy policy, double alpha) {
  const std::vector<NodeId> waiting =
      policy == state_.policy ? std::vector<NodeId>() : queued_leaves();
  state_.alpha = alpha;
  if (policy == state_.policy) return;
  for (const NodeId id : waiting) dequeue(id);
  state_.policy = policy;
  for (const NodeId id : waiting) queue_or_evict(id, EvictReason::kCapacity);
  for (const auto& [id, state] : states_) update_state(id);
}

bool Tree::may_offer(const Namespace& s) const {
  return !s.own->empty() && s.held() - tail_tokens(s.own->front(), 1) >= s.floor;
}

void Tree::withdraw_offer(Namespace& s) {
  if (s.own && !s.place) s.place = offers_.extract(s.offer);
}

// Takes no memory. Late, because in the middle of a change of the tree no leaf can be asked.
void Tree::renew_offers() {
  for (; !changed_.empty(); changed_.pop_back()) {
    Namespace& s = *changed_.back();
    s.changed = false;
    withdraw_offer(s);
    if (!may_offer(s)) continue;
    s.offer = {s.own->front_key(), s.place.value().name_space, &s};
    s.place.value() = s.offer;
    offers_.insert(std::move(s.place));
  }
}

NodeId Tree::victim() {
  renew_offers();
  const bool own =
      !offers_.empty() && (common_.empty() || offers_.begin()->key < common_.front_key());
  if (own) return offers_.begin()->space->own->front();
  return common_.empty() ? kNoNode : common_.front();
}

int64_t Tree::evict(NodeId id, EvictReason why) {
  const Node& n = nodes_[id];
  const int64_t tokens = n.length;
  const NodeId parent = n.parent;
  if (ages(state_.policy) && n.queued)
    state_.age = std::max(state_.age, std::bit_cast<double>(queue_of(n).front_key().rank));
  tell_evicting(id, 0, why);
  remove(id);
  prune(parent, true);
  ++evictions_;
  evicted_tokens_ += tokens;
  return tokens;
}

// How many tokens evict_tail() takes.
int32_t Tree::tail_tokens(NodeId id, int32_t pages) const {
  const Node& n = nodes_[id];
  const int32_t have = page_count(n);
  const int32_t own = have - (pages_.references(n.first_page) > 1 ? 1 : 0);
  if (own <= pages) return n.length;
  const int32_t left = (n.start / kPageTokens + have - pages) * kPageTokens - n.start;
  return n.length - resumable_in(id, left);
}

void Tree::evict_tail(NodeId id, int32_t pages, EvictReason why) {
  evict_tokens(id, tail_tokens(id, pages), why);
}

void Tree::evict_tokens(NodeId id, int32_t tokens, EvictReason why) {
  const Node& n = nodes_[id];
  const int32_t left = tokens < n.length ? resumable_in(id, n.length - tokens) : 0;
  if (left == 0) {
    evict(id, why);
    return;
  }
  tell_evicting(id, left, why);
  evicted_tokens_ += n.length - left;
  cut(id, left);
  queue_or_evict(id, why);  // it may have had a state
}

// Evicts at most `pages` pages of the victim, fewer when its namespace would fall below its floor.
void Tree::evict_victim(NodeId id, int32_t pages, EvictReason why) {
  const Node& n = nodes_[id];
  const Namespace& s = space_of(n);
  pages = std::min(pages, page_count(n));
  while (pages > 1 && s.held() - tail_tokens(id, pages) < s.floor) --pages;
  evict_tail(id, pages, why);
}

bool Tree::make_room(int32_t pages, int32_t name_space) {
  while (pages_.available() < pages) {
    const int32_t wanted = pages - pages_.available();
    const NodeId id = victim();
    if (id != kNoNode) {
      evict_victim(id, wanted, EvictReason::kCapacity);
      continue;
    }
    if (const NodeId state = state_victim(); state != kNoNode) {
      evict_state(state);
      continue;
    }
    const Namespace* s = find_space(name_space);
    if (!s || !s->own) return false;  // its own floor binds others only
    if (!s->own->empty()) {
      evict_tail(s->own->front(), wanted);
      continue;
    }
    const NodeId state = state_victim(name_space);
    if (state == kNoNode) return false;
    evict_state(state);
  }
  return true;
}

bool Tree::make_room_in(int32_t name_space, int64_t tokens) {
  const Namespace& s = namespaces_.at(name_space);
  while (s.quota > 0 && s.held() + tokens > s.quota) {
    if (s.own->empty()) {
      const NodeId state = state_victim(name_space);
      if (state == kNoNode) return false;
      evict_state(state);
      continue;
    }
    const int64_t pages = pages_for(s.held() + tokens - s.quota);
    evict_tail(s.own->front(),
               static_cast<int32_t>(std::min<int64_t>(pages, std::numeric_limits<int32_t>::max())));
  }
  return true;
}

int64_t Tree::trim(int32_t pages) {
  const int64_t before = tokens_;
  while (pages_.used() > pages) {
    const NodeId id = victim();
    if (id != kNoNode) {
      evict_victim(id, pages_.used() - pages, EvictReason::kExplicit);
      continue;
    }
    const NodeId state = state_victim();
    if (state == kNoNode) break;
    evict_state(state, EvictReason::kExplicit);
  }
  return before - tokens_;
}

int64_t Tree::drop(NodeId top, EvictReason why) {
  const int64_t before = tokens_;
  // Deepest first: down to a leaf by last children, then back over what is left.
  NodeId id = top;
  for (;;) {
    while (last_child(id) != kNoNode) id = last_child(id);
    for (;;) {
      if (id == top) return before - tokens_;
      const NodeId parent = nodes_[id].parent;
      const bool is_first = nodes_[parent].first_child == id;
      const NodeId previous = nodes_[id].previous;
      if (may_go(nodes_[id])) {
        const int64_t tokens = nodes_[id].length;
        tell_evicting(id, 0, why);
        remove(id);
        ++evictions_;
        evicted_tokens_ += tokens;
      }
      id = is_first ? parent : previous;
      if (!is_first) break;
    }
  }
}

int64_t Tree::drop_after(const Match& match, EvictReason why) {
  const int64_t before = tokens_;
  drop(match.node, why);
  const Node& n = nodes_[match.node];
  if (!may_go(n)) return before - tokens_;
  if (!update_queue(match.node)) {
    evict(match.node, why);
  } else if (match.offset == n.length) {
    prune(match.node, true);
  } else {
    evict_tokens(match.node, n.length - match.offset, why);
  }
  return before - tokens_;
}

size_t Tree::metadata_bytes() const {
  size_t queues = common_.metadata_bytes();
  for (const Namespace* s : limited_) queues += s->own->metadata_bytes();
  return queues + nodes_.metadata_bytes() + children_.metadata_bytes() +
         state_.created.capacity() * sizeof(int64_t) + roots_.capacity() * sizeof(Root) +
         namespaces_.size() * sizeof(decltype(namespaces_)::value_type) +
         lifetimes_.metadata_bytes() + next_logprobs_.metadata_bytes();
}

}  // namespace prefix
