// Pins: locks that a caller holds on cached prefixes, each until it is given back or its time is
// up.
//
//   lease 7 ──> node 12 (locked), until 90,000 ms
//   lease 8 ──> node 31 (locked), until it is given back
//
// Of a model with recurrent layers it is a node with a state, which is pinned as well: without it
// nothing could go on from there.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

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
    leases_[++last_] = {node, until_ms, state};
    if (until_ms > 0) next_end_ms_ = std::min(next_end_ms_, until_ms);
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
    if (found->second.state) tree_.unpin_state(found->second.node);
    tree_.unlock(found->second.node, keep_);
    leases_.erase(found);
    return true;
  }
  void expire(int64_t now_ms) {
    if (now_ms < next_end_ms_) return;
    next_end_ms_ = INT64_MAX;
    remove_if([&](const Lease& l) {
      if (l.until_ms > now_ms) next_end_ms_ = std::min(next_end_ms_, l.until_ms);
      return l.until_ms > 0 && l.until_ms <= now_ms;
    });
  }
  void end_in(int32_t name_space) {
    remove_if([&](const Lease& l) { return tree_.name_space(tree_.node(l.node)) == name_space; });
  }

 private:
  struct Lease {
    NodeId node;
    int64_t until_ms;
    bool state;  // of the node, pinned
  };
  template <typename Ends>
  void remove_if(const Ends& ends) {
    for (auto at = leases_.begin(); at != leases_.end();) {
      const auto here = at++;
      if (ends(here->second)) remove(here->first);
    }
  }

  Tree& tree_;
  const bool keep_;
  std::map<int64_t, Lease> leases_;
  int64_t last_ = 0;
  int64_t next_end_ms_ = INT64_MAX;  // at the earliest
};

}  // namespace prefix
