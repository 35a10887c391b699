#include "tree/simulator.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "base/page.h"
#include "base/status.h"
#include "tree/page_numbers.h"
#include "tree/slot_store.h"
#include "tree/tree.h"
#include "tree/tree_editor.h"

namespace prefix {
namespace {

TreeOptions tree_options(const SimulatorOptions& options) {
  return {.policy = options.policy, .keep_created = true};
}

}  // namespace

struct Simulator::Impl {
  explicit Impl(const SimulatorOptions& o) : options(o), numbers(o.page, o.bigram), slots(o.page) {
    reset();
  }

  using Keys = std::vector<int32_t>;  // pages of atoms as numbers

  TreeEditor edit() { return TreeEditor(*tree); }
  int64_t tokens(int64_t keys) const { return keys * options.page; }

  // --- slots: beside the keys, `page` for each ---
  static size_t place_of(int32_t page, int32_t slot) {
    return static_cast<size_t>(page) * kPageTokens + static_cast<size_t>(slot);
  }
  void write_slots(const Node& n, std::span<const int64_t> given) {
    size_t at = 0;
    tree->for_each_piece(n, 0, n.length, [&](int32_t page, int32_t slot, int32_t count) {
      for (int32_t i = 0; i < count; ++i)
        for (int64_t& number : slots.add(place_of(page, slot + i))) {
          number = given.empty() ? next_slot : given[at++];
          ++next_slot;
        }
    });
  }
  void read_slots(const Node& n, int32_t from, int32_t to, int64_t* out) const {
    tree->for_each_piece(n, from, to, [&](int32_t page, int32_t slot, int32_t count) {
      for (int32_t i = 0; i < count; ++i) {
        const std::span<const int64_t> stored = slots.find(place_of(page, slot + i));
        if (stored.empty())  // an insertion that kept none
          out = std::fill_n(out, options.page, -1);
        else
          out = std::copy(stored.begin(), stored.end(), out);
      }
    });
  }
  // Of the first `length` keys of the path to `node`.
  void path_slots(NodeId node, int32_t length, std::vector<int64_t>& out) const {
    out.resize(static_cast<size_t>(tokens(length)));
    for (NodeId id = node; tree->node(id).length > 0; id = tree->node(id).parent) {
      const Node& n = tree->node(id);
      read_slots(n, 0, std::min(n.length, length - n.start), out.data() + tokens(n.start));
    }
  }
  // Before tokens [from, length) of a node go.
  void forget(NodeId id, int32_t from) {
    const Node& n = tree->node(id);
    if (freed) {
      const size_t before = freed->size();
      freed->resize(before + static_cast<size_t>(tokens(n.length - from)));
      read_slots(n, from, n.length, freed->data() + before);
    }
    tree->for_each_piece(n, from, n.length, [&](int32_t page, int32_t slot, int32_t count) {
      for (int32_t i = slot; i < slot + count; ++i) {
        slots.remove(place_of(page, i));
        numbers.drop(tree->page_tokens(page)[i]);
      }
    });
  }

  // --- roots ---
  NodeId find_root(std::string_view name) const {
    const auto found = roots.find(std::string(name));
    return found == roots.end() ? kNoNode : found->second;
  }
  NodeId root_of(std::string_view name) {
    const auto [at, is_new] = roots.try_emplace(std::string(name), kNoNode);
    if (!is_new) return at->second;
    // All or nothing, also without memory: a name without a root would be taken for one.
    try {
      names.push_back(at->first);
      at->second = tree->add_root();
    } catch (...) {
      if (names.size() == roots.size()) names.pop_back();
      roots.erase(at);
      throw;
    }
    return at->second;
  }
  void reset() {
    const int64_t tick = tree ? tree->tick() : 0;
    // Made first, so that without memory everything stays as it was.
    auto fresh_pool = std::make_unique<PagePool>(PagePool::kMaxPages);
    auto fresh = std::make_unique<Tree>(*fresh_pool, tree_options(options));
    TreeEditor(*fresh).set_tick(tick + (options.compat ? 2 : 0));  // the root is used and created
    fresh->set_observer(
        {.evicting = [this](NodeId id, int32_t from, EvictReason) { forget(id, from); }});
    if (tree) evictions += tree->evictions();
    tree = std::move(fresh);  // the old tree goes before its pool
    pool = std::move(fresh_pool);
    numbers = PageNumbers(options.page, options.bigram);
    slots = SlotStore(options.page);
    roots.clear();
    names.clear();
  }

  // Evicted slots go to `out` while this lives.
  struct Recording {
    Recording(Impl& impl, std::vector<int64_t>* out) : impl_(impl) { impl_.freed = out; }
    ~Recording() { impl_.freed = nullptr; }
    Impl& impl_;
  };

