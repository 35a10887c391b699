#include "tree/tree.h"

#include <algorithm>
#include <utility>

#include "base/page.h"
#include "base/status.h"
#include "tree/common_prefix.h"

namespace prefix {

Tree::Tree(PagePool& pages, const TreeOptions& options)
    : pages_(pages), window_(options.window), whole_(options.whole), common_(nodes_, state_) {
  namespaces_.try_emplace(0);
  state_.policy = options.policy;
  state_.token_cost = options.token_cost;
  state_.position_cost = options.position_cost;
  keep_created_ =
      options.keep_created || options.policy == Policy::kFifo || options.policy == Policy::kFilo;
}

// --- structure -----------------------------------------------------------------------------------

void Tree::prepare(int32_t nodes, int32_t pages) {
  const auto count = static_cast<size_t>(nodes);
  nodes_.prepare(count);
  children_.prepare(count);
  if (roots_.capacity() < roots_.size() + count)
    roots_.reserve(std::max(roots_.size() + count, 2 * roots_.capacity()));
  if (keep_created_ && state_.created.size() < nodes_.room()) state_.created.resize(nodes_.room());
  pages_.prepare(pages);
}

NodeId Tree::add_node(int32_t root) {
  ++growth_;
  const NodeId id = nodes_.add();
  nodes_[id].root = root;
  nodes_[id].last_use = tick_;
  if (keep_created_) state_.created[static_cast<size_t>(id)] = tick_;
  return id;
}

NodeId Tree::add_root(int32_t rope_offset, int32_t name_space, int32_t adapter, bool is_private) {
  prepare(1, 0);
  Namespace& space = namespaces_.try_emplace(name_space).first->second;
  int32_t number = free_root_;
  if (number >= 0) {
    free_root_ = roots_[static_cast<size_t>(number)].node;
  } else {
    number = static_cast<int32_t>(roots_.size());
    roots_.emplace_back();
  }
  const NodeId id = add_node(number);
  roots_[static_cast<size_t>(number)] = {id, rope_offset, name_space, adapter, &space, is_private};
  ++space.roots;
  return id;
}

void Tree::remove_root(NodeId root) {
  const Node& n = nodes_[root];
  PREFIX_CHECK(n.parent == kNoNode && n.first_child == kNoNode && n.subtree_locks == 0);
  --space_of(n).roots;
  roots_[static_cast<size_t>(n.root)] = {.node = std::exchange(free_root_, n.root)};
  nodes_.remove(root);
}

void Tree::remove_namespace(int32_t name_space) {
  const auto found = namespaces_.find(name_space);
  if (found == namespaces_.end()) return;
  PREFIX_CHECK(name_space != 0 && found->second.roots == 0);
  withdraw_offer(found->second);
  std::erase(limited_, &found->second);
  std::erase(changed_, &found->second);
  namespaces_.erase(found);
}

int64_t Tree::tokens_of(int32_t name_space) const {
  const Namespace* s = find_space(name_space);
  return s ? s->tokens : 0;
}

int64_t Tree::quota(int32_t name_space) const {
  const Namespace* s = find_space(name_space);
  return s && s->quota > 0 ? s->quota : INT32_MAX;
}

int64_t Tree::quota_left(int32_t name_space) const {
  const Namespace* s = find_space(name_space);
  if (!s || s->quota <= 0) return INT32_MAX;
  return std::max<int64_t>(0, s->quota - s->held());
}

void Tree::count_tokens(const Node& n, int32_t tokens) {
  tokens_ += tokens;
  Namespace& s = space_of(n);
  s.tokens += tokens;
  offer_changes(s);
}

NodeId Tree::child(NodeId parent, int32_t token) const {
  return children_.find(parent, token, [&](NodeId id) {
    const Node& n = nodes_[id];
    return n.parent == parent && this->token(n, 0) == token;
  });
}

NodeId Tree::last_child(NodeId id) const {
  const NodeId first = nodes_[id].first_child;
  return first == kNoNode ? kNoNode : nodes_[first].previous;
}

int32_t Tree::token(const Node& n, int32_t offset) const {
  int32_t found = 0;
  for_each_piece(n, offset, offset + 1,
                 [&](int32_t page, int32_t slot, int32_t) { found = pages_.tokens(page)[slot]; });
  return found;
}

std::vector<int32_t> Tree::tokens(const Node& n) const {
  std::vector<int32_t> all;
  all.reserve(static_cast<size_t>(n.length));
  for_each_piece(n, 0, n.length, [&](int32_t page, int32_t slot, int32_t count) {
    const int32_t* from = pages_.tokens(page) + slot;
    all.insert(all.end(), from, from + count);
  });
  return all;
}

int32_t Tree::page_count(const Node& n) const { return pages_between(n.start, n.end()); }

// Behind its siblings.
void Tree::link(NodeId parent, NodeId child) {
  Node& p = nodes_[parent];
  Node& c = nodes_[child];
  c.parent = parent;
  c.next = kNoNode;
  children_.add(parent, token(c, 0), child);
  if (p.first_child == kNoNode) {
    if (p.queued) dequeue(parent);
    p.first_child = c.previous = child;
  } else {
    Node& first = nodes_[p.first_child];
    c.previous = first.previous;
    nodes_[first.previous].next = child;
    first.previous = child;
  }
  children_changed(parent);
}

void Tree::unlink(NodeId id) noexcept {
  const Node& c = nodes_[id];
  Node& p = nodes_[c.parent];
  children_.erase(c.parent, token(c, 0), id);
  if (c.next != kNoNode) {
    nodes_[c.next].previous = c.previous;
  } else if (p.first_child != id) {
    nodes_[p.first_child].previous = c.previous;
  }
  (p.first_child == id ? p.first_child : nodes_[c.previous].next) = c.next;
}

NodeId Tree::split(NodeId id, int32_t offset) {
  prepare(1, 0);
  const NodeId upper = add_node(nodes_[id].root);
  Node& lower = nodes_[id];
  Node& up = nodes_[upper];
  PREFIX_CHECK(offset > 0 && offset < lower.length);
  const int32_t first_token = token(lower, 0);
  const int32_t second_token = token(lower, offset);
  up.start = lower.start;
  up.length = offset;
  up.computed = std::min(lower.computed, offset);
  up.subtree_locks = lower.subtree_locks;
  up.kept_states = lower.kept_states;
  up.job = lower.job;
  up.uses = lower.uses;
  up.priority = lower.priority;
  up.expired = lower.expired;
  up.last_use = lower.last_use;
  if (keep_created_)
    state_.created[static_cast<size_t>(upper)] = state_.created[static_cast<size_t>(id)];
  if (lifetimes_.contains(id)) expire_at(upper, lifetimes_.end_of(id));

  // The upper half takes the place of the lower one among its siblings.
  up.parent = lower.parent;
  up.next = lower.next;
  up.previous = lower.previous == id ? upper : lower.previous;
  Node& parent = nodes_[up.parent];
  if (up.next != kNoNode) {
    nodes_[up.next].previous = upper;
  } else if (parent.first_child != id) {
    nodes_[parent.first_child].previous = upper;
  }
  (parent.first_child == id ? parent.first_child : nodes_[up.previous].next) = upper;
  children_.replace(up.parent, first_token, id, upper);

  // The page of the split point belongs to both when the split is in mid-page.
  const int32_t position = lower.start + offset;
  up.first_page = up.last_page = lower.first_page;
  for (int32_t b = up.start / kPageTokens; b < (position - 1) / kPageTokens; ++b)
    up.last_page = pages_.next(up.last_page);
  const bool mid_page = position % kPageTokens != 0;
  if (mid_page) pages_.share(up.last_page);
  lower.first_page = mid_page ? up.last_page : pages_.next(up.last_page);
  lower.start = position;
  lower.length -= offset;
  lower.computed = std::max(0, lower.computed - offset);

  lower.parent = upper;
  lower.next = kNoNode;
  lower.previous = id;
  up.first_child = id;
  children_.add(upper, second_token, id);
  offer_changes(space_of(lower));
  children_changed(id);  // its state, if it has one, frees a shorter run
  return upper;
}

// Gives the node pages for `tokens`, which continue its edge.
void Tree::write_tokens(NodeId id, std::span<const int32_t> tokens, bool hollow) {
  ++growth_;
  Node& n = nodes_[id];
  size_t written = 0;
  while (written < tokens.size()) {
    const int32_t position = n.end();
    if (n.first_page < 0 || position % kPageTokens == 0) {
      n.last_page = hollow ? pages_.allocate_hollow(n.last_page) : pages_.allocate(n.last_page);
      if (n.first_page < 0) n.first_page = n.last_page;
    }
    const int32_t slot = position % kPageTokens;
    const size_t count = std::min(tokens.size() - written, static_cast<size_t>(kPageTokens - slot));
    pages_.set_tokens(n.last_page, slot, tokens.subspan(written, count));
    n.length += static_cast<int32_t>(count);
    written += count;
  }
  count_tokens(n, static_cast<int32_t>(written));
}

bool Tree::lends_page(NodeId id) const {
  const Node& n = nodes_[id];
  if (whole_ || n.end() % kPageTokens == 0) return false;
  if (pages_.hollow(n.last_page) || pages_.slides(n.last_page)) return false;
  int32_t users = 1;  // with those above it in the same page
  for (const Node* up = &n; up->first_page == n.last_page; ++users) {
    up = &nodes_[up->parent];
    if (up->last_page != n.last_page) break;
  }
  return pages_.references(n.last_page) == users;
}

NodeId Tree::branch(NodeId parent, std::span<const int32_t> tokens, bool hollow) {
  const NodeId id = add_node(nodes_[parent].root);
  const bool lent = lends_page(parent);
  Node& n = nodes_[id];
  n.start = nodes_[parent].end();
  if (lent) {
    n.first_page = n.last_page = nodes_[parent].last_page;
    pages_.share(n.first_page);
  }
  write_tokens(id, tokens, hollow);
  if (const int32_t slots = n.start % kPageTokens;
      slots > 0 && !lent)  // as keys and values will be
    pages_.set_tokens(n.first_page, 0,
                      {pages_.tokens(nodes_[parent].last_page), static_cast<size_t>(slots)});
  link(parent, id);
  return id;
}

// Shortens a leaf to `length` > 0 tokens and frees the pages behind it.
void Tree::cut(NodeId id, int32_t length) {
  Node& n = nodes_[id];
  PREFIX_CHECK(n.first_child == kNoNode);
  ++changes_;
  forget_state(id);
  next_logprobs_.forget(id);
  if (n.subtree_locks > 0) held_tokens_ -= n.length - length;
  const int32_t gone = page_count(n) - pages_between(n.start, n.start + length);
  for (int32_t i = 0; i < gone; ++i) {
    const int32_t page = n.last_page;
    n.last_page = pages_.previous(page);
    pages_.release(page);
  }
  count_tokens(n, length - n.length);
  n.length = length;
  n.computed = std::min(n.computed, length);
  if (n.end() % kPageTokens != 0) pages_.unmark(n.last_page);
}

// Frees a leaf; its parent may become evictable.
void Tree::remove(NodeId id) {
  ++changes_;
  forget_state(id);
  next_logprobs_.forget(id);
  if (nodes_[id].queued) dequeue(id);
  Node& n = nodes_[id];
  PREFIX_CHECK(n.subtree_locks == 0 && n.first_child == kNoNode && n.length > 0);
  const NodeId parent = n.parent;
  unlink(id);
  children_changed(parent);
  int32_t page = n.first_page;
  for (int32_t left = page_count(n); left > 0; --left) {
    const int32_t next = pages_.next(page);
    pages_.release(page);
    page = next;
  }
  count_tokens(n, -n.length);
  lifetimes_.erase(id);
  nodes_.remove(id);
  update_queue(parent);
}

// --- reading -------------------------------------------------------------------------------------

Match Tree::match(NodeId root, std::span<const int32_t> tokens) const {
  Match m{root, 0, 0, 0};
  const auto n = static_cast<int32_t>(tokens.size());
  while (m.matched < n) {
    const NodeId below = child(m.node, tokens[static_cast<size_t>(m.matched)]);
    if (below == kNoNode) break;
    const Node& c = nodes_[below];
    const int32_t most = std::min(c.length, n - m.matched);
    const int32_t* wanted = tokens.data() + m.matched;
    int32_t same = 0;
    int32_t page = c.first_page;
    for (int32_t slot = c.start % kPageTokens; same < most; slot = 0) {
      const int32_t* have = pages_.tokens(page) + slot;
      int32_t count = std::min(kPageTokens - slot, most - same);
      while (same + count < most) {  // neighbours lie side by side and are compared at once
        const int32_t next = pages_.next(page);
        const bool beside = next == page + 1 && PagePool::same_chunk(page, next);
        page = next;
        if (!beside) break;
        count = std::min(count + kPageTokens, most - same);
      }
      const int32_t equal = common_prefix(have, wanted + same, count);
      same += equal;
      if (equal < count) break;
    }
    if (m.computed == m.matched) m.computed += std::min(same, c.computed);
    m.node = below;
    m.offset = same;
    m.matched += same;
    if (same < c.length) break;
  }
  return m;
}

int32_t Tree::pages_needed(const Match& match, int32_t n) const {
  return n > match.matched ? pages_between(0, n) - pages_below(match) : 0;
}

int64_t Tree::reach(const Match& match, int32_t pages) const {
  return (int64_t{pages_below(match)} + pages) * kPageTokens;
}

}  // namespace prefix
