#include "tree/hybrid_tree.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/status.h"

namespace prefix {

HybridTree::HybridTree(const Options& options)
    : options_(options),
      queue_(options.policy, options.alpha, [this](int32_t a, int32_t b) { return before(a, b); }) {
  make(-1, 0);
}

int32_t HybridTree::root(std::string_view name) {
  if (const auto found = roots_.find(name); found != roots_.end()) return found->second;
  const int32_t id = make(kTop, 0);
  append_child(kTop, id);
  roots_.emplace(name, id);
  return id;
}

int32_t HybridTree::child_of(int32_t id, int32_t token) const {
  return children_.find(id, token, [&](int32_t child) {
    return node(child).parent == id && node(child).tokens.front() == token;
  });
}

HybridMatch HybridTree::match(int32_t root, std::span<const int32_t> tokens, int64_t limit) const {
  HybridMatch m{.node = root};
  while (m.length < static_cast<int64_t>(tokens.size())) {
    const std::span<const int32_t> rest = tokens.subspan(static_cast<size_t>(m.length));
    const int32_t child = child_of(m.node, rest.front());
    if (child < 0) break;
    const HybridNode& n = node(child);
    const size_t most = std::min(rest.size(), n.tokens.size());
    const auto same =
        std::mismatch(rest.begin(), rest.begin() + static_cast<ptrdiff_t>(most), n.tokens.begin());
    m.length += same.first - rest.begin();
    if (m.length < n.end) {
      m.partial = child;
      break;
    }
    m.node = child;
    if (n.state && n.end <= limit) {
      m.hit = child;
      m.reused = n.end;
    }
  }
  return m;
}

// --- structure ---

int32_t HybridTree::make(int32_t parent, int64_t now) {
  int32_t id = static_cast<int32_t>(nodes_.size());
  if (free_.empty()) {
    nodes_.emplace_back();
  } else {
    id = free_.back();
    free_.pop_back();
  }
  at(id) = {.parent = parent, .live = true, .last_use = now};
  queue_.create(id);
  return id;
}

void HybridTree::append_child(int32_t parent, int32_t id) {
  HybridNode& p = at(parent);
  HybridNode& n = at(id);
  n.order = ++next_order_;
  n.previous = p.last_child;
  (p.last_child < 0 ? p.first_child : at(p.last_child).next) = id;
  p.last_child = id;
  ++p.children;
}

// `id` takes the place of `old_id` among its siblings.
void HybridTree::replace_child(int32_t old_id, int32_t id) {
  const HybridNode& old = node(old_id);
  HybridNode& n = at(id);
  n.parent = old.parent;
  n.order = old.order;
  n.next = old.next;
  n.previous = old.previous;
  HybridNode& p = at(n.parent);
  (n.previous < 0 ? p.first_child : at(n.previous).next) = id;
  (n.next < 0 ? p.last_child : at(n.next).previous) = id;
  children_.replace(n.parent, old.tokens.front(), old_id, id);
}

void HybridTree::unlink(int32_t id) {
  const HybridNode& n = node(id);
  HybridNode& p = at(n.parent);
  (n.previous < 0 ? p.first_child : at(n.previous).next) = n.next;
  (n.next < 0 ? p.last_child : at(n.next).previous) = n.previous;
  --p.children;
  children_.erase(n.parent, n.tokens.front(), id);
}

void HybridTree::free(int32_t id) {
  queue_.remove(id);
  if (node(id).state) --states_;
  --live_;
  at(id) = {};
  free_.push_back(id);
}

int32_t HybridTree::split(int32_t id, int64_t offset, bool state, int64_t now) {
  const int32_t upper = make(node(id).parent, now);
  HybridNode& n = at(id);
  HybridNode& u = at(upper);
  const auto cut = n.tokens.begin() + static_cast<ptrdiff_t>(offset);
  u.end = n.start() + offset;
  u.tokens.assign(n.tokens.begin(), cut);
  u.state = state;
  u.prompt = n.prompt;
  u.pins = n.pins;  // what holds the lower part holds what is above it
  replace_child(id, upper);
  n.tokens.erase(n.tokens.begin(), cut);
  n.parent = upper;
  n.next = n.previous = -1;
  append_child(upper, id);
  children_.add(upper, n.tokens.front(), id);
  states_ += state;
  ++live_;
  requeue(id);
  requeue(upper);
  return upper;
}

int32_t HybridTree::add_leaf(int32_t parent, std::span<const int32_t> tokens, bool state,
                             int64_t now) {
  const int32_t id = make(parent, now);
  HybridNode& n = at(id);
  n.tokens.assign(tokens.begin(), tokens.end());
  n.end = node(parent).end + static_cast<int64_t>(tokens.size());
  n.state = state;
  append_child(parent, id);
  children_.add(parent, tokens.front(), id);
  tokens_ += static_cast<int64_t>(tokens.size());
  states_ += state;
  ++live_;
  const HybridNode& p = node(parent);
  if (p.children == 1 && !p.state && p.pins == 0 && !p.tokens.empty())
    join(parent);  // it was a leaf without a state
  else
    requeue(parent);
  requeue(id);
  return id;
}

void HybridTree::add_state(int32_t id) {
  at(id).state = true;
  ++states_;
  queue_.renew(id);
  requeue(id);
}

// The only child of `id` takes its run over.
void HybridTree::join(int32_t id) {
  const int32_t child = node(id).first_child;
  HybridNode& n = at(id);
  HybridNode& c = at(child);
  children_.erase(id, c.tokens.front(), child);
  replace_child(id, child);
  n.tokens.insert(n.tokens.end(), c.tokens.begin(), c.tokens.end());
  c.tokens = std::move(n.tokens);
  c.last_use = std::max(c.last_use, n.last_use);
  queue_.merge(id, child);
  free(id);
  requeue(child);
}

void HybridTree::remove(int32_t id) {
  const int32_t parent = node(id).parent;
  if (node(id).children == 1) return join(id);
  tokens_ -= static_cast<int64_t>(node(id).tokens.size());
  unlink(id);
  free(id);
  const HybridNode& p = node(parent);
  if (p.tokens.empty()) return;
  if (p.children == 1 && !p.state && p.pins == 0) return join(parent);
  if (p.children == 1) queue_.renew(parent);  // it may go again
  requeue(parent);
}

// --- victims ---

bool HybridTree::is_candidate(int32_t id) const {
  const HybridNode& n = node(id);
  if (n.tokens.empty() || n.pins > 0) return false;
  return n.children == 0 || (n.children == 1 && n.state && !options_.leaves_only);
}

int64_t HybridTree::freed_by(int32_t id) const {
  const HybridNode& n = node(id);
  const int64_t keys = n.children == 0 ? kv_bytes(static_cast<int64_t>(n.tokens.size())) : 0;
  return keys + (n.state ? options_.cost.state_bytes : 0);
}

void HybridTree::requeue(int32_t id) {
  if (!is_candidate(id)) return queue_.remove(id);
  const HybridNode& n = node(id);
  queue_.put(id, {.last_use = n.last_use,
                  .flops = options_.cost.flops_between(n.start(), n.end),
                  .bytes = options_.cost.state_bytes + kv_bytes(n.end),
                  .freed = freed_by(id)});
}

void HybridTree::set_last_use(int32_t id, int64_t now) {
  at(id).last_use = now;
  requeue(id);
}

void HybridTree::renew(int32_t id) {
  queue_.renew(id);
  requeue(id);
}

void HybridTree::count_hit(int32_t id) {
  queue_.count_hit(id);
  requeue(id);
}

void HybridTree::pin(int32_t id) {
  for (; !node(id).tokens.empty(); id = node(id).parent) {
    ++at(id).pins;
    queue_.remove(id);
  }
}

void HybridTree::unpin(int32_t id) {
  while (!node(id).tokens.empty()) {
    const int32_t parent = node(id).parent;
    HybridNode& n = at(id);
    if (--n.pins == 0 && n.children == 1 && !n.state)
      join(id);  // its other child went meanwhile
    else
      requeue(id);
    id = parent;
  }
}

int64_t HybridTree::evict(int32_t id) {
  const int64_t before_it = used();
  queue_.evict(id);
  remove(id);
  ++evictions_;
  return before_it - used();
}

void HybridTree::set_policy(HybridPolicy policy, double alpha, bool leaves_only) {
  options_.leaves_only = leaves_only;
  queue_.set_policy(policy, alpha);
  for (size_t id = 0; id < nodes_.size(); ++id)
    if (nodes_[id].live) requeue(static_cast<int32_t>(id));
}

// --- order ---

bool HybridTree::before(int32_t a, int32_t b) const {
  const auto depth = [&](int32_t id) {
    int32_t steps = 0;
    for (; id != kTop; id = node(id).parent) ++steps;
    return steps;
  };
  const int32_t deep_a = depth(a), deep_b = depth(b);
  for (int32_t d = deep_a; d > deep_b; --d) a = node(a).parent;
  for (int32_t d = deep_b; d > deep_a; --d) b = node(b).parent;
  if (a == b) return deep_a < deep_b;
  while (node(a).parent != node(b).parent) {
    a = node(a).parent;
    b = node(b).parent;
  }
  return node(a).order < node(b).order;
}

int32_t HybridTree::last_leaf() const {
  int32_t id = kTop;
  while (node(id).last_child >= 0) id = node(id).last_child;
  return id;
}

HybridQueue::Range HybridTree::last_uses() const {
  HybridQueue::Range range{std::numeric_limits<int64_t>::max(), 0};
  for (const HybridNode& n : nodes_) {
    if (!n.live || n.tokens.empty()) continue;
    range.oldest = std::min(range.oldest, n.last_use);
    range.newest = std::max(range.newest, n.last_use);
  }
  return range;
}

std::vector<int32_t> HybridTree::in_order() const {
  std::vector<int32_t> ids, stack{kTop};
  while (!stack.empty()) {
    const int32_t id = stack.back();
    stack.pop_back();
    if (!node(id).tokens.empty()) ids.push_back(id);
    for (int32_t c = node(id).last_child; c >= 0; c = node(c).previous) stack.push_back(c);
  }
  return ids;
}

void HybridTree::check() const {
  int64_t tokens = 0, states = 0;
  size_t candidates = 0;
  const std::vector<int32_t> all = in_order();
  for (size_t i = 0; i < all.size(); ++i) {
    const int32_t id = all[i];
    const HybridNode& n = node(id);
    PREFIX_CHECK(n.live && n.end == node(n.parent).end + static_cast<int64_t>(n.tokens.size()));
    PREFIX_CHECK(child_of(n.parent, n.tokens.front()) == id);
    PREFIX_CHECK(n.state || n.children != 1 || n.pins > 0);
    PREFIX_CHECK(i == 0 || (before(all[i - 1], id) && !before(id, all[i - 1])));
    PREFIX_CHECK(queue_.contains(id) == is_candidate(id));
    candidates += is_candidate(id);
    int32_t children = 0;
    for (int32_t c = n.first_child; c >= 0; c = node(c).next, ++children)
      PREFIX_CHECK(node(c).parent == id && node(c).pins <= n.pins);
    PREFIX_CHECK(children == n.children);
    tokens += static_cast<int64_t>(n.tokens.size());
    states += n.state;
  }
  PREFIX_CHECK(tokens == tokens_ && states == states_);
  PREFIX_CHECK(static_cast<int64_t>(all.size()) == live_ && children_.size() == all.size());
  PREFIX_CHECK(candidates == queue_.size());
}

}  // namespace prefix