  // --- insertions ---
  // What an insertion will do. Everything that may fail happens before anything is changed, so that
  // one that fails leaves no trace but a namespace without tokens, which does not show.
  struct Insertion {
    Keys keys;
    NodeId root = kNoNode;
    Match found;
    size_t matched = 0;  // keys
    int64_t over = 0;    // tokens to evict
  };
  Insertion prepare(std::string_view name, std::span<const int32_t> given, bool with_slots,
                    std::vector<int64_t>& gone) {
    Insertion in{.keys = numbers.find(given)};
    in.root = find_root(name);
    if (in.root != kNoNode) in.found = tree->match(in.root, in.keys);
    in.matched = static_cast<size_t>(in.found.matched);
    const auto added = static_cast<int64_t>(in.keys.size() - in.matched);
    if (options.capacity > 0) {
      const int64_t most = options.compat ? options.capacity : whole_capacity();
      in.over = std::max<int64_t>(0, tokens(tree->token_count() + added) - most);
    }
    if (!options.compat) check_room(in, added);

    if (with_slots && in.over > 0) {  // whole nodes may go
      const int64_t most = std::min(tokens(tree->token_count()), in.over + tokens(longest_node));
      gone.reserve(static_cast<size_t>(most));
    }
    pool->take_dirty();  // of no use here, and it would grow for ever
    edit().prepare(3, pages_between(in.found.matched, static_cast<int32_t>(in.keys.size())));
    if (with_slots) slots.reserve(pool->room() * kPageTokens, static_cast<size_t>(added));
    if (in.keys.empty()) return in;
    numbers.use(given, in.matched, in.keys);
    try {
      in.root = root_of(name);
    } catch (...) {
      for (size_t i = in.matched; i < in.keys.size(); ++i) numbers.drop(in.keys[i]);
      throw;
    }
    if (in.found.node == kNoNode) in.found = {in.root, 0, 0, 0};
    longest_node = std::max(longest_node, added);
    return in;
  }
  // Tokens of the whole pages that the capacity has room for.
  int64_t whole_capacity() const { return options.capacity - options.capacity % options.page; }
  void check_room(const Insertion& in, int64_t added) const {
    // Neither what is held nor the path that the sequence continues can go.
    int64_t stays = tree->held_tokens();
    int32_t end = in.found.matched;
    for (NodeId id = in.found.node; id != kNoNode && tree->node(id).subtree_locks == 0;
         id = tree->node(id).parent) {
      stays += end - tree->node(id).start;
      end = tree->node(id).start;
    }
    const int64_t can_go = tokens(tree->token_count() - stays);
    if (in.over > can_go)
      fail(Code::kCacheFull, "the sequence adds ", tokens(added), " tokens; of the capacity of ",
           options.capacity, " (whole pages: ", whole_capacity(), ") at most ",
           whole_capacity() - tokens(stays), " can be free");
  }
  std::span<const int64_t> rest_of(std::span<const int64_t> given, size_t matched) const {
    return given.empty() ? given : given.subspan(matched * static_cast<size_t>(options.page));
  }

  // --- the walks of SGLang ---
  // Touches the path and splits the edge on which the keys diverge. count: it is an insertion.
  Match walk(NodeId root, std::span<const int32_t> keys, bool count, int16_t priority) {
    edit().prepare(1, 0);
    const int64_t now = edit().next_tick();
    if (root == kNoNode) return {};
    const Match found = tree->match(root, keys);
    NodeId node = found.node;
    for (NodeId id = node; tree->node(id).length > 0; id = tree->node(id).parent)
      edit().set_last_use(id, now);
    if (found.offset < tree->node(node).length) {
      node = edit().split(node, found.offset);
      edit().set_last_use(node, edit().next_tick());
      edit().set_created(node, edit().next_tick());
    }
    for (NodeId id = node; count && tree->node(id).length > 0; id = tree->node(id).parent) {
      edit().raise_priority(id, priority);
      edit().count_use(id);
    }
    return {node, tree->node(node).length, found.matched, found.matched};
  }
  SimulatorResult insert_compat(std::string_view name, std::span<const int32_t> given,
                                int16_t priority, std::span<const int64_t> named) {
    SimulatorResult result;
    const Insertion in = prepare(name, given, true, result.freed);
    const Recording recording(*this, &result.freed);
    // As SGLang's caller does: what was matched is held while the shortfall is evicted.
    if (in.root != kNoNode) tree->lock(in.found.node);
    evict(in.over);
    if (in.root != kNoNode) edit().remove_lock(in.found.node);
    const Match found = walk(in.root, in.keys, true, priority);
    if (in.matched < in.keys.size()) {
      const NodeId leaf =
          edit().add_leaf(found.node, std::span(in.keys).subspan(in.matched), 1, priority);
      edit().set_last_use(leaf, edit().next_tick());
      edit().set_created(leaf, edit().next_tick());
      write_slots(tree->node(leaf), rest_of(named, in.matched));
    }
    result.matched = tokens(found.matched);
    return result;
  }

