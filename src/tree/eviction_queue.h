// The evictable leaves in the order in which they go (see policy.h).
//
//   class 0   [ 3 ]-[ 9 ]-[ 4 ]-[ 7 ]      a list by rank, linked through the nodes
//             late: heap { 5, 2 }          those whose rank was out of order when they came
//   class 1   [ 6 ]-[ 8 ]
//
// A leaf that has just been used has the highest rank of all, so it joins at an end of the list at
// once. Only a parent that lost its last child, and a few policies, need the heap. The order is
// exact: the next to go is the smaller of the two fronts of the first class. Nothing is scanned.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "tree/node.h"
#include "tree/policy.h"

namespace prefix {

// What ranks are made of, shared by the queues of a tree.
struct PolicyState {
  Policy policy = Policy::kLru;
  // Creation ticks by node; kept for the policies that ask.
  std::vector<int64_t> created;
  // GDSF: computing token p of a path costs token_cost + p x position_cost, of which only the
  // ratio counts; age is the rank of the last one that was evicted.
  double token_cost = 1;
  double position_cost = 0;
  double age = 0;

  int64_t class_of(const Node& node) const;
  int64_t rank_of(NodeId id, const Node& node) const;
};

class EvictionQueue {
 public:
  EvictionQueue(NodeArena& nodes, PolicyState& state) : nodes_(nodes), state_(state) {}

  struct Key {
    int64_t of_class;
    int64_t rank;
    auto operator<=>(const Key&) const = default;
  };

  bool empty() const { return classes_.empty(); }
  // A queued leaf must leave before anything its class is made of changes.
  void insert(NodeId id);
  void erase(NodeId id);
  // The next to go; the queue is not empty.
  NodeId front() const;
  Key front_key() const;

 private:
  struct Late {
    int64_t rank;
    NodeId id;
  };
  struct Class {
    NodeId head = kNoNode;
    NodeId tail = kNoNode;
    std::vector<Late> late;
  };
  static constexpr NodeId kIsLate = -2;  // in queue_previous; queue_next is the place in the heap

  int64_t rank(NodeId id) const { return state_.rank_of(id, nodes_[id]); }
  void link(Class& c, NodeId before, NodeId id);
  void place(Class& c, size_t at, const Late& late);
  void sift_up(Class& c, size_t at, const Late& late);
  void sift_down(Class& c, size_t at, const Late& late);

  NodeArena& nodes_;
  PolicyState& state_;
  std::map<int64_t, Class> classes_;
};

}  // namespace prefix
