// What may go and in which order, and the comparison of everything with the tree.
#include <algorithm>
#include <limits>

#include "tree/tree_oracle.h"

namespace prefix::testing_support {

CheckedTree::Key CheckedTree::key(const Edge& e) const {
  int64_t of_class = 0;
  int64_t rank = e.last_use;
  switch (policy_) {
    case Policy::kLru:
    case Policy::kMarconi:  // without states
      break;
    case Policy::kLfu:
      of_class = e.uses;
      break;
    case Policy::kFifo:
      rank = e.created;
      break;
    case Policy::kMru:
      rank = -e.last_use;
      break;
    case Policy::kFilo:
      rank = -e.created;
      break;
    case Policy::kSlru:
      of_class = e.uses < 2 ? 0 : 1;
      break;
    case Policy::kPriority:
      of_class = e.priority;
      break;
    case Policy::kGds:
    case Policy::kGdsf:
      rank = 0;  // any order
      break;
  }
  if (e.expired) of_class = std::numeric_limits<int64_t>::min();
  return {of_class, rank};
}

int32_t CheckedTree::gone(const Edge& e, int32_t pages) {
  if (e.own_pages() <= pages) return e.length();
  int32_t end = e.end();
  for (; pages > 0; --pages) end = (end - 1) / kPageTokens * kPageTokens;  // page by page
  return e.end() - end;
}

bool CheckedTree::above_floor(const Edge& e, int32_t pages) const {
  const Space& space = spaces_[static_cast<size_t>(space_of(e))];
  return space.tokens - gone(e, pages) >= space.floor;
}

const Edge* CheckedTree::first_of(int32_t space) const {
  const Edge* best[kSpaces] = {};  // one for each space
  bool open[kSpaces] = {};
  for (const Edge* e : edges_) {
    const auto own = static_cast<size_t>(space_of(*e));
    if (!can_go(*e) || (space != kAll && space_of(*e) != space)) continue;
    const bool less = !best[own] || key(*e) < key(*best[own]);
    if (!less && key(*e) != key(*best[own])) continue;
    const bool may_go = !spaces_[own].limited() || above_floor(*e, 1);
    open[own] = may_go && (less || open[own]);
    if (less) best[own] = e;
  }
  if (space != kAll) return best[space];
  const Edge* first = nullptr;
  for (size_t i = 0; i < kSpaces; ++i)
    if (open[i] && (!first || key(*best[i]) < key(*first))) first = best[i];
  return first;
}

void CheckedTree::demand_first(const Edge& e, int32_t space) const {
  demand(can_go(e), "evicted what is in use or has children");
  demand(space == kAll || space_of(e) == space, "evicted a leaf of another space");
  demand(space != kAll || above_floor(e, 1), "evicted below a floor");
  const Edge* first = first_of(space);
  const Edge* first_own = first_of(space_of(e));
  const bool is_first = key(e) == key(*first_own) && (!first || key(e) <= key(*first));
  demand(is_first, "evicted a leaf that is not the first");
}

int64_t CheckedTree::held_tokens() {
  int64_t held = 0;
  ++mark_;
  const auto mark_path = [&](Edge* e) {
    for (; e && e->mark != mark_; e = e->parent) {
      e->mark = mark_;
      held += e->length();
    }
  };
  for (const Sequence& s : live_) mark_path(s.edge);
  mark_path(in_use_);
  return held;
}

// The edge of the next eviction that the tree told of and the model has not repeated.
Edge* CheckedTree::next_evicted() {
  if (repeated_ == log_.size()) return nullptr;
  for (Edge* e : edges_)
    if (e->node == log_[repeated_].node) return e;
  throw Difference("evicted a node that the model does not know");
}

// One step of making room: at most `pages` pages of the first leaf go.
void CheckedTree::repeat_eviction(int32_t pages, int32_t space) {
  Edge* e = next_evicted();
  demand(e, "the tree stopped evicting too early");
  demand_first(*e, space);
  const int32_t from = log_[repeated_++].from;
  if (space != kAll) saw(kForQuota);
  if (e->expired) saw(kExpired);
  while (space == kAll && pages > 1 && !above_floor(*e, std::min(pages, e->pages()))) --pages;
  const int32_t left = e->length() - gone(*e, pages);
  same("where an edge is cut", from, left);
  evicted_tokens_ += e->length() - left;
  saw(left == 0 ? kWhole : kTail);
  if (left > 0) return cut(e, left);
  ++evictions_;
  remove(e);
}

// For a space of its own, whose floor does not bind itself, when nothing else is left.
bool CheckedTree::repeat_make_room(int32_t pages, int32_t space) {
  while (available() < pages) {
    const bool limited = space != kAll && spaces_[static_cast<size_t>(space)].limited();
    bool others = first_of(kAll) != nullptr;
    // Whose leaf is first under gdsf, or which of equal ones (of which not all may be above a
    // floor), the model does not know: it follows the tree.
    if (const Edge* next = next_evicted(); next && (policy_ == Policy::kGdsf || !others))
      others = space_of(*next) != space || above_floor(*next, 1);
    if (!others && !(limited && first_of(space))) return false;
    repeat_eviction(pages - available(), others ? kAll : space);
  }
  return true;
}

bool CheckedTree::repeat_make_room_in(int32_t space, int64_t tokens) {
  const Space& s = spaces_[static_cast<size_t>(space)];
  while (s.quota > 0 && s.tokens + tokens > s.quota) {
    if (!first_of(space)) return false;
    const int64_t over = s.tokens + tokens - s.quota;
    repeat_eviction(static_cast<int32_t>((over + kPageTokens - 1) / kPageTokens), space);
  }
  return true;
}

// Everything below `top` (nullptr: in the root) that can go, in any order that lets it go.
int64_t CheckedTree::repeat_drop(size_t root, const Edge* top) {
  const int64_t had = tokens_;
  const auto below = [&](const Edge& e) {
    return e.root == root && &e != top && (!top || e.path.starts_with(top->path));
  };
  while (Edge* e = next_evicted()) {
    if (!below(*e)) break;  // of drop_after
    demand(can_go(*e), "dropped what is in use or has children");
    same("where a dropped edge is cut", log_[repeated_++].from, 0);
    evicted_tokens_ += e->length();
    ++evictions_;
    remove(e);
  }
  for (const Edge* e : edges_) demand(!below(*e) || !can_go(*e), "drop left a leaf");
  return had - tokens_;
}

void CheckedTree::all_repeated() {
  demand(repeated_ == log_.size(), "the tree evicted more than was needed");
  log_.clear();
  repeated_ = 0;
}

// --- comparison ----------------------------------------------------------------------------------

void CheckedTree::check_facts() {
  demand(log_.empty(), "an operation evicted that must not");
  same("tokens", tree_.token_count(), tokens_);
  same("pages", pool_.used(), pages_used_);
  same("available pages", pool_.available(), available());
  same("tick", tree_.tick(), tick_);
  same("evictions", tree_.evictions(), evictions_);
  same("evicted tokens", tree_.evicted_tokens(), evicted_tokens_);
  same("nodes", tree_.node_count(), edges_.size() + roots_.size());
  for (int32_t i = 0; i < kSpaces; ++i) same("tokens of a space", tree_.tokens_of(i), tokens_of(i));

  same("held tokens", tree_.held_tokens(), held_tokens());

  const Edge* first = first_of(kAll);
  const NodeId victim = tree_.victim();
  if (victim == kNoNode) return demand(!first, "the tree finds no victim");
  if (first && victim == first->id) return;
  for (const Edge* e : edges_)
    if (e->id == victim) return demand_first(*e, kAll);
  throw Difference("the victim is no node");
}

void CheckedTree::check_edge(const Edge& e) {
  const Node& n = tree_.node(e.id);
  demand(&n == e.node && tree_.root(n) == roots_[e.root].id, "a node is not where it was");
  same("parent", n.parent, e.parent ? e.parent->id : roots_[e.root].id);
  same("start", n.start, e.start);
  same("length", n.length, e.length());
  same("computed tokens of an edge", n.computed, e.computed);
  same("locks", n.locks, e.locks);
  same("uses", n.uses, e.uses);
  same("priority", n.priority, e.priority);
  same("last use", n.last_use, e.last_use);
  same("creation", tree_.created(e.id), e.created);
  same("expired", n.expired, e.expired);
  same("queued", n.queued, can_go(e));
  const std::vector<int32_t> tokens = tree_.tokens(n);
  demand(std::equal(tokens.begin(), tokens.end(), e.path.begin() + e.start, e.path.end()),
         "the tokens of an edge differ");
  std::vector<float> logprobs(e.logprobs.size());
  tree_.get_logprobs(e.id, e.start, logprobs);
  const auto same_value = [](float a, float b) { return a == b || (a != a && b != b); };
  demand(std::ranges::equal(logprobs, e.logprobs, same_value), "the log-probs of an edge differ");
  if (std::ranges::any_of(logprobs, [](float v) { return v == v; })) saw(kScored);
  demand(tree_.node_at(e.id, e.start) == e.id, "node_at");
  const bool shares = e.parent && e.parent->node->last_page == n.first_page;
  same("whether the first page is the parent's", shares, e.shares);

  // What the model itself keeps for speed follows from the paths and the sequences.
  int32_t children = 0;
  int32_t held = 0;
  const Edge* parent = nullptr;
  for (const Edge* other : roots_[e.root].sorted) {
    if (other->parent == &e) ++children;
    if (other != &e && e.path.starts_with(other->path) && (!parent || parent->end() < other->end()))
      parent = other;
  }
  demand(parent == e.parent && e.start == (parent ? parent->end() : 0), "the model lost a parent");
  demand(children == e.children, "the model miscounted children");
  for (const Sequence& s : live_)
    held += s.root == e.root && s.edge->path.starts_with(e.path) ? 1 : 0;
  same("held", n.subtree_locks, held);
}

void CheckedTree::check_everything() {
  tree_.check();
  int32_t pages = 0;
  for (const Edge* e : edges_) {
    check_edge(*e);
    pages += e->own_pages();
  }
  same("pages by shape", pool_.used(), pages);
  for (const Sequence& s : live_)
    demand(s.edge->path.starts_with(s.tokens), "a sequence is not on its path");
}

}  // namespace prefix::testing_support
