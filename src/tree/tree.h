// The prefix tree: everything cached and every sequence in flight is a path in it.
//
//   root "tenant a"                         a node is an edge: a run of tokens
//     └─ [ 5 9 12 7 | 3 3 ]  node 1         positions 0..5, all computed
//           ├─ [ 8 8 1 ]     node 2         positions 6..8, a leaf in the cache
//           └─ [ 4 2 2 6 ]   node 3         positions 6..9, tokens 2 and 6 still pending
//
// Attaching [5 9 12 1] splits node 1 after its third token:
//
//     └─ [ 5 9 12 ]          node 4 (new)   keeps the pages up to and including the split
//           ├─ [ 7 3 3 ]     node 1         same id, so whoever held it still stands at its end
//           │     ├─ node 2
//           │     └─ node 3
//           └─ [ 1 ]         node 5 (new)   pending
//
// Page rule (P = kPageTokens): page b of a path holds positions [bP, (b+1)P). A node lists the
// pages of its own positions, page of its first position first. A split in mid-page lets both
// halves list the same page; a branch in mid-page gets a page of its own and, in the step that
// computes its first token, a copy of the slots before it. So a row never meets a joint inside a
// page. Pages are numbers here; the bytes are in src/cache.
//
// Every running sequence locks the node that holds its last token, which may lie inside the edge; a
// split leaves the lower half with the id and the locks, so position p of a sequence is found by
// walking up from its node until start <= p (node_at). Only a leaf that nobody locks can be
// evicted; inner nodes are kept by their children. Not thread-safe: the engine owns it.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cache/page_pool.h"
#include "tree/child_map.h"

namespace prefix {

using NodeId = int32_t;
inline constexpr NodeId kNoNode = -1;

struct Node {
  NodeId parent = kNoNode;
  NodeId first_child = kNoNode;
  NodeId last_child = kNoNode;
  NodeId next = kNoNode;  // siblings, in order of creation
  NodeId previous = kNoNode;
  int32_t start = 0;     // position of the first token
  int32_t length = 0;    // tokens; 0 only for roots
  int32_t computed = 0;  // tokens whose keys and values are in the pages; the rest is pending
  int32_t locks = 0;     // running sequences whose last token is here
  int32_t root = kNoNode;
  int32_t rope_offset = 0;  // roots: added to positions to index the rotary tables
  int64_t job = 0;          // who asked for it first: tells "shared" from "cached"
  int64_t last_use = 0;
  std::shared_ptr<std::vector<int32_t>> block;  // shared by the halves of a split: nothing moves
  int32_t block_offset = 0;
  std::vector<int32_t> pages;  // page of position `start` first

  int32_t end() const { return start + length; }
  const int32_t* tokens() const { return block->data() + block_offset; }
};

struct Match {
  NodeId node = kNoNode;  // deepest node reached
  int32_t offset = 0;     // tokens of its edge that matched (== length: its end)
  int32_t matched = 0;    // tokens in all
  int32_t computed = 0;   // how many of them are computed; they come first
};

class Tree {
 public:
  explicit Tree(PagePool& pages) : pages_(pages) {}

  NodeId add_root(int32_t rope_offset = 0);
  // Removes a root without children.
  void remove_root(NodeId root);
  const Node& node(NodeId id) const { return nodes_[id]; }
  // The node on the path to `id` that holds position `position` (< end of id).
  NodeId node_at(NodeId id, int32_t position) const {
    while (nodes_[id].start > position) id = nodes_[id].parent;
    return id;
  }
  size_t node_limit() const { return nodes_.size(); }  // ids are below this
  size_t node_count() const { return live_; }

  // Longest path that equals a prefix of tokens, pending tokens included. Changes nothing.
  Match match(NodeId root, std::span<const int32_t> tokens) const;

  // Extends the tree until `tokens` is a path in it, locks the node that holds its last token and
  // returns it. New nodes get their pages now; unlocked leaves are evicted to make room. Throws
  // kCacheFull, changing nothing but evictions, when the pages do not suffice even so.
  NodeId attach(const Match& match, std::span<const int32_t> tokens, int64_t job);
  // Upper bound of the pages that attach(match, n tokens) takes.
  int32_t pages_needed(const Match& match, int32_t n) const;

  // For a sequence of `length` tokens that holds a lock on `from`, where its last token is: makes
  // the path longer by `token` and returns the node that holds it, with the lock moved there. An
  // existing edge or child is followed, a leaf that ends here grows, else a branch begins. Takes at
  // most one page, from the caller's reservation: *pages_taken tells.
  NodeId advance(NodeId from, int32_t length, int32_t token, int64_t job, int32_t* pages_taken);

  // The node on the path to `id` that ends after `length` tokens, made by a split when there is
  // none. Locks stay with `id`.
  NodeId end_at(NodeId id, int32_t length);

  void lock(NodeId id);
  // Drops a lock; what then nobody needs and is not computed is removed, and with keep == false
  // also what is computed.
  void unlock(NodeId id, bool keep);

  // Tokens [0, computed) of the node now have keys and values.
  void set_computed(NodeId id, int32_t computed);

  // Evicts least recently used unlocked leaves until `pages` are available; false if it cannot.
  bool make_room(int32_t pages);
  // Evicts until at most `pages` are used, or nothing more can go. Returns evicted tokens.
  int64_t trim(int32_t pages);
  // Evicts everything unlocked below root. Returns evicted tokens.
  int64_t drop(NodeId root);

  int64_t token_count() const { return tokens_; }
  int64_t evictions() const { return evictions_; }
  int64_t evicted_tokens() const { return evicted_tokens_; }

  // Throws kInternal when an invariant is broken (tests and debug builds).
  void check() const;

 private:
  NodeId add_node(NodeId parent);
  NodeId split(NodeId id, int32_t offset);
  NodeId branch(NodeId parent, std::span<const int32_t> tokens, int64_t job);
  void link(NodeId parent, NodeId child);
  void unlink(NodeId id);
  void remove(NodeId id);
  void give_pages(NodeId id);
  void settle(NodeId id, bool keep);
  void update_evictable(NodeId id);
  int64_t evict(NodeId id);

  PagePool& pages_;
  std::vector<Node> nodes_;
  std::vector<NodeId> free_;
  ChildMap children_;
  std::set<std::pair<int64_t, NodeId>> evictable_;  // (last use, leaf)
  int64_t tick_ = 0;
  size_t live_ = 0;
  int64_t tokens_ = 0;
  int64_t evictions_ = 0;
  int64_t evicted_tokens_ = 0;
};

}  // namespace prefix
