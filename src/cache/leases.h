// Pins: locks that a caller holds on cached prefixes, each until it is given back or its time is
// up.
//
//   lease 7 ──> node 12 (locked), until 90,000 ms
//   lease 8 ──> node 31 (locked), until it is given back
//
// Of a model with recurrent layers it is a node with a state, which is pinned as well: without it
// nothing could go on from there.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "tree/tree.h"

namespace prefix {

class Leases {
 public:
  // keep: what was pinned stays in the cache until memory is short;
  // else it goes with the last lease.
  explicit Leases(Tree& tree, bool keep = true) : tree_(tree), keep_(keep) {}

  // Locks the node, and pins its state if it has one;
  // until_ms is on the clock of expire(), 0 for no end. Numbers are never reused.
  int64_t add(NodeId node, int64_t until_ms) {
    const bool state = tree_.has_state(node);
    Ends end;
    if (until_ms > 0) end.emplace(until_ms, last_ + 1);
    leases_[++last_] = {node, until_ms, state};
    ends_.merge(end);
    tree_.lock(node);
    if (state) {
      tree_.keep_state(node);
      tree_.pin_state(node);
    }
    return last_;
  }
  // False: there is no such lease (any more).
  bool remove(int64_t lease) {
    const auto found = leases_.find(lease);
    if (found == leases_.end()) return false;
    ends_.erase({found->second.until_ms, lease});
    if (found->second.state) tree_.unpin_state(found->second.node);
    tree_.unlock(found->second.node, keep_);
    leases_.erase(found);
    return true;
  }
  // Takes no memory. Those that are over end in the order in which they were made.
  void expire(int64_t now_ms) {
    Ends over;  // by number first
    while (!ends_.empty() && ends_.begin()->first <= now_ms) {
      Ends::node_type end = ends_.extract(ends_.begin());
      std::swap(end.value().first, end.value().second);
      over.insert(std::move(end));
    }
    for (const auto& [lease, until_ms] : over) remove(lease);
  }
  void end_in(int32_t name_space) {
    for (auto at = leases_.begin(); at != leases_.end();) {
      const auto& [lease, here] = *at++;
      if (tree_.name_space(tree_.node(here.node)) == name_space) remove(lease);
    }
  }

 private:
  struct Lease {
    NodeId node;
    int64_t until_ms;
    bool state;  // of the node, pinned
  };
  using Ends = std::set<std::pair<int64_t, int64_t>>;  // time, lease

  Tree& tree_;
  const bool keep_;
  std::map<int64_t, Lease> leases_;
  int64_t last_ = 0;
  Ends ends_;  // of those that have one
};

}  // namespace prefix
