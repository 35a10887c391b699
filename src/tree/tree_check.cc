// The invariants, for tests and debug builds.
#include "base/page.h"
#include "base/status.h"
#include "tree/tree.h"

namespace prefix {

void Tree::check_pages(NodeId id, std::vector<int32_t>& owners) const {
  const Node& n = nodes_[id];
  int32_t page = n.first_page;
  int32_t last = -1;
  for (int32_t left = page_count(n); left > 0; --left) {
    PREFIX_CHECK(page >= 0 && static_cast<size_t>(page) < pages_.room());
    if (last >= 0) PREFIX_CHECK(pages_.previous(page) == last);
    if (owners.size() <= static_cast<size_t>(page)) owners.resize(static_cast<size_t>(page) + 1);
    ++owners[static_cast<size_t>(page)];
    last = page;
    page = pages_.next(page);
  }
  PREFIX_CHECK(last == n.last_page);
}

void Tree::check() const {
  std::vector<int32_t> owners;
  std::unordered_map<int32_t, int64_t> of_namespace;
  int64_t tokens = 0;
  int64_t held_tokens = 0;
  size_t live = 0;
  size_t edges = 0;
  for (NodeId id = 0; id < nodes_.limit(); ++id) {
    const Node& n = nodes_[id];
    if (n.root < 0) continue;
    ++live;
    int32_t locks = n.locks;
    int32_t kept_states = has_state(id) && state_is_kept(id) ? 1 : 0;
    NodeId before = last_child(id);
    for (NodeId c = n.first_child; c != kNoNode; before = c, c = nodes_[c].next) {
      const Node& below = nodes_[c];
      PREFIX_CHECK(below.parent == id && below.previous == before && below.root == n.root);
      PREFIX_CHECK(below.start == n.end() && child(id, token(below, 0)) == c);
      PREFIX_CHECK(below.computed == 0 || n.computed == n.length);
      locks += below.subtree_locks;
      kept_states += below.kept_states;
      ++edges;
    }
    PREFIX_CHECK(n.subtree_locks >= 0 && n.subtree_locks == locks);
    PREFIX_CHECK(n.kept_states == kept_states);
    const Root& root = roots_[static_cast<size_t>(n.root)];
    if (n.parent == kNoNode) {
      PREFIX_CHECK(n.length == 0 && n.first_page < 0 && !n.queued && root.node == id);
      continue;
    }
    PREFIX_CHECK(n.length > 0 && n.computed >= 0 && n.computed <= n.length);
    PREFIX_CHECK(n.queued == (may_go(n) && !has_state(id)));
    if (n.subtree_locks == 0) PREFIX_CHECK(n.computed == n.length);
    if (may_go(n)) PREFIX_CHECK(resumable(id, n.end()) == n.end());
    check_pages(id, owners);
    tokens += n.length;
    PREFIX_CHECK(root.space == &namespaces_.at(root.name_space));
    of_namespace[root.name_space] += n.length;
    if (n.subtree_locks > 0) held_tokens += n.length;
  }
  PREFIX_CHECK(live == nodes_.live() && edges == children_.size());
  PREFIX_CHECK(tokens == tokens_ && held_tokens == held_tokens_);
  for (const auto& [number, space] : namespaces_)
    PREFIX_CHECK(of_namespace[number] == space.tokens);
  for (const Namespace* s : limited_)
    if (!s->changed) {
      PREFIX_CHECK(s->place.empty() == may_offer(*s));
      if (s->place.empty()) PREFIX_CHECK(s->offer.key == s->own->front_key());
    }
  check_states(owners);
  check_frames(owners);
}

// owners: by page, how many nodes and states have it.
void Tree::check_frames(const std::vector<int32_t>& owners) const {
  int32_t used = 0, hollow = 0, sliding = 0;
  std::vector<bool> frames(owners.size());
  for (size_t i = 0; i < owners.size(); ++i) {
    if (owners[i] == 0) continue;
    const auto page = static_cast<int32_t>(i);
    PREFIX_CHECK(pages_.references(page) == owners[i]);
    if (pages_.slides(page)) ++sliding;
    if (pages_.hollow(page)) {
      ++hollow;
      PREFIX_CHECK(!pages_.slides(page));
      continue;
    }
    ++used;
    const auto frame = static_cast<size_t>(pages_.frame(page));
    PREFIX_CHECK(pages_.frame(page) < pages_.capacity());
    if (frames.size() <= frame) frames.resize(frame + 1);
    PREFIX_CHECK(!frames[frame]);  // no two pages have the same
    frames[frame] = true;
  }
  PREFIX_CHECK(used + loose_state_pages_ == pages_.used() && hollow == pages_.hollow_pages());
  PREFIX_CHECK(sliding == pages_.sliding_pages() && sliding <= pages_.bands());
}

}  // namespace prefix