  // --- the engine's own way: attach, compute, unlock ---
  SimulatorResult insert_default(std::string_view name, std::span<const int32_t> given,
                                 int16_t priority, std::span<const int64_t> named,
                                 bool with_slots) {
    SimulatorResult result;
    Insertion in = prepare(name, given, with_slots, result.freed);
    if (in.keys.empty()) return result;
    const Recording recording(*this, with_slots ? &result.freed : nullptr);
    if (in.over > 0) {
      NodeId& at = in.found.node;  // what was matched is held, and nothing below it
      if (in.found.offset < tree->node(at).length) at = edit().split(at, in.found.offset);
      in.found.offset = tree->node(at).length;
      tree->lock(at);
      evict(in.over);
      edit().remove_lock(at);
    }
    const NodeId node = tree->attach(in.found, in.keys, {.priority = priority});
    if (in.matched < in.keys.size()) {
      tree->set_computed(node, tree->node(node).length);
      if (with_slots) write_slots(tree->node(node), rest_of(named, in.matched));
    }
    tree->unlock(node, true);
    result.matched = tokens(in.found.matched);
    return result;
  }

  // Evicts n tokens: whole keys, and with compat whole nodes.
  int64_t evict(int64_t n) {
    const int64_t before = tree->token_count();
    const auto left = [&] { return n - tokens(before - tree->token_count()); };
    while (left() > 0) {
      const NodeId id = tree->victim();
      if (id == kNoNode) break;
      const int64_t keys = (left() - 1) / options.page + 1;
      const int64_t length = tree->node(id).length;
      tree->evict_tokens(id,
                         static_cast<int32_t>(options.compat ? length : std::min(keys, length)));
    }
    return tokens(before - tree->token_count());
  }

  // The deepest node that the keys match, with its end where they diverge.
  Match reach(std::string_view name, const Keys& keys) {
    const NodeId root = find_root(name);
    if (keys.empty()) return {root, 0, 0, 0};
    if (options.compat) return walk(root, keys, false, 0);
    return root == kNoNode ? Match{} : tree->match(root, keys);
  }
  // A lookup with its result. Memory is taken first, since with compat it changes the tree.
  struct Found {
    Match match;
    SimulatorResult result;
  };
  Found lookup(std::string_view name, std::span<const int32_t> given) {
    const Keys keys = numbers.find(given);
    Found found;
    if (const NodeId root = find_root(name); root != kNoNode)
      found.result.slots.reserve(static_cast<size_t>(tokens(tree->match(root, keys).matched)));
    edit().prepare(2, 0);
    found.match = reach(name, keys);
    found.result.matched = tokens(found.match.matched);
    if (found.match.matched > 0)
      path_slots(found.match.node, found.match.matched, found.result.slots);
    return found;
  }

