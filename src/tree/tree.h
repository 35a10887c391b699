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
//           ├─ [ 7 3 3 ]     node 1         same id, so its locks still stand at its end
//           │     ├─ node 2
//           │     └─ node 3
//           └─ [ 1 ]         node 5 (new)   pending
//
// Page rule (P = kPageTokens): page b of a path holds positions [bP, (b+1)P). The pages of a node's
// own positions are linked, first_page to last_page, and hold its tokens too, so a split moves
// nothing. A split in mid-page lets both halves use the same page, and a node that ends in mid-page
// lends the rest of its page to one branch; a further one gets a page of its own and, in the step
// that computes its first token, a copy of the slots before it. So a row never meets a split point
// inside a page. Pages are numbers here; the bytes are in src/cache.
//
// Every running sequence locks the node that holds its last token, which may lie inside the edge; a
// split leaves the lower half with the id and the locks, so position p of a sequence is found by
// walking up from its node until start <= p (node_at). A node is held while it or a node below it
// has a lock (subtree_locks > 0). Only a leaf that is not held can be evicted, whole pages from its
// tail first; inner nodes are kept by their children.
//
// A token may have a log-prob beside it: that of the token given those before it, which a request
// asked for (tree_logprobs.cc).
//
// A node may own a *state*: what the recurrent layers of a hybrid model know after its last token,
// in pages of the same pool. Its path can be continued there without computing anything again;
// between states there are only keys and values.
//
//   [ 5 9 12 ] S ──┬── [ 7 3 3 ]           continues at 3 or at 8; a path that leaves node 4 inside
//                  └── [ 1 8 8 2 4 ] S     its edge has to begin at 0
//
// Every root belongs to a namespace, a number here: tokens are counted for each, and it may have a
// quota, which it never exceeds, and a floor, below which others do not evict it. Not thread-safe:
// the engine owns it.
//
// What adds to the tree may find no memory (std::bad_alloc); then nothing has changed but
// evictions. What only takes away needs none: a leaf that there is no memory to queue for
// eviction goes at once.
//
// Where attention has a window in every layer, a path may have hollow pages (page_pool.h); it can
// be continued where the last window of tokens is there. tree_windows.cc has the rules;
// tree_expiry.cc has those of nodes whose time ends.
//
// Where tokens see those behind them, no path can be continued at all: a text is there as a
// whole, for its state, which is what was read of it (TreeOptions::whole). The paths of such
// texts have tokens only; all their pages are hollow, and a node without a state goes when
// nothing is below it.
//
//   [ 5 9 12 7 ] S ──┬── [ 3 3 ] S         the texts 5 9 12 7, 5 9 12 7 3 3 and 5 9 12 7 8;
//                    └── [ 8 ] S           each is found by all of its tokens, and by no other ones
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tree/child_map.h"
#include "tree/eviction_queue.h"
#include "tree/lifetimes.h"
#include "tree/next_logprobs.h"
#include "tree/node.h"
#include "tree/page_pool.h"
#include "tree/tree_types.h"

namespace prefix {

class Tree {
 public:
  explicit Tree(PagePool& pages, const TreeOptions& options = {});

  // --- roots and namespaces ---
  // What is below a private root is shared with no other request: observers hear nothing of it.
  NodeId add_root(int32_t rope_offset = 0, int32_t name_space = 0, int32_t adapter = 0,
                  bool is_private = false);
  // Removes a root without children.
  void remove_root(NodeId root);
  // Forgets a namespace without roots, with its limits; never the first one.
  void remove_namespace(int32_t name_space);
  NodeId root(const Node& n) const { return roots_[static_cast<size_t>(n.root)].node; }
  int32_t rope_offset(const Node& n) const {  // added to positions to index the rotary tables
    return roots_[static_cast<size_t>(n.root)].rope_offset;
  }
  bool whole() const { return whole_; }
  // Whose adapter computes what is below the root; 0: the model alone.
  int32_t adapter(const Node& n) const { return roots_[static_cast<size_t>(n.root)].adapter; }
  int32_t name_space(const Node& n) const { return roots_[static_cast<size_t>(n.root)].name_space; }
  // In tokens; quota 0: none. Costs a pass over what the namespace has, and over the roots.
  void set_limits(int32_t name_space, int64_t floor, int64_t quota);
  int64_t tokens_of(int32_t name_space) const;
  int64_t quota(int32_t name_space) const;  // INT32_MAX: none
  // Tokens that it lets a namespace take without losing others.
  int64_t quota_left(int32_t name_space) const;

