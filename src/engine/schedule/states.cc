#include "engine/schedule/states.h"

#include <algorithm>
#include <functional>
#include <new>
#include <unordered_map>
#include <utility>

#include "base/status.h"

namespace prefix {
namespace {

template <typename F>
void for_each_sequence(const States::Running& running, const F& f) {
  for (const auto& request : running)
    for (Sequence& s : request->sequences) f(*request, s);
}

}  // namespace

States::States(Tree& tree, PagePool& pages, StepBuilder& builder, int32_t state_pages,
               int32_t path_states)
    : tree_(tree),
      pages_(pages),
      builder_(builder),
      state_pages_(state_pages),
      path_states_(path_states) {
  pages_.reserve(state_pages_);
}

void States::admit(Sequence& s, const RequestSpec& spec, const Match& match,
                   std::span<const int64_t> placed, bool keep) {
  if (!on()) return;
  const bool decodes = spec.task == Task::kGenerate;
  if (decodes) {
    if (!tree_.make_room(state_pages_, name_space_of(s)))
      fail(Code::kCacheFull, "a generation needs ", state_pages_, " pages for its state, but only ",
           std::max(0, pages_.available()), " of ", pages_.capacity(), " (cache_bytes) are free");
    pages_.reserve(state_pages_);
    s.own_reserved = true;
  }
  if (keep) {
    const auto cut = [&](int32_t position) {
      if (position > 0) s.cuts.push_back(position);
    };
    // Where it parts from what is there; in front of the last token, which is computed again to be
    // read, when it does not.
    cut(match.matched < s.length ? match.matched : s.output_next);
    if (decodes) cut(static_cast<int32_t>(spec.tokens.size()) - 1);
    for (const int64_t position : placed) cut(static_cast<int32_t>(position));
    s.asked = spec.checkpoint;
    if (s.output_next == s.length && s.behind == 0 &&
        (s.asked.empty() || s.asked.back() < s.length))
      s.asked.push_back(s.length);  // nothing of it is read: all of it is to be kept
    for (const int32_t position : s.asked) {
      cut(position);
      const NodeId node = tree_.node_at(s.node, position - 1);
      if (tree_.node(node).end() == position && tree_.has_state(node)) tree_.exempt_state(node);
    }
    std::sort(s.cuts.begin(), s.cuts.end());
    s.cuts.erase(std::unique(s.cuts.begin(), s.cuts.end()), s.cuts.end());
  }
  resume(s);
  if (s.resume_node != kNoNode) tree_.use_state(s.resume_node);
}

// --- where sequences continue ----------------------------------------------------------------

void States::leave(Sequence& s) {
  if (s.resume_node == kNoNode) return;
  tree_.unpin_state(std::exchange(s.resume_node, kNoNode));
  refill_reserve();  // before anything else takes the pages
}

// The deepest state in front of what is still to be read.
void States::resume(Sequence& s) {
  const int32_t limit = s.outputs_left > 0 ? s.output_next : s.length;
  const NodeId best = tree_.state_at(s.node, limit);
  if (best == kNoNode || tree_.node(best).end() <= s.resume) return;
  tree_.pin_state(best);
  leave(s);
  s.resume_node = best;
  s.resume = tree_.node(best).end();
}

void States::resume(const Running& running) {
  if (!on()) return;
  for_each_sequence(running, [&](RunningRequest&, Sequence& s) {
    if (s.own.empty()) resume(s);
  });
}

// --- a step ----------------------------------------------------------------------------------

void States::begin(const Running& running) {
  if (!on()) return;
  for_each_sequence(running, [&](RunningRequest&, Sequence& s) {
    if (s.resume == 0 || s.resume >= s.length) return;
    builder_.start(s.node, s.resume, s.own.empty() ? tree_.state_pages(s.resume_node) : s.own);
  });
}

// The node that ends after `length` tokens of a path; kNoNode when these are not all computed.
NodeId States::computed_end(NodeId id, int32_t length) {
  const Node& n = tree_.node(tree_.node_at(id, length - 1));
  return length - n.start <= n.computed ? tree_.end_at(id, length) : kNoNode;
}

void States::plan(const Running& running, StepPlan& step) {
  if (!on()) return;
  running_ = &running;
  for_each_sequence(running, [&](RunningRequest&, Sequence& s) {
    s.reached = builder_.reach(s.node, s.resume, s.length);
    if (s.reached == s.resume) return;
    if (!s.own.empty()) {
      builder_.store(s.node, s.reached - 1, s.own, step);
      return;
    }
    for (const int32_t position : s.cuts)
      if (position > s.resume && position <= s.reached) capture(s, position, true, step);
    const bool goes_on = s.reached < s.length;
    if (goes_on && capture(s, s.reached, false, step)) return;
    // One that decodes goes before all others, so that it must not begin again with every step.
    if (!std::exchange(s.own_reserved, false)) return;
    pages_.unreserve(state_pages_);
    s.own = tree_.take_state_pages(state_pages_);
    builder_.store(s.node, s.reached - 1, s.own, step);
  });
}

// False: there is no memory for it.
bool States::capture(Sequence& s, int32_t position, bool keep, StepPlan& step) {
  const bool asked = std::binary_search(s.asked.begin(), s.asked.end(), position);
  const NodeId node = tree_.node_at(s.node, position - 1);
  if (tree_.node(node).end() == position && tree_.has_state(node)) {
    if (keep && may_keep()) tree_.keep_state(node);
    if (asked) tree_.exempt_state(node);
    return true;
  }
  for (Capture& c : captures_) {
    if (c.node != node || c.position != position) continue;
    c.keep = c.keep || (keep && may_keep());
    c.asked = c.asked || asked;
    return true;
  }
  std::vector<int32_t> pages = pages_to_store(s, keep);
  if (pages.empty()) return false;
  builder_.store(s.node, position - 1, pages, step);
  captures_.push_back({node, position, std::move(pages), keep, asked});
  return true;
}

// Whether a state that moved along may stay. One in pages of the reserve may not: at a fork it
// would have them for good, and sequences that find no others would begin again with every step.
bool States::may_keep() {
  refill_reserve();
  return !reserve_used_;
}

// Empty: there are none.
std::vector<int32_t> States::pages_to_store(Sequence& s, bool keep) {
  const int32_t name_space = name_space_of(s);
  if (keep) {
    int32_t in_step = 0;  // of this namespace, and not the tree's yet
    for (const Capture& c : captures_)
      if (tree_.name_space(tree_.node(c.node)) == name_space) in_step += state_pages_;
    if (!tree_.make_state_room(state_pages_, name_space, in_step)) return {};
    return tree_.take_state_pages(state_pages_);
  }
  // A state that only this sequence needs moves along: it is read before it is written.
  const auto only_mine = [&] {
    return s.resume_node != kNoNode && !tree_.state_is_kept(s.resume_node) &&
           tree_.state_pins(s.resume_node) == 1;
  };
  if (!only_mine()) {
    if (tree_.make_room(state_pages_, name_space)) return tree_.take_state_pages(state_pages_);
    if (!std::exchange(reserve_used_, true)) {
      pages_.unreserve(state_pages_);
      return tree_.take_state_pages(state_pages_);
    }
  }
  return take_from(writable_by(s));
}

// The state that `s` continues from, or else the last one behind it, but none that a sequence in
// front of it continues from: these would take each other's, and nobody would come further. In
// front are those that get rows first.
NodeId States::writable_by(const Sequence& s) const {
  std::vector<std::pair<int32_t, const Sequence*>> order;
  for_each_sequence(*running_, [&](const RunningRequest& request, const Sequence& other) {
    order.emplace_back(request.state->priority, &other);
  });
  std::ranges::stable_sort(order, std::greater<>(), [](const auto& one) { return one.first; });
  struct Use {  // of a node that sequences continue from
    size_t first = 0;
    int32_t pins = 0;
  };
  std::unordered_map<NodeId, Use> uses;
  size_t own = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const Sequence* const other = order[i].second;
    if (other == &s) own = i;
    if (other->resume_node != kNoNode)
      ++uses.try_emplace(other->resume_node, Use{i}).first->second.pins;
  }
  // Others than sequences pin a state that has to stay.
  const auto is_free = [&](size_t i, size_t front) {
    const NodeId node = order[i].second->resume_node;
    if (node == kNoNode) return false;
    const Use& use = uses.at(node);
    return use.first >= front && tree_.state_pins(node) <= use.pins;
  };
  if (is_free(own, own)) return order[own].second->resume_node;
  for (size_t i = order.size() - 1; i > own; --i)
    if (is_free(i, own + 1)) return order[i].second->resume_node;
  return kNoNode;
}

