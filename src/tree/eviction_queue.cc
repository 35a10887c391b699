#include "tree/eviction_queue.h"

#include <bit>
#include <limits>
#include <new>

#include "tree/state_scores.h"

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
    case Policy::kGds:
    case Policy::kGdsf: {
      const double position = node.start + 0.5 * node.length;
      const uint32_t uses = policy == Policy::kGdsf ? node.uses : 1;
      // Not negative, so bits are ordered as values.
      return std::bit_cast<int64_t>(greedy_dual(age, cost(position), uses));
    }
    default:
      return node.last_use;
  }
}

// Null when there is no memory for it.
EvictionQueue::Class* EvictionQueue::class_for(int64_t number) noexcept {
  try {
    return &classes_[number];
  } catch (const std::bad_alloc&) {
    return nullptr;
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

bool EvictionQueue::insert(NodeId id) noexcept {
  const Key mine{state_.class_of(nodes_[id]), rank(id)};
  // With an age the rank of a linked node would change as it waits.
  Class* const c = ages(state_.policy) ? nullptr : class_for(mine.of_class);
  if (c && (c->tail == kNoNode || mine.rank >= rank(c->tail))) {
    link(*c, c->tail, id);
  } else if (c && mine.rank <= rank(c->head)) {
    link(*c, kNoNode, id);
  } else {
    try {
      late_.emplace_back();
    } catch (const std::bad_alloc&) {
      return false;
    }
    sift_up(late_.size() - 1, {mine, id});
  }
  return nodes_[id].queued = true;
}

void EvictionQueue::erase(NodeId id) {
  Node& n = nodes_[id];
  if (n.queue_previous == kIsLate) {
    const auto at = static_cast<size_t>(n.queue_next);
    const Late last = late_.back();
    late_.pop_back();
    if (at < late_.size()) {
      sift_down(at, last);
      sift_up(static_cast<size_t>(nodes_[last.id].queue_next), last);
    }
  } else {
    const auto found = classes_.find(state_.class_of(n));
    Class& c = found->second;
    (n.queue_previous != kNoNode ? nodes_[n.queue_previous].queue_next : c.head) = n.queue_next;
    (n.queue_next != kNoNode ? nodes_[n.queue_next].queue_previous : c.tail) = n.queue_previous;
    if (c.head == kNoNode) classes_.erase(found);
  }
  n.queued = false;
  n.queue_next = n.queue_previous = kNoNode;
}

NodeId EvictionQueue::front() const {
  if (classes_.empty()) return late_.front().id;
  const auto& [of_class, c] = *classes_.begin();
  const bool late = !late_.empty() && late_.front().key < Key{of_class, rank(c.head)};
  return late ? late_.front().id : c.head;
}

EvictionQueue::Key EvictionQueue::front_key() const {
  const NodeId id = front();
  if (nodes_[id].queue_previous == kIsLate) return late_.front().key;
  return {classes_.begin()->first, rank(id)};
}

void EvictionQueue::place(size_t at, const Late& late) {
  late_[at] = late;
  nodes_[late.id].queue_next = static_cast<NodeId>(at);
  nodes_[late.id].queue_previous = kIsLate;
}

void EvictionQueue::sift_up(size_t at, const Late& late) {
  while (at > 0 && late.key < late_[(at - 1) / 2].key) {
    place(at, late_[(at - 1) / 2]);
    at = (at - 1) / 2;
  }
  place(at, late);
}

void EvictionQueue::sift_down(size_t at, const Late& late) {
  for (;;) {
    size_t child = 2 * at + 1;
    if (child >= late_.size()) break;
    if (child + 1 < late_.size() && late_[child + 1].key < late_[child].key) ++child;
    if (late_[child].key >= late.key) break;
    place(at, late_[child]);
    at = child;
  }
  place(at, late);
}

}  // namespace prefix