  // --- reading ---
  const Node& node(NodeId id) const { return nodes_[id]; }
  // The node on the path to `id` that holds position `position` (< end of id).
  NodeId node_at(NodeId id, int32_t position) const {
    while (nodes_[id].start > position) id = nodes_[id].parent;
    return id;
  }
  int32_t token(const Node& n, int32_t offset) const;
  NodeId last_child(NodeId id) const;
  // f(page, slot, count) for each piece of tokens [begin, end) of an edge that lies in one page.
  template <typename F>
  void for_each_piece(const Node& n, int32_t begin, int32_t end, const F& f) const;
  std::vector<int32_t> tokens(const Node& n) const;
  int32_t page_count(const Node& n) const;
  const int32_t* page_tokens(int32_t page) const { return pages_.tokens(page); }
  int32_t frame(int32_t page) const { return pages_.frame(page); }
  NodeId node_limit() const { return nodes_.limit(); }  // ids are below this
  size_t node_count() const { return nodes_.live(); }   // roots too

  // Longest path that equals a prefix of tokens, pending tokens included. Changes nothing.
  Match match(NodeId root, std::span<const int32_t> tokens) const;

  // --- sequences (tree_sequences.cc) ---
  // Extends the tree until `tokens` is a path in it, locks the node that ends with its last token
  // and returns it: a use of the path, and not of what an edge had behind it. New nodes get their
  // pages now; unlocked leaves are evicted to make room. Throws kCacheFull, changing nothing but
  // evictions, when the pages do not suffice even so.
  NodeId attach(const Match& match, std::span<const int32_t> tokens, const AttachOptions& use);
  // Of a tree of whole texts: makes `tokens` a path without frames whose last node is the text's
  // own, and attaches to it. Throws as attach().
  NodeId attach_whole(NodeId root, std::span<const int32_t> tokens, const AttachOptions& use);
  // The pages that attach(match, n tokens) takes, but for hollow ones that it fills.
  int32_t pages_needed(const Match& match, int32_t n) const;
  // How many tokens a path that goes on from a match can have with `pages` more.
  int64_t reach(const Match& match, int32_t pages) const;

  // For a sequence of `length` tokens that holds a lock on `from`, where its last token is: makes
  // the path longer by `token` and returns the node that holds it, with the lock moved there. An
  // existing edge or child is followed. A leaf that ends here grows, unless the token would inherit
  // what is not its own: further uses, a higher priority or a longer life; else a branch begins.
  // Takes at most one page, from the caller's reservation: *pages_taken tells. With use.slides it
  // takes none: a new page is hollow.
  NodeId advance(NodeId from, int32_t length, int32_t token, const AttachOptions& use,
                 int32_t* pages_taken);

  // A path of `length` tokens that ends where a node ends, which one sequence alone holds and
  // advance() would make longer.
  bool grows_alone(NodeId id, int32_t length, const AttachOptions& use) const;
  // Takes tokens back, none of them computed, by which advance() made a node longer that one
  // sequence alone holds: its path ends with `length` tokens again. Returns the pages that are free.
  int32_t retreat(NodeId id, int32_t length);

  // The node on the path to `id` that ends after `length` tokens, made by a split when there is
  // none. Locks stay with `id`.
  NodeId end_at(NodeId id, int32_t length);

  void lock(NodeId id);
  // Drops a lock, which is a use of the path; what is not held then and not computed is
  // removed, and with keep == false also what is computed.
  void unlock(NodeId id, bool keep);

  // Drops a lock that was only to keep the path, as unlock(id, true) but no use of it.
  void unlock_quietly(NodeId id);

  // The node goes when its time is over, or as soon as it can if that is now.
  bool has_expiry(NodeId id) const { return nodes_[id].expired || lifetimes_.contains(id); }
  // What is computed of the first `length` tokens of a path does not end before this time; 0: it
  // has no end.
  void prolong(NodeId id, int32_t length, int64_t expires_ms) noexcept;

