// Nodes whose time ends.
//
//   [ 5 9 12 7 ] until 900 ──┬── [ 3 3 ]           no end: it stays, with what is above it,
//                            │                     until memory is short
//                            └── [ 8 ] until 400   goes at 400
//
// Every use has an end, or none, for what it reads and for what it adds: a node ends with the last
// of them. So an edge is split where a use ends inside it,
// and what is added behind a node that ends later begins a node of its own.
#include <cstdint>
#include <limits>
#include <new>
#include <utility>

#include "tree/tree.h"

namespace prefix {
namespace {

int64_t end_of_use(int64_t expires_ms) { return expires_ms == 0 ? Lifetimes::kNever : expires_ms; }

}  // namespace

int64_t Tree::end_of_life(NodeId id) const {
  if (nodes_[id].expired) return std::numeric_limits<int64_t>::min();
  return lifetimes_.end_of(id);
}

bool Tree::ends_before(NodeId id, int64_t expires_ms) const {
  return end_of_life(id) < end_of_use(expires_ms);
}

bool Tree::ends_after(NodeId id, int64_t expires_ms) const {
  return end_of_life(id) > end_of_use(expires_ms);
}

// Of a node that is not queued. A time that there is no memory for has come:
// the node is usable still, and the first to go.
void Tree::expire_at(NodeId id, int64_t ms) noexcept {
  try {
    lifetimes_.set(id, ms);
  } catch (const std::bad_alloc&) {
    nodes_[id].expired = true;
    children_changed(id);
  }
}

// Of a node that is not queued, whatever its end was.
void Tree::set_end(NodeId id, int64_t expires_ms) noexcept {
  if (std::exchange(nodes_[id].expired, false)) children_changed(id);
  if (expires_ms != 0) {
    expire_at(id, expires_ms);
  } else {
    lifetimes_.erase(id);
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
  for (NodeId id; (id = lifetimes_.take_due(now_ms)) != kNoNode;) {
    if (nodes_[id].queued) dequeue(id);
    nodes_[id].expired = true;
    children_changed(id);
    queue_or_evict(id, EvictReason::kExpired);
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
