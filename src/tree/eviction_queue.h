// The evictable leaves in the order in which they go (see policy.h).
//
//   class 0   [ 3 ]-[ 9 ]-[ 4 ]-[ 7 ]      a list by rank, linked through the nodes
//   class 1   [ 6 ]-[ 8 ]
//   late      heap { 5, 2 }                those whose rank was out of order when they came
//
// A leaf that has just been used has the highest rank of all, so it joins at an end of the list at
// once. Only a parent that lost its last child, and a few policies, need the heap. The order is
// exact: the next to go is the smaller of the heap's front and the front of the first class.
// Nothing is scanned.
#pragma once

#include <algorithm>
#include <compare>
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
  double alpha = 0;  // of marconi

  // Of computing a token at this position; the first one costs 1.
  double cost(double position) const {
    return (token_cost + position_cost * position) / token_cost;
  }
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

  bool empty() const { return classes_.empty() && late_.empty(); }
  // After it, insert() takes no memory as long as no more than `leaves` wait.
  void prepare(size_t leaves) {
    if (late_.capacity() < leaves) late_.reserve(std::max(leaves, 2 * late_.capacity()));
  }
  // A queued leaf must leave before anything its class is made of changes. False:
  // there is no memory to queue it.
  bool insert(NodeId id) noexcept;
  void erase(NodeId id);
  // The next to go; the queue is not empty.
  NodeId front() const;
  Key front_key() const;
  size_t metadata_bytes() const {
    constexpr size_t kLinks = 4 * sizeof(void*);  // of a map's node
    return late_.capacity() * sizeof(Late) +
           classes_.size() * (sizeof(decltype(classes_)::value_type) + kLinks);
  }

 private:
  struct Late {
    Key key;
    NodeId id;
  };
  struct Class {  // not empty
    NodeId head = kNoNode;
    NodeId tail = kNoNode;
  };
  static constexpr NodeId kIsLate = -2;  // in queue_previous; queue_next is the place in the heap

  int64_t rank(NodeId id) const { return state_.rank_of(id, nodes_[id]); }
  Class* class_for(int64_t number) noexcept;
  void link(Class& c, NodeId before, NodeId id);
  void place(size_t at, const Late& late);
  void sift_up(size_t at, const Late& late);
  void sift_down(size_t at, const Late& late);

  NodeArena& nodes_;
  PolicyState& state_;
  std::map<int64_t, Class> classes_;
  std::vector<Late> late_;
};

}  // namespace prefix
