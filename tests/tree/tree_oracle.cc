#include "tree/tree_oracle.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace prefix::testing_support {
namespace {

int32_t common_prefix(const Path& a, const Path& b) {
  const auto n = static_cast<ptrdiff_t>(std::min(a.size(), b.size()));
  return static_cast<int32_t>(std::mismatch(a.begin(), a.begin() + n, b.begin()).first - a.begin());
}

bool before(const Edge* e, const Path& path) { return e->path < path; }

}  // namespace

CheckedTree::CheckedTree(int32_t pages, Policy policy, size_t roots)
    : pool_(pages), tree_(pool_, {.policy = policy, .keep_created = true}), policy_(policy) {
  roots_.resize(roots);
  for (size_t i = 0; i < roots; ++i) {
    roots_[i].space = static_cast<int32_t>(i) % kSpaces;
    roots_[i].id = tree_.add_root(0, roots_[i].space);
  }
  tree_.set_observer({.evicting = [this](NodeId id, int32_t from, EvictReason why) {
    if (why != EvictReason::kNotCached) log_.push_back({&tree_.node(id), from});
  }});
}

const std::vector<int32_t>& CheckedTree::numbers(const Path& tokens) {
  numbers_.assign(tokens.begin(), tokens.end());
  return numbers_;
}

// --- the shape -----------------------------------------------------------------------------------

// How many of the first `position` tokens of the path to `e` are computed; they come first.
int32_t CheckedTree::computed_before(const Edge* e, int32_t position) {
  int32_t computed = position;
  for (; e; e = e->parent)
    if (e->computed < e->length()) computed = std::min(computed, e->start + e->computed);
  return computed;
}

CheckedTree::Found CheckedTree::find(size_t root, const Path& query) const {
  const std::vector<Edge*>& sorted = roots_[root].sorted;
  const auto at = std::lower_bound(sorted.begin(), sorted.end(), query, before);
  Found found;
  if (at != sorted.end()) found = {*at, common_prefix((*at)->path, query), 0};
  if (at != sorted.begin()) {
    const int32_t matched = common_prefix((*(at - 1))->path, query);
    if (matched > found.matched) found = {*(at - 1), matched, 0};
  }
  if (found.matched == 0) return {};
  while (found.edge->start >= found.matched) found.edge = found.edge->parent;
  found.computed = computed_before(found.edge, found.matched);
  return found;
}

void CheckedTree::count(const Edge& e, int sign) {
  tokens_ += sign * e.length();
  spaces_[static_cast<size_t>(space_of(e))].tokens += sign * e.length();
  pages_used_ += sign * e.own_pages();
}

Edge* CheckedTree::new_edge(size_t root, Path path, int32_t start, Edge* parent) {
  if (unused_.empty()) {
    memory_.push_back(std::make_unique<Edge>());
    unused_.push_back(memory_.back().get());
  }
  Edge* e = unused_.back();
  unused_.pop_back();
  *e = Edge{};
  e->root = root;
  e->path = std::move(path);
  e->start = start;
  e->parent = parent;
  e->last_use = e->created = tick_;
  e->logprobs.assign(static_cast<size_t>(e->length()), PagePool::kNotKnown);
  e->place = edges_.size();
  edges_.push_back(e);
  std::vector<Edge*>& sorted = roots_[root].sorted;
  sorted.insert(std::lower_bound(sorted.begin(), sorted.end(), e->path, before), e);
  return e;
}

// A new child gets the rest of its parent's last page, unless another one has it.
void CheckedTree::borrow(Edge* e) {
  ++e->parent->children;
  e->shares = e->parent->lends();
  if (!e->shares) return;
  e->parent->lent = true;
  saw(kLentPage);
}

void CheckedTree::bind(Edge* e, NodeId id) {
  e->id = id;
  e->node = &tree_.node(id);
}

void CheckedTree::remove(Edge* e) {
  demand(e->children == 0 && e->locks == 0, "removed what is needed");
  count(*e, -1);
  std::vector<Edge*>& sorted = roots_[e->root].sorted;
  sorted.erase(std::lower_bound(sorted.begin(), sorted.end(), e->path, before));
  edges_[e->place] = edges_.back();
  edges_[e->place]->place = e->place;
  edges_.pop_back();
  if (e->parent) --e->parent->children;
  if (e->shares) e->parent->lent = false;
  e->node = nullptr;
  unused_.push_back(e);
}

