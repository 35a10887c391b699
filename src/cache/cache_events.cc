#include "cache/cache_events.h"

#include <algorithm>
#include <new>
#include <utility>

namespace prefix {
namespace {

// The name of a block: positive as a signed number too, and never 0.
uint64_t name_of(const PageKey& key) {
  uint64_t name = 0;
  for (int i = 7; i >= 0; --i) name = name << 8 | key.bytes[static_cast<size_t>(i)];
  name &= INT64_MAX;
  return name != 0 ? name : 1;
}

}  // namespace

CacheEvents::CacheEvents(const Tree& tree, PageKeys& keys, const PagePool& pages, size_t capacity,
                         int32_t event_tokens, bool states, Now now)
    : tree_(tree),
      keys_(keys),
      pages_(pages),
      capacity_(capacity),
      block_pages_(event_tokens / kPageTokens),
      states_(states),
      now_(std::move(now)) {}

void CacheEvents::post(CacheEvent event) {
  event.sequence = next_++;
  event.time_ns = ns_of(now_().time_since_epoch());
  ring_.push_back(std::move(event));
  if (ring_.size() > capacity_) ring_.pop_front();
}

// Of the block that ends with this page.
CacheEvent CacheEvents::stored(PagePlace place) {
  CacheEvent event;
  event.name_space = tree_.name_space(tree_.node(place.node));
  event.block = name_of(keys_.key(place));
  const int32_t first = place.block + 1 - block_pages_;
  event.position = first * kPageTokens;
  event.tokens.resize(static_cast<size_t>(block_pages_) * kPageTokens);
  for (int32_t b = block_pages_; b-- > 0; place = page_before(tree_, pages_, place)) {
    // A page in which a path parts has all tokens before it.
    std::copy_n(pages_.tokens(place.page), kPageTokens, event.tokens.data() + b * kPageTokens);
    if (place.block == 0) return event;
  }
  event.parent = name_of(keys_.key(place));
  return event;
}

// Runs f, which posts. The tree cannot wait for memory: without it the reader learns that it missed
// something.
template <typename F>
void CacheEvents::posting(const F& f) {
  try {
    f();
  } catch (const std::bad_alloc&) {
    ring_.clear();
    ++next_;
  }
}

void CacheEvents::computed(NodeId id, int32_t from) {
  if (!states_) posting([&] { post_stored(id, from); });
}

void CacheEvents::evicting(NodeId id, int32_t from) {
  if (!states_) posting([&] { post_removed(id, from); });
}

// What only this state lets requests get to, from the top down.
void CacheEvents::state_kept(NodeId id) {
  posting([&] {
    std::vector<NodeId> path;
    for (; id != kNoNode && tree_.node(id).kept_states == 1; id = tree_.node(id).parent)
      path.push_back(id);
    for (; !path.empty(); path.pop_back()) post_stored(path.back(), 0);
  });
}

void CacheEvents::taking_state(NodeId id) {
  if (!tree_.state_is_kept(id)) return;
  posting([&] {
    for (; id != kNoNode && tree_.node(id).kept_states == 1; id = tree_.node(id).parent)
      post_removed(id, 0);
  });
}

void CacheEvents::post_stored(NodeId id, int32_t from) {
  const Node& n = tree_.node(id);
  for_each_full_page(tree_, n, from, n.computed, [&](int32_t page, int32_t page_block) {
    if (ends_block(page_block)) post(stored({id, page, page_block}));
  });
}

void CacheEvents::post_removed(NodeId id, int32_t from) {
  const Node& n = tree_.node(id);
  std::vector<CacheEvent> events;
  for_each_full_page(tree_, n, from, n.computed, [&](int32_t page, int32_t page_block) {
    if (!ends_block(page_block) || !pages_.keyed(page)) return;
    CacheEvent& event = events.emplace_back();
    event.kind = CacheEvent::kRemoved;
    event.name_space = tree_.name_space(n);
    event.block = name_of(keys_.known(page));
    event.position = (page_block + 1 - block_pages_) * kPageTokens;
  });
  for (; !events.empty(); events.pop_back()) post(std::move(events.back()));
}

void CacheEvents::check_cleared() {
  if (tree_.token_count() > 0 || next_ == 0) return;
  if (!ring_.empty() && ring_.back().kind == CacheEvent::kCleared) return;
  posting([&] {
    CacheEvent event;
    event.kind = CacheEvent::kCleared;
    post(std::move(event));
  });
}

const CacheEvent* CacheEvents::read(int64_t from) const {
  if (ring_.empty() || from >= next_) return nullptr;
  return &ring_[static_cast<size_t>(std::max(from, ring_.front().sequence) -
                                    ring_.front().sequence)];
}

// Those that have blocks in memory, each behind its parent.
std::vector<NodeId> CacheEvents::nodes_below(const std::vector<NodeId>& roots) const {
  std::vector<NodeId> nodes(roots.begin(), roots.end());
  size_t kept = 0;
  for (size_t at = 0; at < nodes.size(); ++at) {
    const NodeId id = nodes[at];
    const Node& n = tree_.node(id);
    if (states_ && n.kept_states == 0) continue;
    nodes[kept++] = id;
    if (n.computed < n.length) continue;
    for (NodeId c = n.first_child; c != kNoNode; c = tree_.node(c).next) nodes.push_back(c);
  }
  nodes.resize(kept);
  return nodes;
}

void CacheEvents::removed(NodeId root) {
  posting([&] {
    std::vector<NodeId> nodes = nodes_below({root});
    for (; !nodes.empty(); nodes.pop_back()) post_removed(nodes.back(), 0);
  });
}

void CacheEvents::dump(const std::vector<NodeId>& roots,
                       const std::function<void(const CacheEvent&)>& f) {
  for (const NodeId id : nodes_below(roots)) {
    const Node& n = tree_.node(id);
    for_each_full_page(tree_, n, 0, n.computed, [&](int32_t page, int32_t page_block) {
      if (!ends_block(page_block)) return;
      CacheEvent event = stored({id, page, page_block});
      event.sequence = next_;
      f(event);
    });
  }
}

}  // namespace prefix