  // Tokens [0, computed) of the node now have keys and values.
  void set_computed(NodeId id, int32_t computed);

  // --- log-probs (tree_logprobs.cc) ---
  // Of tokens of the path from position `from` on, each given those before it: what the model said,
  // and what of it is known; NaN: not known. Without memory they are not kept.
  void set_logprobs(NodeId id, int32_t from, std::span<const float> logprobs) noexcept;
  void get_logprobs(NodeId id, int32_t from, std::span<float> logprobs) const;
  // Of a token behind the first `length` tokens of the path to `id`, which may be in the tree or
  // not. It is kept where the tree has it or a node ends there.
  void set_next_logprob(NodeId id, int32_t length, int32_t token, float logprob) noexcept;
  float next_logprob(NodeId id, int32_t length, int32_t token) const;
  // The tree has that token, computed, or knows its log-prob.
  bool knows_next(NodeId id, int32_t length, int32_t token) const;

  // --- windows (tree_windows.cc) ---
  int32_t window() const { return window_; }
  // The first position that a token at `position` sees.
  int32_t first_seen(int32_t position) const {
    return window_ > 0 ? std::max(0, position - window_ + 1) : 0;
  }
  // How many of the first `length` tokens of the path are computed.
  int32_t computed_end(NodeId id, int32_t length) const;
  // The keys and values of positions [from, end) of the path are there.
  bool is_whole(NodeId id, int32_t from, int32_t end) const;
  // The pages in which tokens [from, end) were computed are there: they can be computed once more.
  // One may be gone that a path has a copy of, where it branches in mid-page.
  bool has_rows(NodeId id, int32_t from, int32_t end) const;
  // How many of the first `end` tokens of the path come before the first hollow page.
  int32_t whole_until(NodeId id, int32_t end) const;
  // Of the first `length` tokens of the path, all of them computed: behind how many it can be
  // continued, at most. What a token there sees is there, and what the token before it sees. With
  // `lasting` that does not lie in bands.
  int32_t resumable(NodeId id, int32_t length, bool lasting = false) const;
  // Computed tokens of a node before its first page that is hollow or in a band.
  int32_t lasting(const Node& n) const;
  // Gives the hollow pages of positions [from, end) of a path frames of the bands, as far as there
  // are any. Returns where those end that have frames.
  int32_t fill_sliding(NodeId id, int32_t from, int32_t end);
  // A page on a path that slides.
  struct SlidingPage {
    int32_t page;
    int32_t begin;  // the first of its positions that the path has in it
    int32_t end;    // behind its positions; of a source the place where the path leaves it
    bool source;    // the path goes on in another page, to which it copies these positions
  };
  // f(SlidingPage) for those of the first `length` tokens of a path, once each.
  // f may empty or settle the page.
  template <typename F>
  void for_each_sliding(NodeId id, int32_t length, const F& f) const;
  // Positions [from, end) of the path have become hollow: drops the leaves that nothing can be
  // continued from any more.
  void prune_behind(NodeId id, int32_t from, int32_t end);
  // For advance(): the token may be there already, computed, and its page given back. Then drops
  // it with what comes behind it, and moves the lock to a node that ends before it. False:
  // others hold it.
  bool make_way(NodeId* from, int32_t length, int32_t token);
  // How many tokens the paths to two nodes have in common, in the same nodes.
  int32_t common(NodeId a, NodeId b) const;
  // The page of a position of the path.
  int32_t page_of(NodeId id, int32_t position) const {
    return page_at(nodes_[node_at(id, position)], position);
  }
  // Pages with a frame.
  int32_t kept_pages(const Node& n) const;

