// Sequences in the tree: they attach to a path, which they lock, make it longer token by token, take
// tokens back and let go. Room for what comes is made first, so that a failure changes nothing.
#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "base/page.h"
#include "base/status.h"
#include "tree/tree.h"

namespace prefix {

void Tree::lock(NodeId id) {
  if (nodes_[id].queued) dequeue(id);
  ++nodes_[id].locks;
  for (; id != kNoNode; id = nodes_[id].parent) {
    Node& n = nodes_[id];
    if (n.subtree_locks++ == 0) held_tokens_ += n.length;
  }
}

void Tree::remove_lock(NodeId id) {
  ++changes_;
  --nodes_[id].locks;
  for (NodeId up = id; up != kNoNode; up = nodes_[up].parent) {
    Node& n = nodes_[up];
    if (--n.subtree_locks == 0) held_tokens_ -= n.length;
  }
  update_queue(id);
}

void Tree::unlock(NodeId id, bool keep) {
  PREFIX_CHECK(nodes_[id].locks > 0);
  ++tick_;
  for (NodeId up = id; up != kNoNode; up = nodes_[up].parent) nodes_[up].last_use = tick_;
  let_go(id, keep);
}

void Tree::unlock_quietly(NodeId id) {
  PREFIX_CHECK(nodes_[id].locks > 0);
  let_go(id, true);
}

// What was in use when its namespace got a lower quota may go now.
void Tree::let_go(NodeId id, bool keep) {
  const int32_t name_space = this->name_space(nodes_[id]);
  const Namespace& s = space_of(nodes_[id]);
  remove_lock(id);
  prune(id, keep);
  if (s.quota > 0 && s.held() > s.quota) make_room_in(name_space, 0);
}

// Moves a lock from the node `from` to a new leaf below it, or below its parent.
void Tree::move_lock(NodeId from, NodeId leaf) {
  Node& n = nodes_[leaf];
  n.locks = n.subtree_locks = 1;
  held_tokens_ += n.length;
  --nodes_[from].locks;
  if (n.parent == from) return;  // held once less itself, once more below
  if (--nodes_[from].subtree_locks == 0) held_tokens_ -= nodes_[from].length;
  prune(from, true);
}

// Cuts off a leaf that is not held what is pending, and what no request could go on from, and goes
// up while nodes vanish. A leaf that there is no memory to queue goes, too.
void Tree::prune(NodeId id, bool keep) {
  for (;;) {
    const Node& n = nodes_[id];
    if (n.length == 0 || n.subtree_locks > 0 || n.first_child != kNoNode) return;
    const int32_t stays = keep ? resumable_in(id, n.computed) : 0;
    if (stays < n.computed) {
      tell_evicting(id, stays, keep ? EvictReason::kCapacity : EvictReason::kNotCached);
      if (keep) evicted_tokens_ += n.computed - stays;
      if (n.queued) dequeue(id);
    }
    if (stays > 0) {
      if (stays < n.length) cut(id, stays);
      if (update_queue(id)) return;
      tell_evicting(id, 0, EvictReason::kCapacity);
      ++evictions_;
      evicted_tokens_ += n.length;
    }
    const NodeId parent = n.parent;
    remove(id);
    id = parent;
  }
}

// What a use leaves on the nodes it found. They are held, so none of them is queued.
void Tree::use_path(NodeId id, const AttachOptions& use) {
  for (; nodes_[id].length > 0; id = nodes_[id].parent) {
    Node& n = nodes_[id];
    n.last_use = tick_;
    n.priority = std::max(n.priority, use.priority);
    if (use.count_as_use) ++n.uses;
    if (ends_before(id, use.expires_ms)) set_end(id, use.expires_ms);
    if (whole_) return;  // what is above are other texts
  }
}

NodeId Tree::attach(const Match& match, std::span<const int32_t> tokens, const AttachOptions& use) {
  PREFIX_CHECK(!tokens.empty() && tokens.size() <= INT32_MAX);
  const auto n = static_cast<int32_t>(tokens.size());
  PREFIX_CHECK(match.matched <= n);
  ++tick_;
  ++changes_;
  lock(match.node);  // keeps the matched path while room is made
  try {
    std::vector<int32_t> to_own;
    if (!use.slides)
      to_own = pages_to_own(match.node, use.reads_from, match.computed, match.matched);
    const auto owned = static_cast<int32_t>(to_own.size());
    make_room_for(match, n, owned, use);
    prepare(2, pages_needed(match, n) + owned);
    // From here on nothing fails.
    for (const int32_t page : to_own) own_page(page);
  } catch (...) {
    unlock(match.node, true);
    throw;
  }
  if (match.matched == n) {
    NodeId id = match.node;
    if (match.offset < nodes_[id].length) {
      id = split(id, match.offset);  // the rest is not used: it goes when it would have gone
      lock(id);
      let_go(match.node, true);
    }
    use_path(id, use);
    return id;
  }
  NodeId parent = match.node;
  if (match.offset < nodes_[parent].length) parent = split(parent, match.offset);
  const NodeId id = branch(parent, tokens.subspan(static_cast<size_t>(match.matched)), use.slides);
  Node& leaf = nodes_[id];
  leaf.job = use.job;
  leaf.uses = 1;
  leaf.priority = use.priority;
  set_end(id, use.expires_ms);
  move_lock(match.node, id);
  if (!whole_) use_path(parent, use);
  return id;
}

// For attach(), with `owned` pages of the match that need a frame. Throws kCacheFull.
void Tree::make_room_for(const Match& match, int32_t n, int32_t owned, const AttachOptions& use) {
  const int32_t needed = use.slides ? 0 : pages_needed(match, n) + owned;
  const int32_t name_space = this->name_space(nodes_[match.node]);
  const int64_t added = int64_t{n} - match.matched + use.reserve_tokens;
  if (!make_room_in(name_space, added)) {
    const Namespace& s = space_of(nodes_[match.node]);
    throw QuotaFull(Code::kCacheFull,
                    cat("the sequence needs ", added, " more tokens, but its namespace holds ",
                        s.tokens, " that are in use, and its quota is ", s.quota));
  }
  // Pages that held tokens fill cannot come free: what surely does not fit must not empty the
  // cache.
  const int64_t most = int64_t{pages_.available()} + pages_.used() - pages_.sliding_pages() -
                       held_state_pages_ - held_frames();
  if (needed > most || !make_room(needed, name_space))
    fail(Code::kCacheFull, "the sequence needs ", needed, " more pages of ", kPageTokens,
         " tokens, but only ", pages_.available(), " of ", pages_.capacity(),
         " (cache_bytes) are free or evictable");
}

NodeId Tree::attach_whole(NodeId root, std::span<const int32_t> tokens, const AttachOptions& use) {
  const auto n = static_cast<int32_t>(tokens.size());
  const int64_t numbers = int64_t{pages_.hollow_pages()} + pages_.capacity() + pages_between(0, n);
  if (numbers > PagePool::kMaxPages)
    fail(Code::kCacheFull, "a text of ", n, " tokens does not fit: with it there would be ",
         numbers, " pages, above ", PagePool::kMaxPages);
  AttachOptions hollow = use;
  hollow.slides = true;
  const NodeId id = attach(match(root, tokens), tokens, hollow);
  if (nodes_[id].computed < nodes_[id].length) set_computed(id, nodes_[id].length);
  if (!has_state(id)) {  // it may have been a part of longer texts, and has nothing of them
    Node& fresh = nodes_[id];
    fresh.job = use.job;
    fresh.uses = 1;
    fresh.priority = use.priority;
    set_end(id, use.expires_ms);
  }
  return id;
}

bool Tree::grows(NodeId id, const AttachOptions& use) const {
  const Node& n = nodes_[id];
  const bool is_end = n.first_child == kNoNode && !has_state(id);
  const bool worth_more = n.uses > 1 || n.priority > use.priority || ends_after(id, use.expires_ms);
  return is_end && !worth_more;
}

bool Tree::grows_alone(NodeId id, int32_t length, const AttachOptions& use) const {
  const Node& n = nodes_[id];
  return n.end() == length && n.locks == 1 && n.subtree_locks == 1 && grows(id, use);
}

int32_t Tree::retreat(NodeId id, int32_t length) {
  const Node& n = nodes_[id];
  PREFIX_CHECK(n.locks == 1 && n.subtree_locks == 1 && n.start + n.computed <= length);
  const int32_t before = page_count(n);
  cut(id, length - n.start);
  return before - page_count(n);
}

NodeId Tree::advance(NodeId from, int32_t length, int32_t token, const AttachOptions& use,
                     int32_t* pages_taken) {
  *pages_taken = 0;
  prepare(2, 1);
  const auto follow = [&](NodeId along) {
    if (!use.slides) *pages_taken = own_page(page_at(nodes_[along], length));
  };
  NodeId at = node_at(from, std::min(length, nodes_[from].end() - 1));
  if (length < nodes_[at].end()) {  // inside an edge that another sequence made longer
    const int32_t offset = length - nodes_[at].start;
    if (this->token(nodes_[at], offset) == token) {
      follow(at);
      return from;
    }
    at = offset > 0 ? split(at, offset) : nodes_[at].parent;
  }
  NodeId to = child(at, token);
  if (at == from && grows(at, use)) {
    const int32_t before = page_count(nodes_[at]);
    write_tokens(at, std::span(&token, 1), use.slides);
    ++held_tokens_;
    if (!use.slides) *pages_taken = page_count(nodes_[at]) - before;
    return from;
  }
  if (to == kNoNode) {
    const bool lent = lends_page(at);
    to = branch(at, std::span(&token, 1), use.slides);
    nodes_[to].job = use.job;
    nodes_[to].priority = use.priority;
    set_end(to, use.expires_ms);
    if (!use.slides && !lent) *pages_taken = 1;
  } else {
    follow(to);
  }
  lock(to);
  ++nodes_[to].uses;
  nodes_[to].priority = std::max(nodes_[to].priority, use.priority);
  unlock(from, true);
  return to;
}

NodeId Tree::end_at(NodeId id, int32_t length) {
  const NodeId at = node_at(id, length - 1);
  return nodes_[at].end() == length ? at : split(at, length - nodes_[at].start);
}

void Tree::set_computed(NodeId id, int32_t computed) {
  PREFIX_CHECK(computed >= nodes_[id].computed && computed <= nodes_[id].length);
  const int32_t before = std::exchange(nodes_[id].computed, computed);
  if (observer_.computed && !is_private(nodes_[id])) observer_.computed(id, before);
}

void Tree::set_uses(NodeId id, uint32_t uses) {
  PREFIX_CHECK(!nodes_[id].queued);
  nodes_[id].uses = uses;
}

}  // namespace prefix