// A joint after `length` tokens of the path: a new edge above, while `e` stays whoever it is.
Edge* CheckedTree::split(Edge* e, int32_t length) {
  count(*e, -1);
  Edge* upper =
      new_edge(e->root, e->path.substr(0, static_cast<size_t>(length)), e->start, e->parent);
  upper->children = 1;
  upper->computed = std::min(e->computed, upper->length());
  upper->shares = e->shares;
  upper->expired = e->expired;
  upper->expires = e->expires;
  upper->priority = e->priority;
  upper->uses = e->uses;
  upper->last_use = e->last_use;
  upper->created = e->created;
  const auto rest = e->logprobs.begin() + upper->length();
  std::copy(e->logprobs.begin(), rest, upper->logprobs.begin());
  e->logprobs.erase(e->logprobs.begin(), rest);
  e->parent = upper;
  e->start = length;
  e->computed -= upper->computed;
  e->shares = upper->lent = length % kPageTokens != 0;
  count(*upper, 1);
  count(*e, 1);
  bind(upper, tree_.node(e->id).parent);
  saw(e->shares ? kSplitInPage : kSplit);
  return upper;
}

void CheckedTree::cut(Edge* e, int32_t length) {
  count(*e, -1);
  e->path.resize(static_cast<size_t>(e->start + length));
  e->computed = std::min(e->computed, length);
  e->logprobs.resize(static_cast<size_t>(length));
  count(*e, 1);
}

// What nobody needs goes: pending tokens, and with keep == false also computed ones.
void CheckedTree::settle(Edge* e, bool keep) {
  while (e && e->locks == 0 && e->children == 0) {
    if (e->computed > 0 && keep) {
      if (e->computed < e->length()) cut(e, e->computed);
      return;
    }
    Edge* parent = e->parent;
    remove(e);
    e = parent;
  }
}

void CheckedTree::stamp(Edge* e) {
  ++tick_;
  for (; e; e = e->parent) e->last_use = tick_;
}

int64_t CheckedTree::end_of(int64_t expires_ms) {
  return expires_ms == 0 ? std::numeric_limits<int64_t>::max() : expires_ms;
}

int64_t CheckedTree::end_of(const Edge& e) { return e.expired ? -1 : end_of(e.expires); }

void CheckedTree::live_until(Edge* e, int64_t expires_ms) {
  if (!ends_before(*e, expires_ms)) return;
  e->expired = false;
  e->expires = expires_ms;
}

void CheckedTree::use_path(Edge* e, const AttachOptions& use) {
  for (; e; e = e->parent) {
    e->last_use = tick_;
    e->priority = std::max(e->priority, use.priority);
    e->uses += use.count_as_use ? 1 : 0;
    live_until(e, use.expires_ms);
  }
}

// --- operations ----------------------------------------------------------------------------------

void CheckedTree::match(size_t root, const Path& query) {
  const Match got = tree_.match(roots_[root].id, numbers(query));
  const Found found = find(root, query);
  same("matched tokens", got.matched, found.matched);
  same("computed tokens of a match", got.computed, found.computed);
  same("node of a match", got.node, found.edge ? found.edge->id : roots_[root].id);
  same("offset of a match", got.offset, found.edge ? found.matched - found.edge->start : 0);
}

bool CheckedTree::attach(size_t root, const Path& tokens, const AttachOptions& use) {
  const auto n = static_cast<int32_t>(tokens.size());
  const Found found = find(root, tokens);
  const Match match = tree_.match(roots_[root].id, numbers(tokens));
  same("matched tokens", match.matched, found.matched);
  const bool lent = found.edge && found.matched == found.edge->end() && found.edge->lends();
  const int32_t from_page = found.matched / kPageTokens + (lent ? 1 : 0);
  const int32_t needed = found.matched == n ? 0 : (n - 1) / kPageTokens + 1 - from_page;
  same("pages_needed", tree_.pages_needed(match, n), needed);
  NodeId id = kNoNode;
  try {
    id = tree_.attach(match, numbers_, use);
  } catch (const Error& e) {
    if (e.code() != Code::kCacheFull) throw;
  }
  ++tick_;
  in_use_ = found.edge;
  const Space& space = spaces_[static_cast<size_t>(roots_[root].space)];
  const int64_t added = n - found.matched + use.reserve_tokens;
  const bool in_quota = repeat_make_room_in(roots_[root].space, added);
  // Held tokens fill pages that cannot come free. What surely does not fit need not evict.
  const bool hopeless = needed > available() + pages_used_ - held_tokens() / kPageTokens;
  const bool refused = hopeless && !next_evicted();
  const bool fits = in_quota && !refused && repeat_make_room(needed, roots_[root].space);
  in_use_ = nullptr;
  same("success of attach", id != kNoNode, fits);
  if (!fits) {
    saw(in_quota ? kFull : kOverQuota);
    stamp(found.edge);
    repeat_make_room_in(roots_[root].space, 0);
    all_repeated();
    return false;
  }
  all_repeated();
  demand(space.quota == 0 || space.tokens + added <= space.quota, "the quota is exceeded");
  Edge* edge = found.edge;
  if (found.matched < n) {
    Edge* parent = found.edge;
    if (parent && found.matched < parent->end()) parent = split(parent, found.matched);
    edge = new_edge(root, tokens, found.matched, parent);
    if (parent) borrow(edge);
    edge->priority = use.priority;
    edge->expires = use.expires_ms;
    count(*edge, 1);
    bind(edge, id);
    use_path(parent, use);
  } else {
    if (n < edge->end()) {
      Edge* rest = edge;
      edge = split(rest, n);
      settle(rest, true);
      saw(kEndInside);
    }
    use_path(edge, use);
  }
  same("node of attach", id, edge->id);
  ++edge->locks;
  live_.push_back({root, tokens, edge, 0, use});
  return true;
}