  // --- states of recurrent layers (tree_states.cc) ---
  // Pages for one state, each without a place in the tree; the caller made room. They become a
  // node's by add_state(), or come back.
  std::vector<int32_t> take_state_pages(int32_t pages);
  void give_state_pages(std::vector<int32_t> pages);
  // The node, which has none, owns this state now, and the caller a pin of it. `keep` false: only
  // as long as it is pinned. Without memory for it the pages come back.
  void add_state(NodeId id, std::vector<int32_t> pages, bool keep);
  // Takes it from the node; the pages are the caller's.
  std::vector<int32_t> take_state(NodeId id);
  void drop_state(NodeId id);
  void keep_state(NodeId id);
  // Drops kept states above a node, those nearest to the root first, until at most `limit` are on
  // its path; those at forks and in use stay. Exempt ones stay, too, and do not count.
  void thin_states(NodeId id, int32_t limit);
  void exempt_state(NodeId id);
  bool state_is_exempt(NodeId id) const { return states_.at(id).exempt; }
  bool state_is_kept(NodeId id) const { return states_.at(id).keep; }
  bool has_state(NodeId id) const { return !states_.empty() && states_.contains(id); }
  const std::vector<int32_t>& state_pages(NodeId id) const { return states_.at(id).pages; }
  // The deepest node on the path to `id` that owns a state and ends at or before `length`; `kept`:
  // one that stays when the sequences have gone on which use it.
  NodeId state_at(NodeId id, int32_t length, bool kept = false) const;
  // The node of a whole text that owns its state; kNoNode when there is none.
  NodeId state_of(NodeId root, std::span<const int32_t> tokens) const;
  // A pinned state is not evicted. unpin: frees it when nothing keeps it.
  void pin_state(NodeId id);
  void unpin_state(NodeId id);
  int32_t state_pins(NodeId id) const { return states_.at(id).pins; }
  void use_state(NodeId id);  // a request continues from it
  uint32_t state_uses(NodeId id) const { return states_.at(id).uses; }
  // It is used now, and was so often in all: what a snapshot had counted.
  void renew_state(NodeId id, uint32_t uses);
  // As make_room(), within the quota of the namespace,
  // of which `taken` pages more will be a state's.
  bool make_state_room(int32_t pages, int32_t name_space, int32_t taken = 0);
  // The same for pages that were taken already, of a state of this node; the pool is not asked.
  bool make_quota_room(NodeId id, int32_t pages);
  size_t state_count() const { return states_.size(); }
  int64_t state_page_count() const { return state_pages_; }
  int64_t state_evictions() const { return state_evictions_; }

  // --- eviction ---
  // From now on; alpha: of marconi. Another policy costs a pass over the tree.
  void set_policy(Policy policy, double alpha = 0);
  Policy policy() const { return state_.policy; }
  double alpha() const { return state_.alpha; }
  // Evicts until `pages` are available, not a page more than needed; false if it cannot. They are
  // for a namespace, which may go below its own floor when nothing else is left; -1: for none.
  bool make_room(int32_t pages, int32_t name_space = -1);
  // Evicts until at most `pages` are used, or nothing more can go. Returns evicted tokens.
  int64_t trim(int32_t pages);
  // Evicts everything unlocked below a node. Returns evicted tokens.
  int64_t drop(NodeId top, EvictReason why = EvictReason::kExplicit);
  // Evicts everything unlocked that continues a match. Returns evicted tokens.
  int64_t drop_after(const Match& match, EvictReason why = EvictReason::kExplicit);
  // Evicts what expired before or at this time; what is in use goes as soon as it is not.
  int64_t expire(int64_t now_ms);
  // The leaf that goes next, kNoNode if none can. Of a namespace with a floor it is only its next
  // one, and only if the last page of that can go.
  NodeId victim();
  // Evicts a leaf that is not held. Returns its tokens.
  int64_t evict(NodeId id, EvictReason why = EvictReason::kCapacity);
  // Frees at most `pages` pages of a leaf that is not held, the last ones first; the leaf goes
  // when none would be left.
  void evict_tail(NodeId id, int32_t pages, EvictReason why = EvictReason::kCapacity);
  // Evicts the last tokens of a leaf that is not held, all of it when it has no more.
  void evict_tokens(NodeId id, int32_t tokens, EvictReason why = EvictReason::kCapacity);
  void set_observer(TreeObserver observer) { observer_ = std::move(observer); }

