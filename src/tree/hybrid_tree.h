// The prefix tree of a hybrid model's cache as policies are tried on it: token runs, an optional
// state at the end of each, and one budget of bytes.
//
//   root ──[5 6 7 8]──●──[9 9]──●          ●  a state, valid exactly after the last token before it
//                     └──[4]──○──[1 2]──●  ○  no state: a fork from which nothing continues yet
//                             └──[3]──●
//
// A lookup walks as far as the tokens agree and uses the deepest state that it passed. A node that
// goes is a leaf, which takes its keys and values along, or has one child,
// which takes its run over:
//
//   ──[5 6]──●──[7]──●   the state after 6 goes:   ──[5 6 7]──●
//
// It is not the engine's Tree: there a fork begins a page of its own, and joining two nodes would
// mean to copy keys and values from page to page, so a node stays where its state went. Marconi's
// rules decide by the nodes that are left after joining. Here a token is a number and nothing else;
// what chooses the victim, HybridQueue, is the same.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tree/child_map.h"
#include "tree/hybrid_cost.h"
#include "tree/hybrid_policy.h"

namespace prefix {

struct HybridNode {
  int32_t parent = -1;
  int32_t first_child = -1;
  int32_t last_child = -1;
  int32_t next = -1;  // siblings, in the order in which they came
  int32_t previous = -1;
  int32_t children = 0;
  int32_t pins = 0;
  bool state = false;
  bool live = false;
  uint64_t order = 0;  // ascends among siblings
  int64_t end = 0;     // tokens from the root
  int64_t last_use = 0;
  int64_t prompt = 0;           // end of the prompt that brought it
  std::vector<int32_t> tokens;  // empty: a root

  int64_t start() const { return end - static_cast<int64_t>(tokens.size()); }
};

// How far the tokens of a request agree with the tree.
struct HybridMatch {
  int32_t node = -1;     // deepest of which all tokens agree; a root if none
  int32_t hit = -1;      // deepest such with a state; -1 if none
  int32_t partial = -1;  // child of `node` that agrees with at least one token, not with all; or -1
  int64_t length = 0;    // tokens that agree
  int64_t reused = 0;    // end of `hit`
};

class HybridTree {
 public:
  struct Options {
    HybridCost cost;
    HybridPolicy policy = HybridPolicy::kLru;
    double alpha = 0;
    bool leaves_only = false;  // nodes with a child never go
  };
  explicit HybridTree(const Options& options);
  HybridTree(const HybridTree&) = delete;
  HybridTree& operator=(const HybridTree&) = delete;

  const HybridNode& node(int32_t id) const { return nodes_[static_cast<size_t>(id)]; }
  // The root of a namespace; made when it is not there.
  int32_t root(std::string_view name);
  // The child whose run begins with the token; -1 if there is none.
  int32_t child_of(int32_t id, int32_t token) const;
  // Only states after at most `limit` tokens are hits.
  HybridMatch match(int32_t root, std::span<const int32_t> tokens, int64_t limit) const;

  // Cuts the run of `id` after `offset` tokens; returns the upper part.
  int32_t split(int32_t id, int64_t offset, bool state, int64_t now);
  int32_t add_leaf(int32_t parent, std::span<const int32_t> tokens, bool state, int64_t now);
  void add_state(int32_t id);
  void set_prompt(int32_t id, int64_t prompt) { at(id).prompt = prompt; }
  // The state of a node with one child goes, and the node with it.
  void drop_state(int32_t id) { remove(id); }

  void set_last_use(int32_t id, int64_t now);
  void renew(int32_t id);  // its priority is as if it were new
  void count_hit(int32_t id);
  // The path to a node does not go while it is pinned.
  void pin(int32_t id);
  void unpin(int32_t id);

  // The next to go; -1 if there is none.
  int32_t victim(int64_t now, const std::optional<HybridQueue::Range>& scale = {}) const {
    return queue_.victim(now, scale);
  }
  // Returns the bytes that it freed.
  int64_t evict(int32_t id);
  void set_policy(HybridPolicy policy, double alpha, bool leaves_only);

  int64_t kv_bytes(int64_t tokens) const { return options_.cost.kv_bytes * tokens; }
  int64_t freed_by(int32_t id) const;  // bytes
  int64_t used() const { return states_ * options_.cost.state_bytes + kv_bytes(tokens_); }
  int64_t tokens() const { return tokens_; }
  int64_t states() const { return states_; }
  int64_t nodes() const { return live_; }  // without roots
  int64_t evictions() const { return evictions_; }
  const HybridCost& cost() const { return options_.cost; }
  int32_t last_leaf() const;  // the last node in depth-first order
  HybridQueue::Range last_uses() const;
  // Nodes depth first, children in the order in which they came.
  std::vector<int32_t> in_order() const;
  void check() const;  // throws kInternal

 private:
  static constexpr int32_t kTop = 0;  // above the roots

  HybridNode& at(int32_t id) { return nodes_[static_cast<size_t>(id)]; }
  bool is_candidate(int32_t id) const;
  int32_t make(int32_t parent, int64_t now);
  void append_child(int32_t parent, int32_t id);
  void replace_child(int32_t old_id, int32_t id);
  void unlink(int32_t id);
  void free(int32_t id);
  void remove(int32_t id);
  void join(int32_t id);
  void requeue(int32_t id);
  bool before(int32_t a, int32_t b) const;

  Options options_;
  std::vector<HybridNode> nodes_;
  std::vector<int32_t> free_;
  ChildMap children_;
  std::map<std::string, int32_t, std::less<>> roots_;
  HybridQueue queue_;
  uint64_t next_order_ = 0;
  int64_t tokens_ = 0;
  int64_t states_ = 0;
  int64_t live_ = 0;
  int64_t evictions_ = 0;
};

}  // namespace prefix
