// When nodes end: the ends by node, and places by time.
//
//   ends_                              places_
//     node 7   end 900, place 400        400  node 7     a use put its end off: its place, one for
//     node 9   end 500, place 500        450  node 12    a node, follows when it is due
//                                        500  node 9     node 12 has no end any more: passed over
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <unordered_map>
#include <vector>

#include "tree/node.h"

namespace prefix {

class Lifetimes {
 public:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  bool contains(NodeId id) const { return !ends_.empty() && ends_.contains(id); }
  int64_t end_of(NodeId id) const;  // kNever when it has no end
  // Without memory for it the node has no end (std::bad_alloc).
  void set(NodeId id, int64_t end_ms);
  void erase(NodeId id) {
    if (!ends_.empty()) ends_.erase(id);
  }
  // A node whose end has come, which has none from then on; kNoNode when there is none.
  NodeId take_due(int64_t now_ms);

  size_t metadata_bytes() const;

 private:
  struct Life {
    int64_t end_ms;
    int64_t place_ms;
  };
  struct Place {
    int64_t at_ms;
    NodeId id;
    bool operator>(const Place& other) const { return at_ms > other.at_ms; }
  };

  void place(NodeId id, Life& life);
  void drop_outdated();

  std::unordered_map<NodeId, Life> ends_;
  std::priority_queue<Place, std::vector<Place>, std::greater<>> places_;  // some are outdated
};

}  // namespace prefix