  int64_t token_count() const { return tokens_; }
  int64_t held_tokens() const { return held_tokens_; }
  // Frames of the pool that cannot come free while what is held is held, or fewer: what held tokens
  // fill.
  int32_t held_frames() const {
    const int64_t others = int64_t{pages_.hollow_pages()} + pages_.sliding_pages();
    return static_cast<int32_t>(std::max<int64_t>(0, held_tokens_ / kPageTokens - others));
  }
  int64_t evictions() const { return evictions_; }
  int64_t evicted_tokens() const { return evicted_tokens_; }
  // Bytes of the nodes, the table that finds children, and the roots and namespaces; tokens are in
  // the page pool.
  size_t metadata_bytes() const;

  // Sets the uses of a held node: those that a snapshot had counted.
  void set_uses(NodeId id, uint32_t uses);

  // Of the clock of last_use and creation: one for each operation.
  int64_t tick() const { return tick_; }
  // Rises when what did not fit may fit now.
  int64_t changes() const { return changes_; }
  int64_t created(NodeId id) const { return state_.created[static_cast<size_t>(id)]; }
  // Rises when a node is made or gets tokens: as long as it stays, a number means the same node and
  // the tokens of a path are those that they were, as far as they are there.
  int64_t growth() const { return growth_; }

  // Throws kInternal when an invariant is broken (tests and debug builds).
  void check() const;

 private:
  friend class TreeEditor;

  using StateQueue = std::set<std::pair<EvictionQueue::Key, NodeId>>;
  struct State {
    std::vector<int32_t> pages;
    int64_t last_use = 0;  // ticks, of the state alone
    int64_t created = 0;
    uint32_t uses = 0;
    int32_t pins = 0;
    double base = 0;  // gds, gdsf: the age when it came, was used, or was at a fork last
    bool keep = false;
    bool exempt = false;  // from thinning
    bool fork = false;    // its node has more than one child
    bool queued = false;
    EvictionQueue::Key key{};     // while it is queued
    StateQueue::node_type place;  // in the queue; here while it is not there
  };
  struct Namespace;
  struct Offer {  // the next leaf of a namespace with limits, where it may go
    EvictionQueue::Key key{};
    int32_t name_space = 0;
    Namespace* space = nullptr;
    auto operator<=>(const Offer&) const = default;
  };
  using Offers = std::set<Offer>;
  struct Namespace {
    int32_t roots = 0;
    int64_t tokens = 0;
    int64_t state_tokens = 0;  // that fit into the pages of its states
    int64_t floor = 0;
    int64_t quota = 0;
    std::unique_ptr<EvictionQueue> own;  // with limits; else the common queue
    Offer offer;                         // while it makes one
    Offers::node_type place;             // of it in offers_; here while it makes none
    bool changed = false;                // since the offer was made

    int64_t held() const { return tokens + state_tokens; }
  };
  struct Root {
    NodeId node = kNoNode;
    int32_t rope_offset = 0;
    int32_t name_space = 0;
    int32_t adapter = 0;
    Namespace* space = nullptr;  // of this number
    bool is_private = false;
  };

