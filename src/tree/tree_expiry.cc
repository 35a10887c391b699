// Nodes whose time ends.
//
//   [ 5 9 12 7 ] until 900 ──┬── [ 3 3 ]           no end: it stays, with what is above it,
//                            │                     until memory is short
//                            └── [ 8 ] until 400   goes at 400
//
// Every use has an end, or none, for what it reads and for what it adds: a node ends with the last
// of them. So an edge is split where a use ends inside it, and what is added behind a node that ends
// later begins a node of its own.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <new>
#include <utility>
#include <vector>

#include "tree/tree.h"

namespace prefix {
namespace {

constexpr size_t kFewExpiries = 64;
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

int64_t end_of_use(int64_t expires_ms) { return expires_ms == 0 ? kNever : expires_ms; }

}  // namespace

int64_t Tree::end_of_life(NodeId id) const {
  if (nodes_[id].expired) return std::numeric_limits<int64_t>::min();
  if (expires_.empty()) return kNever;
  const auto found = expires_.find(id);
  return found != expires_.end() ? found->second.end_ms : kNever;
}

bool Tree::ends_before(NodeId id, int64_t expires_ms) const {
  return end_of_life(id) < end_of_use(expires_ms);
}

bool Tree::ends_after(NodeId id, int64_t expires_ms) const {
  return end_of_life(id) > end_of_use(expires_ms);
}

// Of a node that is not queued. A time that there is no memory for has come: the node is usable still,
// and the first to go.
void Tree::expire_at(NodeId id, int64_t ms) noexcept {
  try {
    const auto [life, is_new] = expires_.try_emplace(id, Life{ms, ms});
    life->second.end_ms = ms;
    if (!is_new && ms >= life->second.place_ms) return;
    if (expiries_.size() > 2 * expires_.size() + kFewExpiries) drop_outdated_expiries();
    place_expiry(id, life->second);
  } catch (const std::bad_alloc&) {
    expires_.erase(id);
    nodes_[id].expired = true;
    children_changed(id);
  }
}

// Without memory when one was taken before.
void Tree::place_expiry(NodeId id, Life& life) {
  expiries_.push({life.end_ms, id});
  life.place_ms = life.end_ms;
}

void Tree::drop_outdated_expiries() {
  std::vector<Expiry> all;
  all.reserve(expires_.size());
  for (const auto& [node, life] : expires_) all.push_back({life.place_ms, node});
  expiries_ = decltype(expiries_)(std::greater<>(), std::move(all));
}

// Of a node that is not queued, whatever its end was.
void Tree::set_end(NodeId id, int64_t expires_ms) noexcept {
  if (std::exchange(nodes_[id].expired, false)) children_changed(id);
  if (expires_ms != 0) {
    expire_at(id, expires_ms);
  } else if (!expires_.empty()) {
    expires_.erase(id);
  }
}

// Without memory for a split the edge that these tokens end in keeps its end.
void Tree::prolong(NodeId id, int32_t length, int64_t expires_ms) noexcept {
  length = computed_end(id, length);
  if (length == 0) return;
  id = node_at(id, length - 1);
  if (length < nodes_[id].end() && ends_before(id, expires_ms)) {
    try {
      id = split(id, length - nodes_[id].start);
    } catch (const std::bad_alloc&) {
      id = nodes_[id].parent;
    }
  }
  for (; nodes_[id].length > 0; id = nodes_[id].parent) {
    if (ends_before(id, expires_ms)) set_end(id, expires_ms);
    if (whole_) return;
  }
}

int64_t Tree::expire(int64_t now_ms) {
  const int64_t before = tokens_;
  while (!expiries_.empty() && expiries_.top().at_ms <= now_ms) {
    const Expiry due = expiries_.top();
    expiries_.pop();
    const auto found = expires_.find(due.id);
    if (found == expires_.end() || found->second.place_ms != due.at_ms) continue;  // gone since
    if (found->second.end_ms > now_ms) {                                           // used since
      place_expiry(due.id, found->second);
      continue;
    }
    expires_.erase(found);
    if (nodes_[due.id].queued) dequeue(due.id);
    nodes_[due.id].expired = true;
    children_changed(due.id);
    queue_or_evict(due.id, EvictReason::kExpired);
  }
  if (!std::exchange(expired_queued_, false)) return before - tokens_;
  const auto sweep = [&](EvictionQueue& queue) {
    while (!queue.empty() && nodes_[queue.front()].expired)
      evict(queue.front(), EvictReason::kExpired);
  };
  while (!state_queue_.empty() && nodes_[state_queue_.begin()->second].expired)
    evict_state(state_queue_.begin()->second, EvictReason::kExpired);
  sweep(common_);
  for (const Namespace* s : limited_) sweep(*s->own);
  return before - tokens_;
}

}  // namespace prefix