// Those that continue from it will begin at a state before it. In this step it is read before it is
// written.
std::vector<int32_t> States::take_from(NodeId node) {
  if (node == kNoNode) return {};
  tree_.pin_state(node);
  for_each_sequence(*running_, [&](RunningRequest&, Sequence& other) {
    if (other.resume_node != node) return;
    leave(other);
    if (other.own.empty()) other.resume = 0;
  });
  return tree_.take_state(node);
}

void States::commit(const Running& running) {
  if (!on()) return;
  std::vector<NodeId> added;
  for (Capture& c : captures_) {
    const NodeId node = computed_end(c.node, c.position);
    if (node == kNoNode || tree_.has_state(node)) {
      tree_.give_state_pages(std::move(c.pages));
      continue;
    }
    tree_.add_state(node, std::move(c.pages), c.keep);
    if (c.asked) tree_.exempt_state(node);
    added.push_back(node);
  }
  captures_.clear();
  // Sequences that moved their state hold none until now.
  for_each_sequence(running, [&](RunningRequest&, Sequence& s) {
    if (!s.own.empty()) {
      leave(s);
      s.resume = s.reached;
    } else if (s.reached >= s.length) {  // all its rows are done
      leave(s);
      s.resume = s.length;
    } else {
      if (s.resume_node == kNoNode) s.resume = 0;
      resume(s);
    }
  });
  for (const NodeId node : added) {
    tree_.unpin_state(node);
    refill_reserve();
  }
  for (const NodeId node : added) thin(node);
  refill_reserve();
}

