#include "tree/tree.h"

#include <algorithm>
#include <cstring>

#include "base/status.h"
#include "plan/attention_plan.h"

namespace prefix {
namespace {

// Blocks of kPageTokens positions that [start, end) touches.
int32_t blocks_of(int32_t start, int32_t end) {
  return end > start ? (end - 1) / kPageTokens - start / kPageTokens + 1 : 0;
}

int32_t common_prefix(const int32_t* a, const int32_t* b, int32_t n) {
  int32_t i = 0;
  // memcmp is vectorised; find the block first, then the token.
  constexpr int32_t kBlock = 32;
  while (i + kBlock <= n && std::memcmp(a + i, b + i, kBlock * sizeof(int32_t)) == 0) i += kBlock;
  while (i < n && a[i] == b[i]) ++i;
  return i;
}

}  // namespace

NodeId Tree::add_node(NodeId parent) {
  NodeId id;
  if (!free_.empty()) {
    id = free_.back();
    free_.pop_back();
    nodes_[id] = Node{};
  } else {
    id = static_cast<NodeId>(nodes_.size());
    nodes_.emplace_back();
  }
  nodes_[id].last_use = ++tick_;
  nodes_[id].root = parent == kNoNode ? id : nodes_[parent].root;
  ++live_;
  return id;
}

NodeId Tree::add_root(int32_t rope_offset) {
  const NodeId id = add_node(kNoNode);
  nodes_[id].rope_offset = rope_offset;
  return id;
}

void Tree::remove_root(NodeId root) {
  PREFIX_CHECK(nodes_[root].parent == kNoNode && nodes_[root].first_child == kNoNode);
  free_.push_back(root);
  nodes_[root].root = kNoNode;
  --live_;
}

void Tree::link(NodeId parent, NodeId child) {
  Node& p = nodes_[parent];
  Node& c = nodes_[child];
  c.parent = parent;
  c.previous = p.last_child;
  c.next = kNoNode;
  if (p.last_child != kNoNode) {
    nodes_[p.last_child].next = child;
  } else {
    p.first_child = child;
  }
  p.last_child = child;
  children_.set(parent, c.tokens()[0], child);
  update_evictable(parent);
}

void Tree::unlink(NodeId id) {
  Node& c = nodes_[id];
  Node& p = nodes_[c.parent];
  (c.previous != kNoNode ? nodes_[c.previous].next : p.first_child) = c.next;
  (c.next != kNoNode ? nodes_[c.next].previous : p.last_child) = c.previous;
  children_.erase(c.parent, c.tokens()[0]);
}

// A leaf that nobody locks is in evictable_ under its last use; call before last_use changes too.
void Tree::update_evictable(NodeId id) {
  const Node& n = nodes_[id];
  const bool can_go = n.length > 0 && n.locks == 0 && n.first_child == kNoNode;
  if (can_go) {
    evictable_.insert({n.last_use, id});
  } else {
    evictable_.erase({n.last_use, id});
  }
}

Match Tree::match(NodeId root, std::span<const int32_t> tokens) const {
  Match m{root, 0, 0, 0};
  const auto n = static_cast<int32_t>(tokens.size());
  while (m.matched < n) {
    const NodeId child = children_.find(m.node, tokens[m.matched]);
    if (child == kNoNode) break;
    const Node& c = nodes_[child];
    const int32_t same =
        common_prefix(c.tokens(), tokens.data() + m.matched, std::min(c.length, n - m.matched));
    if (m.computed == m.matched) m.computed += std::min(same, c.computed);
    m.node = child;
    m.offset = same;
    m.matched += same;
    if (same < c.length) break;
  }
  return m;
}

int32_t Tree::pages_needed(const Match& match, int32_t n) const {
  return blocks_of(match.matched, n);
}

// The upper half [0, offset) becomes a new node above; the lower half keeps the id and the locks.
NodeId Tree::split(NodeId id, int32_t offset) {
  const NodeId upper = add_node(nodes_[id].parent);
  Node& lower = nodes_[id];
  Node& up = nodes_[upper];
  PREFIX_CHECK(offset > 0 && offset < lower.length);
  up.start = lower.start;
  up.length = offset;
  up.computed = std::min(lower.computed, offset);
  up.job = lower.job;
  up.last_use = lower.last_use;
  up.block = lower.block;
  up.block_offset = lower.block_offset;

  // The upper half takes the sibling position of the lower one.
  up.parent = lower.parent;
  up.previous = lower.previous;
  up.next = lower.next;
  Node& parent = nodes_[up.parent];
  (up.previous != kNoNode ? nodes_[up.previous].next : parent.first_child) = upper;
  (up.next != kNoNode ? nodes_[up.next].previous : parent.last_child) = upper;
  children_.set(up.parent, up.tokens()[0], upper);

  const int32_t upper_pages = blocks_of(up.start, up.end());
  up.pages.assign(lower.pages.begin(), lower.pages.begin() + upper_pages);
  lower.start += offset;
  lower.block_offset += offset;
  lower.length -= offset;
  lower.computed = std::max(0, lower.computed - offset);
  const bool mid_page = lower.start % kPageTokens != 0;
  if (mid_page) pages_.share(up.pages.back());
  lower.pages.erase(lower.pages.begin(), lower.pages.begin() + upper_pages - (mid_page ? 1 : 0));

  lower.parent = upper;
  lower.previous = lower.next = kNoNode;
  up.first_child = up.last_child = id;
  children_.set(upper, lower.tokens()[0], id);
  return upper;
}

NodeId Tree::branch(NodeId parent, std::span<const int32_t> tokens, int64_t job) {
  const NodeId id = add_node(parent);
  Node& n = nodes_[id];
  n.start = nodes_[parent].end();
  n.length = static_cast<int32_t>(tokens.size());
  n.job = job;
  n.block = std::make_shared<std::vector<int32_t>>(tokens.begin(), tokens.end());
  n.locks = 1;
  tokens_ += n.length;
  give_pages(id);
  link(parent, id);
  return id;
}

void Tree::give_pages(NodeId id) {
  Node& n = nodes_[id];
  const auto wanted = static_cast<size_t>(blocks_of(n.start, n.end()));
  n.pages.reserve(wanted);
  while (n.pages.size() < wanted) n.pages.push_back(pages_.allocate());
}

NodeId Tree::attach(const Match& match, std::span<const int32_t> tokens, int64_t job) {
  const auto n = static_cast<int32_t>(tokens.size());
  PREFIX_CHECK(n > 0 && match.matched <= n);
  if (match.matched == n) {
    lock(match.node);
    return match.node;
  }
  lock(match.node);  // keeps the matched path while room is made
  if (!make_room(pages_needed(match, n))) {
    const int32_t needed = pages_needed(match, n);
    unlock(match.node, true);
    fail(Code::kCacheFull, "the sequence needs ", needed, " more pages of ", kPageTokens,
         " tokens, but only ", pages_.available(), " of ", pages_.capacity(),
         " (cache_bytes) are free or evictable");
  }
  NodeId parent = match.node;
  if (match.offset < nodes_[parent].length) parent = split(parent, match.offset);
  const NodeId id = branch(parent, tokens.subspan(match.matched), job);
  unlock(match.node, true);
  return id;
}

NodeId Tree::advance(NodeId from, int32_t length, int32_t token, int64_t job,
                     int32_t* pages_taken) {
  *pages_taken = 0;
  NodeId at = node_at(from, std::min(length, nodes_[from].end() - 1));
  if (length < nodes_[at].end()) {  // inside an edge that somebody made longer
    const int32_t offset = length - nodes_[at].start;
    if (nodes_[at].tokens()[offset] == token) return from;
    at = offset > 0 ? split(at, offset) : nodes_[at].parent;
  }
  NodeId to = children_.find(at, token);
  if (to != kNoNode) {
    lock(to);
  } else if (nodes_[at].first_child == kNoNode && at == from) {
    Node& n = nodes_[at];
    const auto used = static_cast<size_t>(n.block_offset + n.length);
    if (used != n.block->size()) {  // another node continues in this block
      n.block = std::make_shared<std::vector<int32_t>>(n.tokens(), n.tokens() + n.length);
      n.block_offset = 0;
    }
    n.block->push_back(token);
    ++n.length;
    ++tokens_;
    const size_t before = n.pages.size();
    give_pages(at);
    *pages_taken = static_cast<int32_t>(n.pages.size() - before);
    return from;
  } else {
    to = branch(at, std::span(&token, 1), job);
    *pages_taken = 1;
  }
  unlock(from, true);
  return to;
}

NodeId Tree::end_at(NodeId id, int32_t length) {
  const NodeId at = node_at(id, length - 1);
  return nodes_[at].end() == length ? at : split(at, length - nodes_[at].start);
}

void Tree::lock(NodeId id) {
  ++nodes_[id].locks;
  update_evictable(id);
}

void Tree::unlock(NodeId id, bool keep) {
  PREFIX_CHECK(nodes_[id].locks > 0);
  --nodes_[id].locks;
  if (nodes_[id].length == 0) return;  // a root
  if (nodes_[id].locks == 0 && nodes_[id].first_child == kNoNode) {
    update_evictable(id);
    evictable_.erase({nodes_[id].last_use, id});
    nodes_[id].last_use = ++tick_;
  }
  settle(id, keep);
}

// Cuts pending tokens off an unlocked leaf, and goes up while nodes vanish.
void Tree::settle(NodeId id, bool keep) {
  while (nodes_[id].length > 0 && nodes_[id].locks == 0 && nodes_[id].first_child == kNoNode) {
    Node& n = nodes_[id];
    if (n.computed > 0 && keep) {
      tokens_ -= n.length - n.computed;
      n.length = n.computed;
      const auto wanted = static_cast<size_t>(blocks_of(n.start, n.end()));
      while (n.pages.size() > wanted) {
        pages_.release(n.pages.back());
        n.pages.pop_back();
      }
      update_evictable(id);
      return;
    }
    const NodeId parent = n.parent;
    remove(id);
    id = parent;
  }
}

// Frees a leaf; its parent may become evictable.
void Tree::remove(NodeId id) {
  Node& n = nodes_[id];
  const NodeId parent = n.parent;
  evictable_.erase({n.last_use, id});
  unlink(id);
  for (int32_t page : n.pages) pages_.release(page);
  tokens_ -= n.length;
  const int64_t use = n.last_use;
  n = Node{};
  free_.push_back(id);
  --live_;
  Node& p = nodes_[parent];
  if (p.first_child == kNoNode) {
    p.last_use = std::max(p.last_use, use);
    update_evictable(parent);
  }
}

void Tree::set_computed(NodeId id, int32_t computed) {
  PREFIX_CHECK(computed >= nodes_[id].computed && computed <= nodes_[id].length);
  nodes_[id].computed = computed;
}

int64_t Tree::evict(NodeId id) {
  const int64_t tokens = nodes_[id].length;
  const NodeId parent = nodes_[id].parent;
  remove(id);
  settle(parent, true);
  ++evictions_;
  evicted_tokens_ += tokens;
  return tokens;
}

bool Tree::make_room(int32_t pages) {
  while (pages_.available() < pages) {
    if (evictable_.empty()) return false;
    evict(evictable_.begin()->second);
  }
  return true;
}

int64_t Tree::trim(int32_t pages) {
  int64_t evicted = 0;
  while (pages_.used() > pages && !evictable_.empty()) evicted += evict(evictable_.begin()->second);
  return evicted;
}

int64_t Tree::drop(NodeId root) {
  int64_t evicted = 0;
  for (bool again = true; again;) {  // parents become leaves as their children go
    again = false;
    std::vector<NodeId> leaves;
    for (const auto& [use, id] : evictable_)
      if (nodes_[id].root == root) leaves.push_back(id);
    for (NodeId id : leaves) {
      evicted += evict(id);
      again = true;
    }
  }
  return evicted;
}

void Tree::check() const {
  std::vector<int32_t> owners(static_cast<size_t>(pages_.capacity()), 0);
  int64_t tokens = 0;
  size_t live = 0;
  size_t edges = 0;
  for (NodeId id = 0; id < static_cast<NodeId>(nodes_.size()); ++id) {
    const Node& n = nodes_[id];
    if (n.root == kNoNode) continue;
    ++live;
    for (NodeId c = n.first_child, before = kNoNode; c != kNoNode; before = c, c = nodes_[c].next) {
      PREFIX_CHECK(nodes_[c].parent == id && nodes_[c].previous == before);
      PREFIX_CHECK(nodes_[c].start == n.end() && nodes_[c].root == n.root);
      PREFIX_CHECK(children_.find(id, nodes_[c].tokens()[0]) == c);
      PREFIX_CHECK(nodes_[c].computed == 0 || n.computed == n.length);
      if (nodes_[c].next == kNoNode) PREFIX_CHECK(n.last_child == c);
      ++edges;
    }
    if (n.parent == kNoNode) {
      PREFIX_CHECK(n.length == 0 && n.pages.empty());
      continue;
    }
    PREFIX_CHECK(n.length > 0 && n.computed >= 0 && n.computed <= n.length && n.locks >= 0);
    PREFIX_CHECK(static_cast<int32_t>(n.pages.size()) == blocks_of(n.start, n.end()));
    PREFIX_CHECK(n.block_offset + n.length <= static_cast<int32_t>(n.block->size()));
    const bool can_go = n.locks == 0 && n.first_child == kNoNode;
    PREFIX_CHECK(evictable_.count({n.last_use, id}) == (can_go ? 1u : 0u));
    if (can_go) PREFIX_CHECK(n.computed == n.length);
    for (int32_t page : n.pages) ++owners[static_cast<size_t>(page)];
    tokens += n.length;
  }
  PREFIX_CHECK(live == live_ && tokens == tokens_ && edges == children_.size());
  int32_t used = 0;
  for (int32_t page = 0; page < pages_.capacity(); ++page) {
    if (owners[static_cast<size_t>(page)] == 0) continue;
    ++used;
    PREFIX_CHECK(pages_.references(page) == owners[static_cast<size_t>(page)]);
  }
  PREFIX_CHECK(used == pages_.used());
}

}  // namespace prefix