  Namespace& space_of(const Node& n) { return *roots_[static_cast<size_t>(n.root)].space; }
  const Namespace* find_space(int32_t name_space) const {  // null: it has neither roots nor limits
    const auto found = namespaces_.find(name_space);
    return found != namespaces_.end() ? &found->second : nullptr;
  }
  NodeId child(NodeId parent, int32_t token) const;
  // After it, so many nodes (with roots) and pages are made without memory.
  void prepare(int32_t nodes, int32_t pages);
  // The upper half [0, offset) becomes a new node above; the lower half keeps the id and the locks.
  NodeId split(NodeId id, int32_t offset);
  // Drops a lock and leaves times as they are.
  void remove_lock(NodeId id);
  void let_go(NodeId id, bool keep);
  NodeId add_node(int32_t root);
  NodeId branch(NodeId parent, std::span<const int32_t> tokens, bool hollow = false);
  // advance() makes the node longer instead of a branch.
  bool grows(NodeId id, const AttachOptions& use) const;
  // The node ends in mid-page, and nothing below it uses the rest. A page that slides or is hollow
  // is not lent: it comes and goes with the rows of one path.
  bool lends_page(NodeId id) const;
  // Pages from the root on in which a path that goes on from a match does not begin a new one.
  int32_t pages_below(const Match& match) const {
    const bool lent = match.offset == nodes_[match.node].length && lends_page(match.node);
    return lent ? pages_between(0, match.matched) : match.matched / kPageTokens;
  }
  void link(NodeId parent, NodeId child);
  void unlink(NodeId id) noexcept;
  void remove(NodeId id);
  void write_tokens(NodeId id, std::span<const int32_t> tokens, bool hollow = false);
  void cut(NodeId id, int32_t length);
  void count_tokens(const Node& n, int32_t tokens);
  void move_lock(NodeId from, NodeId leaf);
  void make_room_for(const Match& match, int32_t n, int32_t owned, const AttachOptions& use);
  void use_path(NodeId id, const AttachOptions& use);
  // On the clock of expire(): the past when it is over, the greatest number for no end.
  int64_t end_of_life(NodeId id) const;
  // Than a use that has this end, or none (0).
  bool ends_before(NodeId id, int64_t expires_ms) const;
  bool ends_after(NodeId id, int64_t expires_ms) const;
  void set_end(NodeId id, int64_t expires_ms) noexcept;
  void expire_at(NodeId id, int64_t ms) noexcept;
  void prune(NodeId id, bool keep);
  void tell_evicting(NodeId id, int32_t from, EvictReason why) const {
    if (observer_.evicting && !is_private(nodes_[id])) observer_.evicting(id, from, why);
  }
  bool is_private(const Node& n) const { return roots_[static_cast<size_t>(n.root)].is_private; }
  int32_t page_at(const Node& n, int32_t position) const;
  // Where the tree has `token` behind the first `length` tokens of a path; kNoNode: nowhere.
  struct Place {
    NodeId node = kNoNode;
    int32_t offset = 0;
  };
  Place next_place(NodeId id, int32_t length, int32_t token) const;
  // f(page, slot, count, position) for the pieces of positions [from, end) of a path, by nodes and
  // the last node first.
  template <typename F>
  void for_each_piece_of_path(NodeId id, int32_t from, int32_t end, const F& f) const;
  // f(page, block) for the pages that tokens after the first `end` of the path would read,
  // last ones first, until f returns false.
  template <typename F>
  void walk_back(NodeId id, int32_t end, const F& f) const;
  std::vector<int32_t> pages_to_own(NodeId id, int32_t from, int32_t computed, int32_t end) const;
  int32_t own_page(int32_t page);
  // The first position of a page in this node, or in those above with which it shares the page.
  int32_t owned_from(const Node& n, int32_t begin, int32_t page) const {
    for (const Node* up = &n; begin == up->start && begin % kPageTokens != 0;) {
      up = &nodes_[up->parent];
      if (up->length == 0 || up->last_page != page) break;
      begin = std::max(up->start, begin / kPageTokens * kPageTokens);
    }
    return begin;
  }
  int32_t resumable_in(NodeId id, int32_t length) const;
  EvictionQueue& queue_of(const Node& n);
  bool may_offer(const Namespace& s) const;
  void withdraw_offer(Namespace& s);
  void renew_offers();
  // Its next leaf, or whether that may go, may be another one now.
  void offer_changes(Namespace& s) noexcept {
    if (s.own && !std::exchange(s.changed, true)) changed_.push_back(&s);
  }
  void dequeue(NodeId id);
  bool update_queue(NodeId id) noexcept;
  void queue_or_evict(NodeId id, EvictReason why);
  std::vector<NodeId> queued_leaves() const;
  std::vector<NodeId> queued_leaves(const Namespace* space) const;
  static bool may_go(const Node& n) {
    return n.length > 0 && n.subtree_locks == 0 && n.first_child == kNoNode;
  }
  bool make_room_in(int32_t name_space, int64_t tokens);
  int32_t tail_tokens(NodeId id, int32_t pages) const;
  void evict_victim(NodeId id, int32_t pages, EvictReason why);
  void check_pages(NodeId id, std::vector<int32_t>& owners) const;
  void check_states(std::vector<int32_t>& owners) const;
  void check_frames(const std::vector<int32_t>& owners) const;
  EvictionQueue::Key state_key(NodeId id, const State& state) const;
  void count_kept_state(NodeId id, int32_t by);
  void update_state(NodeId id) noexcept;
  void forget_state(NodeId id) {
    if (has_state(id)) drop_state(id);
  }
  void children_changed(NodeId id) {
    if (has_state(id)) update_state(id);
  }
  void update_states_below(NodeId id);
  double state_cost(NodeId id) const;
  double state_efficiency(NodeId id, const State& state) const;
  bool state_may_go(NodeId id, int32_t within) const;
  NodeId state_victim(int32_t within = -1) const;
  NodeId marconi_victim(int32_t within) const;
  void evict_state(NodeId id, EvictReason why = EvictReason::kCapacity);
  // What is below a node shares what is there up to its state, so this stays as long as they do.
  bool at_fork(const Node& n) const {
    return !whole_ && n.first_child != kNoNode && nodes_[n.first_child].next != kNoNode;
  }