void CheckedTree::compute(Sequence& s, int32_t upto) {
  Edge* chain[256];
  size_t n = 0;
  for (Edge* e = s.edge; e; e = e->parent) chain[n++] = e;
  while (n > 0) {  // parents first
    Edge* e = chain[--n];
    e->computed = std::max(e->computed, std::min(e->length(), upto - e->start));
    tree_.set_computed(e->id, e->computed);
    if (e->computed < e->length()) break;
  }
}

// Log-probs, each of them once, for tokens [from, end) of the path.
void CheckedTree::score(const Sequence& s, int32_t from, int32_t end) {
  std::vector<float> values;
  for (int32_t i = from; i < end; ++i) values.push_back(scored_ -= 1);
  tree_.set_logprobs(s.edge->id, from, values);
  for (Edge* e = s.edge; e; e = e->parent)
    for (int32_t i = std::max(from, e->start); i < std::min(end, e->end()); ++i)
      e->logprobs[static_cast<size_t>(i - e->start)] = values[static_cast<size_t>(i - from)];
}

// The next token makes the leaf longer.
bool CheckedTree::grows(const Sequence& s) {
  const Edge& e = *s.edge;
  return std::cmp_equal(e.end(), s.tokens.size()) && e.children == 0 && e.uses < 2 &&
         end_of(e) <= end_of(s.use.expires_ms) && e.priority <= s.use.priority;
}

void CheckedTree::advance(Sequence& s, char token) {
  const auto length = static_cast<int32_t>(s.tokens.size());
  Path longer = s.tokens + token;
  const Found found = find(s.root, longer);
  int32_t pages = 0;
  same("grows_alone", tree_.grows_alone(s.edge->id, length, s.use), grows(s) && s.edge->locks == 1);
  const NodeId id = tree_.advance(s.edge->id, length, token, s.use, &pages);
  Edge* from = s.edge;
  int32_t taken = 0;
  if (found.matched > length) {
    // Somebody has been here. Inside the own edge, or an edge that the lock is on, it stays.
    bool inside = false;
    for (const Edge* e = from; e && !inside; e = e->parent) inside = e == found.edge;
    if (!inside) {
      s.edge = found.edge;
      ++s.edge->uses;
      s.edge->priority = std::max(s.edge->priority, s.use.priority);
    }
  } else if (grows(s)) {
    count(*from, -1);
    from->path = longer;
    from->logprobs.push_back(PagePool::kNotKnown);
    count(*from, 1);
    taken = length % kPageTokens == 0 ? 1 : 0;
    saw(kGrowth);
  } else {  // a branch
    Edge* parent = found.edge;
    if (length < parent->end()) parent = split(parent, length);
    s.edge = new_edge(s.root, longer, length, parent);
    borrow(s.edge);
    s.edge->priority = s.use.priority;
    s.edge->expires = s.use.expires_ms;
    if (from->end() == length && from->children == 1) saw(kOwnEnd);
    count(*s.edge, 1);
    bind(s.edge, id);
    taken = s.edge->shares ? 0 : 1;
    saw(kBranch);
  }
  s.tokens = std::move(longer);
  same("node of advance", id, s.edge->id);
  same("pages taken by advance", pages, taken);
  if (s.edge != from) {
    --from->locks;
    ++s.edge->locks;
    stamp(from);
    settle(from, true);
    repeat_make_room_in(roots_[s.root].space, 0);
    all_repeated();
  }
  const int32_t kept = std::min(taken, s.reserved);
  pool_.unreserve(kept);
  s.reserved -= kept;
  reserved_ -= kept;
}

bool CheckedTree::can_retreat(const Sequence& s) const {
  const Edge& e = *s.edge;
  return std::cmp_equal(e.end(), s.tokens.size()) && e.children == 0 && e.locks == 1 &&
         std::max(1, e.computed) < e.length();
}