  SimulatorOptions options;
  std::unique_ptr<PagePool> pool;
  std::unique_ptr<Tree> tree;
  PageNumbers numbers;
  SlotStore slots;
  std::map<std::string, NodeId> roots;
  std::vector<std::string> names;  // in order of creation
  int64_t next_slot = 0;
  int64_t longest_node = 0;               // keys of the longest that ever was
  int64_t evictions = 0;                  // of trees before the last reset
  std::vector<int64_t>* freed = nullptr;  // where evicted slots go
};

Simulator::Simulator(const SimulatorOptions& options) : impl_(std::make_unique<Impl>(options)) {}
Simulator::~Simulator() = default;

SimulatorResult Simulator::match(std::string_view name_space, std::span<const int32_t> tokens) {
  return impl_->lookup(name_space, tokens).result;
}

SimulatorResult Simulator::insert(std::string_view name_space, std::span<const int32_t> tokens,
                                  int32_t priority, std::span<const int64_t> slots) {
  if (priority < std::numeric_limits<int16_t>::min() ||
      priority > std::numeric_limits<int16_t>::max())
    fail(Code::kOutOfRange, "priority is ", priority, "; it must lie in [-32768, 32767]");
  const int64_t wanted = impl_->tokens(impl_->numbers.count(tokens));
  if (!slots.empty() && static_cast<int64_t>(slots.size()) != wanted)
    fail(Code::kInvalidArgument, "slots has ", slots.size(), " numbers; the whole pages have ",
         wanted, " tokens");
  const auto of = static_cast<int16_t>(priority);
  return impl_->options.compat ? impl_->insert_compat(name_space, tokens, of, slots)
                               : impl_->insert_default(name_space, tokens, of, slots, true);
}

SimulatorResult Simulator::lock(std::string_view name_space, std::span<const int32_t> tokens) {
  Impl::Found found = impl_->lookup(name_space, tokens);
  Tree& tree = *impl_->tree;
  if (found.match.matched > 0) tree.lock(tree.end_at(found.match.node, found.match.matched));
  return std::move(found.result);
}

SimulatorResult Simulator::unlock(std::string_view name_space, std::span<const int32_t> tokens) {
  Impl::Found found = impl_->lookup(name_space, tokens);
  const Match& match = found.match;
  if (match.matched == 0) return {};
  Tree& tree = *impl_->tree;
  const Node& n = tree.node(match.node);
  // SGLang unlocks any node that is held; here it must be the one that was locked.
  bool locked = impl_->options.compat || (n.locks > 0 && match.offset == n.length);
  for (NodeId id = match.node; tree.node(id).length > 0; id = tree.node(id).parent)
    locked = locked && tree.node(id).subtree_locks > 0;
  if (!locked) fail(Code::kMisuse, "there is no lock after ", found.result.matched, " tokens");
  impl_->edit().remove_lock(match.node);
  return std::move(found.result);
}

SimulatorResult Simulator::evict(int64_t n) {
  SimulatorResult result;
  const int64_t longest = impl_->tokens(impl_->longest_node);
  const int64_t most = n > evictable() - longest ? evictable() : n + longest;
  result.freed.reserve(static_cast<size_t>(std::max<int64_t>(0, most)));
  impl_->edit().prepare(0, 0);
  const Impl::Recording recording(*impl_, &result.freed);
  impl_->evict(n);
  return result;
}

void Simulator::reset() { impl_->reset(); }

int64_t Simulator::request(std::string_view name_space, std::span<const int32_t> tokens,
                           int64_t prompt) {
  const auto given = static_cast<size_t>(
      std::min<int64_t>(std::max<int64_t>(prompt, 0), static_cast<int64_t>(tokens.size())));
  const Match found = impl_->reach(name_space, impl_->numbers.find(tokens.first(given)));
  const int64_t reused =
      std::max<int64_t>(0, std::min(impl_->tokens(found.matched), static_cast<int64_t>(given) - 1));
  if (impl_->options.compat) {
    impl_->insert_compat(name_space, tokens, 0, {});
    return reused;
  }
  try {
    impl_->insert_default(name_space, tokens, 0, {}, false);
  } catch (const Error& e) {
    if (e.code() != Code::kCacheFull) throw;  // longer than the whole cache: not kept
  }
  return reused;
}

std::vector<SimulatorNode> Simulator::dump() const {
  const Tree& tree = *impl_->tree;
  std::vector<SimulatorNode> nodes;
  for (const std::string& name : impl_->names) {
    struct Step {
      NodeId id;
      std::vector<int32_t> path;  // of the parent
    };
    std::vector<Step> stack{{impl_->roots.at(name), {}}};
    while (!stack.empty()) {
      Step step = std::move(stack.back());
      stack.pop_back();
      const Node& n = tree.node(step.id);
      for (const int32_t key : tree.tokens(n)) impl_->numbers.append_tokens(key, step.path);
      if (n.length > 0) {
        SimulatorNode out{.path = step.path, .name_space = name};
        out.length = impl_->tokens(n.length);
        out.slots.resize(static_cast<size_t>(out.length));
        impl_->read_slots(n, 0, n.length, out.slots.data());
        out.locks = n.subtree_locks;
        out.hits = n.uses;
        out.priority = n.priority;
        out.last_use = n.last_use;
        out.created = tree.created(step.id);
        nodes.push_back(std::move(out));
      }
      for (NodeId c = tree.last_child(step.id); c != kNoNode; c = tree.node(c).previous) {
        stack.push_back({c, step.path});
        if (c == n.first_child) break;
      }
    }
  }
  return nodes;
}

int64_t Simulator::evictable() const {
  return impl_->tokens(impl_->tree->token_count() - impl_->tree->held_tokens());
}
int64_t Simulator::protected_() const { return impl_->tokens(impl_->tree->held_tokens()); }
int64_t Simulator::tick() const { return impl_->tree->tick(); }
int64_t Simulator::evictions() const { return impl_->evictions + impl_->tree->evictions(); }
size_t Simulator::nodes() const { return impl_->tree->node_count() - impl_->names.size(); }
void Simulator::check() const { impl_->tree->check(); }

}  // namespace prefix