  PagePool& pages_;
  int32_t window_;
  bool whole_;
  NodeArena nodes_;
  ChildMap children_;
  PolicyState state_;
  EvictionQueue common_;
  std::vector<Root> roots_;
  int32_t free_root_ = -1;  // the first free number; Root::node leads to the next one
  std::unordered_map<int32_t, Namespace> namespaces_;  // by number
  std::unordered_map<NodeId, State> states_;
  StateQueue state_queue_;  // those that may go
  int64_t state_evictions_ = 0;
  int64_t state_pages_ = 0;          // of all that nodes own
  int32_t held_state_pages_ = 0;     // of pinned states, and those without a node:
  int32_t loose_state_pages_ = 0;    // taken, and not yet a node's
  std::vector<Namespace*> limited_;  // those with a queue of their own,
  std::vector<Namespace*> changed_;  // of them, with room for all: renew_offers() comes
  Offers offers_;                    // of the others that make one
  Lifetimes lifetimes_;
  NextLogprobs next_logprobs_;
  bool expired_queued_ = false;  // a queue may have something that is over
  TreeObserver observer_;
  bool keep_created_;
  int64_t tick_ = 0;
  int64_t changes_ = 0;
  int64_t growth_ = 0;
  int64_t tokens_ = 0;
  int64_t held_tokens_ = 0;
  int64_t evictions_ = 0;
  int64_t evicted_tokens_ = 0;
};

template <typename F>
void Tree::for_each_piece(const Node& n, int32_t begin, int32_t end, const F& f) const {
  if (begin >= end) return;
  int32_t position = n.start + begin;
  const int32_t stop = n.start + end;
  int32_t page = n.first_page;
  if (position / kPageTokens == (n.end() - 1) / kPageTokens) {
    page = n.last_page;
  } else {
    for (int32_t b = n.start / kPageTokens; b < position / kPageTokens; ++b)
      page = pages_.next(page);
  }
  for (;;) {
    const int32_t slot = position % kPageTokens;
    const int32_t count = std::min(kPageTokens - slot, stop - position);
    f(page, slot, count);
    position += count;
    if (position == stop) return;
    page = pages_.next(page);
  }
}

template <typename F>
void Tree::for_each_sliding(NodeId id, int32_t length, const F& f) const {
  if (pages_.sliding_pages() == 0) return;
  NodeId below = kNoNode;
  for (id = node_at(id, length - 1); nodes_[id].length > 0; below = id, id = nodes_[id].parent) {
    const Node& n = nodes_[id];
    const int32_t stop = std::min(n.end(), length);
    int32_t begin = n.start;
    for_each_piece(n, 0, stop - n.start, [&](int32_t page, int32_t slot, int32_t count) {
      const int32_t first = begin;
      begin += count;
      if (!pages_.slides(page)) return;
      const bool leaves = begin == stop && below != kNoNode && stop % kPageTokens != 0;
      if (leaves && nodes_[below].first_page == page) return;  // it was seen there
      f(SlidingPage{page, owned_from(n, first, page), leaves ? stop : first - slot + kPageTokens,
                    leaves});
    });
  }
}

}  // namespace prefix
