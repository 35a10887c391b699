#include "tree/eviction_queue.h"

#include <bit>
#include <limits>

namespace prefix {

int64_t PolicyState::class_of(const Node& node) const {
  if (node.expired) return std::numeric_limits<int64_t>::min();
  switch (policy) {
    case Policy::kLfu:
      return node.uses;
    case Policy::kSlru:
      return node.uses >= 2 ? 1 : 0;
    case Policy::kPriority:
      return node.priority;
    default:
      return 0;
  }
}

int64_t PolicyState::rank_of(NodeId id, const Node& node) const {
  switch (policy) {
    case Policy::kFifo:
      return created[static_cast<size_t>(id)];
    case Policy::kFilo:
      return -created[static_cast<size_t>(id)];
    case Policy::kMru:
      return -node.last_use;
    case Policy::kGdsf: {
      const double position = node.start + 0.5 * node.length;
      const double worth = node.uses * (token_cost + position_cost * position) / token_cost;
      return std::bit_cast<int64_t>(age + worth);  // not negative, so bits are ordered as values
    }
    default:
      return node.last_use;
  }
}

// Links `id` behind `before`, at the head when it is kNoNode.
void EvictionQueue::link(Class& c, NodeId before, NodeId id) {
  Node& n = nodes_[id];
  n.queue_previous = before;
  n.queue_next = before != kNoNode ? nodes_[before].queue_next : c.head;
  (before != kNoNode ? nodes_[before].queue_next : c.head) = id;
  (n.queue_next != kNoNode ? nodes_[n.queue_next].queue_previous : c.tail) = id;
}

void EvictionQueue::insert(NodeId id) {
  Class& c = classes_[state_.class_of(nodes_[id])];
  nodes_[id].queued = true;
  const int64_t mine = rank(id);
  if (state_.policy == Policy::kGdsf) {  // the rank of a linked node would change as it waits
    c.late.emplace_back();
    sift_up(c, c.late.size() - 1, {mine, id});
  } else if (c.tail == kNoNode || mine >= rank(c.tail)) {
    link(c, c.tail, id);
  } else if (mine <= rank(c.head)) {
    link(c, kNoNode, id);
  } else {
    c.late.emplace_back();
    sift_up(c, c.late.size() - 1, {mine, id});
  }
}

void EvictionQueue::erase(NodeId id) {
  Node& n = nodes_[id];
  const auto found = classes_.find(state_.class_of(n));
  Class& c = found->second;
  n.queued = false;
  if (n.queue_previous == kIsLate) {
    const auto at = static_cast<size_t>(n.queue_next);
    const Late last = c.late.back();
    c.late.pop_back();
    if (at < c.late.size()) {
      sift_down(c, at, last);
      sift_up(c, static_cast<size_t>(nodes_[last.id].queue_next), last);
    }
  } else {
    (n.queue_previous != kNoNode ? nodes_[n.queue_previous].queue_next : c.head) = n.queue_next;
    (n.queue_next != kNoNode ? nodes_[n.queue_next].queue_previous : c.tail) = n.queue_previous;
  }
  n.queue_next = n.queue_previous = kNoNode;
  if (c.head == kNoNode && c.late.empty()) classes_.erase(found);
}

NodeId EvictionQueue::front() const {
  const Class& c = classes_.begin()->second;
  if (c.late.empty()) return c.head;
  return c.head == kNoNode || c.late.front().rank < rank(c.head) ? c.late.front().id : c.head;
}

EvictionQueue::Key EvictionQueue::front_key() const {
  const auto& [of_class, c] = *classes_.begin();
  const NodeId id = front();
  return {of_class, id == c.head ? rank(id) : c.late.front().rank};
}

void EvictionQueue::place(Class& c, size_t at, const Late& late) {
  c.late[at] = late;
  nodes_[late.id].queue_next = static_cast<NodeId>(at);
  nodes_[late.id].queue_previous = kIsLate;
}

void EvictionQueue::sift_up(Class& c, size_t at, const Late& late) {
  while (at > 0 && late.rank < c.late[(at - 1) / 2].rank) {
    place(c, at, c.late[(at - 1) / 2]);
    at = (at - 1) / 2;
  }
  place(c, at, late);
}

void EvictionQueue::sift_down(Class& c, size_t at, const Late& late) {
  for (;;) {
    size_t child = 2 * at + 1;
    if (child >= c.late.size()) break;
    if (child + 1 < c.late.size() && c.late[child + 1].rank < c.late[child].rank) ++child;
    if (c.late[child].rank >= late.rank) break;
    place(c, at, c.late[child]);
    at = child;
  }
  place(c, at, late);
}

}  // namespace prefix