void CheckedTree::retreat(Sequence& s, int32_t length) {
  Edge* e = s.edge;
  const int32_t before = e->own_pages();
  const int32_t freed = tree_.retreat(e->id, length);
  cut(e, length - e->start);
  s.tokens.resize(static_cast<size_t>(length));
  same("pages freed by retreat", freed, before - e->own_pages());
  saw(kRetreat);
}

void CheckedTree::prolong(const Sequence& s, int64_t expires_ms) {
  tree_.prolong(s.edge->id, static_cast<int32_t>(s.tokens.size()), expires_ms);
  const int32_t length = computed_before(s.edge, static_cast<int32_t>(s.tokens.size()));
  Edge* e = s.edge;
  while (e && e->start >= length) e = e->parent;
  if (e && length < e->end() && ends_before(*e, expires_ms)) e = split(e, length);
  for (; e; e = e->parent) live_until(e, expires_ms);
}

void CheckedTree::unlock(size_t sequence, bool keep) {
  const Sequence s = std::move(live_[sequence]);
  live_.erase(live_.begin() + static_cast<ptrdiff_t>(sequence));
  pool_.unreserve(s.reserved);
  reserved_ -= s.reserved;
  tree_.unlock(s.edge->id, keep);
  --s.edge->locks;
  stamp(s.edge);
  settle(s.edge, keep);
  repeat_make_room_in(roots_[s.root].space, 0);  // a lower quota holds what is not in use any more
  all_repeated();
}

void CheckedTree::end_at(Edge* e, int32_t length) {
  const NodeId id = tree_.end_at(e->id, length);
  while (e->start >= length) e = e->parent;
  if (length < e->end()) e = split(e, length);
  same("node of end_at", id, e->id);
}

bool CheckedTree::make_room(int32_t pages) {
  const bool got = tree_.make_room(pages);
  same("success of make_room", got, repeat_make_room(pages));
  all_repeated();
  return got;
}

void CheckedTree::reserve(Sequence& s, int32_t pages) {
  pool_.reserve(pages);
  reserved_ += pages;
  s.reserved += pages;
}

void CheckedTree::trim(int32_t pages) {
  const int64_t had = tokens_;
  const int64_t got = tree_.trim(pages);
  while (pages_used_ > pages && (next_evicted() || first_of(kAll)))
    repeat_eviction(pages_used_ - pages, kAll);
  all_repeated();
  same("tokens evicted by trim", got, had - tokens_);
}

void CheckedTree::drop(size_t root, Edge* top) {
  const int64_t got = tree_.drop(top ? top->id : roots_[root].id);
  same("tokens evicted by drop", got, repeat_drop(root, top));
  all_repeated();
}

void CheckedTree::drop_after(size_t root, const Path& query) {
  const Found found = find(root, query);
  const int64_t got = tree_.drop_after(tree_.match(roots_[root].id, numbers(query)));
  int64_t gone = repeat_drop(root, found.edge);
  if (Edge* e = found.edge; e && can_go(*e) && found.matched < e->end()) {
    demand(next_evicted() == e, "drop_after left the rest of an edge");
    same("where an edge is cut", log_[repeated_++].from, found.matched - e->start);
    gone += e->end() - found.matched;
    evicted_tokens_ += e->end() - found.matched;
    cut(e, found.matched - e->start);
  }
  all_repeated();
  same("tokens evicted by drop_after", got, gone);
}

void CheckedTree::expire(int64_t now_ms) {
  const int64_t had = tokens_;
  const int64_t got = tree_.expire(now_ms);
  for (Edge* e : edges_) e->expired |= e->expires != 0 && e->expires <= now_ms;
  while (const Edge* e = next_evicted()) {
    demand(can_go(*e) && e->expired, "expire evicted something else");
    repeat_eviction(std::numeric_limits<int32_t>::max(), space_of(*e));
  }
  for (const Edge* e : edges_) demand(!e->expired || !can_go(*e), "an expired leaf is still here");
  all_repeated();
  same("tokens evicted by expire", got, had - tokens_);
}

void CheckedTree::set_limits(int32_t space, int64_t floor, int64_t quota) {
  tree_.set_limits(space, floor, quota);
  Space& s = spaces_[static_cast<size_t>(space)];
  s.floor = floor;
  s.quota = quota;
  repeat_make_room_in(space, 0);
  all_repeated();
}

bool CheckedTree::replace_root(size_t root, int32_t space) {
  Root& r = roots_[root];
  if (!r.sorted.empty()) return false;
  tree_.remove_root(r.id);
  r.space = space;
  r.id = tree_.add_root(0, space);
  return true;
}

}  // namespace prefix::testing_support