// What was to be written may be half written.
void States::abort(const Running& running) {
  if (!on()) return;
  for (Capture& c : captures_) tree_.give_state_pages(std::move(c.pages));
  captures_.clear();
  for_each_sequence(running, [&](RunningRequest&, Sequence& s) {
    if (!s.own.empty()) tree_.give_state_pages(std::exchange(s.own, {}));
    if (s.resume_node == kNoNode) s.resume = 0;
  });
  refill_reserve();
}

void States::refill_reserve() {
  if (!reserve_used_ || !tree_.make_room(state_pages_)) return;
  pages_.reserve(state_pages_);
  reserve_used_ = false;
}

void States::release(Sequence& s, bool keep) {
  if (!on()) return;
  leave(s);
  if (std::exchange(s.own_reserved, false)) pages_.unreserve(state_pages_);
  if (s.own.empty()) return;
  NodeId node = kNoNode;
  try {
    if (keep) node = computed_end(s.node, s.resume);
    if (node != kNoNode && !tree_.has_state(node) && tree_.make_quota_room(node, state_pages_)) {
      tree_.add_state(node, std::exchange(s.own, {}), true);
      tree_.unpin_state(node);
      thin(node);
    }
  } catch (const std::bad_alloc&) {  // it is not kept
  }
  if (!s.own.empty()) tree_.give_state_pages(std::exchange(s.own, {}));
}

// Without memory for it there are more than there should be.
void States::thin(NodeId node) {
  try {
    if (path_states_ > 0 && tree_.has_state(node)) tree_.thin_states(node, path_states_);
  } catch (const std::bad_alloc&) {
  }
}

}  // namespace prefix
