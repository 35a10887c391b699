#include "tree/simulator.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <unordered_map>

#include "base/status.h"
#include "tree/tree.h"

namespace prefix {
namespace {

constexpr int32_t kUnlimitedPages = PagePool::kMostPages;

TreeOptions tree_options(const SimulatorOptions& options) {
  return {.policy = options.policy, .keep_created = true};
}

int32_t pool_pages(const SimulatorOptions& o) {
  if (o.capacity == 0 || o.compat) return kUnlimitedPages;
  const int64_t pages = o.capacity / (int64_t{o.page} * kPageTokens);
  return static_cast<int32_t>(std::clamp<int64_t>(pages, 1, kUnlimitedPages));
}

}  // namespace

struct Simulator::Impl {
  explicit Impl(const SimulatorOptions& o) : options(o) { reset(); }

  // --- keys: pages of atoms as numbers ---
  using Keys = std::vector<int32_t>;

  Keys keys_of(std::span<const int32_t> tokens) {
    const size_t extra = options.bigram ? 1 : 0;
    const size_t atoms = tokens.size() > extra ? tokens.size() - extra : 0;
    const auto page = static_cast<size_t>(options.page);
    if (page == 1 && extra == 0) return {tokens.begin(), tokens.end()};
    Keys keys;
    for (size_t i = 0; i + page <= atoms; i += page) {
      const auto* bytes = reinterpret_cast<const char*>(tokens.data() + i);
      const std::string text(bytes, (page + extra) * sizeof(int32_t));
      const auto [at, is_new] = numbers.try_emplace(text, static_cast<int32_t>(numbers.size()));
      if (is_new) texts.push_back(&at->first);
      keys.push_back(at->second);
    }
    return keys;
  }
  // Tokens of a key; those after the first key of a path begin where the one before ends.
  void append_tokens(int32_t key, std::vector<int32_t>& path) const {
    if (options.page == 1 && !options.bigram) {
      path.push_back(key);
      return;
    }
    const std::string& text = *texts[static_cast<size_t>(key)];
    const auto* tokens = reinterpret_cast<const int32_t*>(text.data());
    const size_t count = text.size() / sizeof(int32_t);
    path.insert(path.end(), tokens + (options.bigram && !path.empty() ? 1 : 0), tokens + count);
  }
  int64_t tokens(int64_t keys) const { return keys * options.page; }

  // --- slots: beside the keys, `page` for each ---
  size_t slot_at(int32_t page, int32_t slot) const {
    return (static_cast<size_t>(page) * kPageTokens + static_cast<size_t>(slot)) *
           static_cast<size_t>(options.page);
  }
  void write_slots(const Node& n, std::span<const int64_t> given) {
    size_t at = 0;
    tree->for_each_piece(n, 0, n.length, [&](int32_t page, int32_t slot, int32_t count) {
      const auto slots = static_cast<size_t>(tokens(count));
      const size_t place = slot_at(page, slot);
      if (slot_numbers.size() < place + slots) slot_numbers.resize(2 * (place + slots));
      for (size_t i = 0; i < slots; ++i, ++at)
        slot_numbers[place + i] = given.empty() ? next_slot++ : given[at];
    });
    if (!given.empty()) next_slot += static_cast<int64_t>(at);
  }
  void read_slots(const Node& n, int32_t from, int32_t to, std::vector<int64_t>& out) const {
    tree->for_each_piece(n, from, to, [&](int32_t page, int32_t slot, int32_t count) {
      const size_t place = slot_at(page, slot);
      for (int64_t i = 0; i < tokens(count); ++i) {
        const size_t at = place + static_cast<size_t>(i);
        out.push_back(at < slot_numbers.size() ? slot_numbers[at] : -1);
      }
    });
  }
  std::vector<int64_t> path_slots(NodeId node, int32_t length) const {
    std::vector<NodeId> path;
    for (NodeId id = node; tree->node(id).length > 0; id = tree->node(id).parent)
      path.push_back(id);
    std::vector<int64_t> slots;
    for (auto id = path.rbegin(); id != path.rend(); ++id) {
      const Node& n = tree->node(*id);
      read_slots(n, 0, std::min(n.length, length - n.start), slots);
    }
    return slots;
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
    auto fresh_pool = std::make_unique<PagePool>(pool_pages(options));
    auto fresh = std::make_unique<Tree>(*fresh_pool, tree_options(options));
    fresh->set_tick(tick + (options.compat ? 2 : 0));  // the root is used and created
    fresh->set_observer({.gone = [this](NodeId id, int32_t from, Gone) {
      const Node& n = this->tree->node(id);
      if (freed) read_slots(n, from, n.length, *freed);
    }});
    tree = std::move(fresh);  // the old tree goes before its pool
    pool = std::move(fresh_pool);
    roots.clear();
    names.clear();
  }

  // Evicted slots go to `out` while this lives.
  struct Recording {
    Recording(Impl& impl, std::vector<int64_t>* out) : impl_(impl) { impl_.freed = out; }
    ~Recording() { impl_.freed = nullptr; }
    Impl& impl_;
  };

  // --- the walks of SGLang ---
  // Touches the path and splits the edge on which the keys part. count: it is an insertion.
  Match walk(NodeId root, std::span<const int32_t> keys, bool count, int16_t priority) {
    const int64_t now = tree->next_tick();
    if (root == kNoNode) return {};
    const Match found = tree->match(root, keys);
    NodeId node = found.node;
    std::vector<NodeId> path;
    for (NodeId id = node; tree->node(id).length > 0; id = tree->node(id).parent) {
      tree->stamp(id, now);
      path.push_back(id);
    }
    if (found.offset < tree->node(node).length) {
      path.front() = node = tree->split(node, found.offset);
      tree->stamp(node, tree->next_tick());
      tree->set_created(node, tree->next_tick());
    }
    if (count) {
      for (const NodeId id : path) {
        tree->raise_priority(id, priority);
        tree->count_use(id);
      }
    }
    return {node, tree->node(node).length, found.matched, found.matched};
  }
  SimulatorResult insert_compat(std::string_view name, const Keys& keys, int16_t priority,
                                std::span<const int64_t> slots) {
    SimulatorResult result;
    const Recording recording(*this, &result.freed);
    make_room(name, keys);
    const NodeId root = keys.empty() ? find_root(name) : root_of(name);
    const Match found = walk(root, keys, true, priority);
    const auto matched = static_cast<size_t>(found.matched);
    if (matched < keys.size()) {
      const NodeId leaf = tree->add_leaf(found.node, std::span(keys).subspan(matched), 1, priority);
      tree->stamp(leaf, tree->next_tick());
      tree->set_created(leaf, tree->next_tick());
      write_slots(tree->node(leaf), rest_of(slots, matched));
    }
    result.matched = tokens(found.matched);
    return result;
  }
  // As SGLang's caller does: what was matched is held while the shortfall is evicted.
  void make_room(std::string_view name, const Keys& keys) {
    if (options.capacity == 0) return;
    const NodeId root = find_root(name);
    const Match found = root == kNoNode ? Match{} : tree->match(root, keys);
    const int64_t total = tokens(tree->token_count());
    const int64_t added = tokens(static_cast<int64_t>(keys.size()) - found.matched);
    const int64_t over = total + added - options.capacity;
    if (over <= 0) return;
    if (root != kNoNode) tree->lock(found.node);
    evict(over);
    if (root != kNoNode) tree->remove_lock(found.node);
  }
  std::span<const int64_t> rest_of(std::span<const int64_t> slots, size_t matched) const {
    return slots.empty() ? slots : slots.subspan(matched * static_cast<size_t>(options.page));
  }

  // --- the engine's own way: attach, compute, unlock ---
  SimulatorResult insert_default(std::string_view name, const Keys& keys, int16_t priority,
                                 std::span<const int64_t> slots, bool with_slots) {
    SimulatorResult result;
    if (keys.empty()) return result;
    const Match found = tree->match(root_of(name), keys);
    const Recording recording(*this, with_slots ? &result.freed : nullptr);
    const NodeId node = tree->attach(found, keys, {.priority = priority});
    try {
      if (static_cast<size_t>(found.matched) < keys.size()) {
        tree->set_computed(node, tree->node(node).length);
        if (with_slots)
          write_slots(tree->node(node), rest_of(slots, static_cast<size_t>(found.matched)));
      }
    } catch (...) {  // without its slots it is of no use, but must not stay held
      tree->unlock(node, true);
      throw;
    }
    tree->unlock(node, true);
    result.matched = tokens(found.matched);
    return result;
  }

  int64_t evict(int64_t n) {
    const int64_t before = tree->token_count();
    const auto left = [&] { return n - tokens(before - tree->token_count()); };
    while (left() > 0) {
      const NodeId id = tree->victim();
      if (id == kNoNode) break;
      if (options.compat) {
        tree->evict(id);
      } else {
        const int64_t keys = (left() + options.page - 1) / options.page;
        const int64_t pages = (keys + kPageTokens - 1) / kPageTokens;
        tree->evict_tail(id, static_cast<int32_t>(std::min<int64_t>(pages, kUnlimitedPages)));
      }
    }
    return tokens(before - tree->token_count());
  }

  // The deepest node that the keys match, with its end where they part.
  Match reach(std::string_view name, const Keys& keys) {
    const NodeId root = find_root(name);
    if (keys.empty()) return {root, 0, 0, 0};
    if (options.compat) return walk(root, keys, false, 0);
    return root == kNoNode ? Match{} : tree->match(root, keys);
  }

  SimulatorOptions options;
  std::unique_ptr<PagePool> pool;
  std::unique_ptr<Tree> tree;
  std::unordered_map<std::string, int32_t> numbers;  // page of atoms -> key
  std::vector<const std::string*> texts;             // key -> page of atoms
  std::map<std::string, NodeId> roots;
  std::vector<std::string> names;  // in order of creation
  std::vector<int64_t> slot_numbers;
  int64_t next_slot = 0;
  std::vector<int64_t>* freed = nullptr;  // where evicted slots go
};

Simulator::Simulator(const SimulatorOptions& options) : impl_(std::make_unique<Impl>(options)) {}
Simulator::~Simulator() = default;

SimulatorResult Simulator::match(std::string_view name_space, std::span<const int32_t> tokens) {
  const Match found = impl_->reach(name_space, impl_->keys_of(tokens));
  if (found.matched == 0) return {};
  return {impl_->tokens(found.matched), impl_->path_slots(found.node, found.matched), {}};
}

SimulatorResult Simulator::insert(std::string_view name_space, std::span<const int32_t> tokens,
                                  int32_t priority, std::span<const int64_t> slots) {
  if (priority < std::numeric_limits<int16_t>::min() ||
      priority > std::numeric_limits<int16_t>::max())
    fail(Code::kOutOfRange, "priority is ", priority, "; it must lie in [-32768, 32767]");
  const Impl::Keys keys = impl_->keys_of(tokens);
  const int64_t wanted = impl_->tokens(static_cast<int64_t>(keys.size()));
  if (!slots.empty() && static_cast<int64_t>(slots.size()) != wanted)
    fail(Code::kInvalidArgument, "slots has ", slots.size(), " numbers; the whole pages have ",
         wanted, " tokens");
  const auto of = static_cast<int16_t>(priority);
  return impl_->options.compat ? impl_->insert_compat(name_space, keys, of, slots)
                               : impl_->insert_default(name_space, keys, of, slots, true);
}

SimulatorResult Simulator::lock(std::string_view name_space, std::span<const int32_t> tokens) {
  const Match found = impl_->reach(name_space, impl_->keys_of(tokens));
  if (found.matched == 0) return {};
  Tree& tree = *impl_->tree;
  const NodeId node = tree.end_at(found.node, found.matched);
  tree.lock(node);
  return {impl_->tokens(found.matched), impl_->path_slots(node, found.matched), {}};
}

SimulatorResult Simulator::unlock(std::string_view name_space, std::span<const int32_t> tokens) {
  const Match found = impl_->reach(name_space, impl_->keys_of(tokens));
  if (found.matched == 0) return {};
  Tree& tree = *impl_->tree;
  const Node& n = tree.node(found.node);
  // SGLang lets go of any node that somebody holds; here it must be the one that was locked.
  bool locked = impl_->options.compat || (n.locks > 0 && found.offset == n.length);
  for (NodeId id = found.node; tree.node(id).length > 0; id = tree.node(id).parent)
    locked = locked && tree.node(id).held > 0;
  if (!locked)
    fail(Code::kMisuse, "there is no lock after ", impl_->tokens(found.matched), " tokens");
  SimulatorResult result{
      impl_->tokens(found.matched), impl_->path_slots(found.node, found.matched), {}};
  tree.remove_lock(found.node);
  return result;
}

SimulatorResult Simulator::evict(int64_t n) {
  SimulatorResult result;
  const Impl::Recording recording(*impl_, &result.freed);
  impl_->evict(n);
  return result;
}

void Simulator::reset() { impl_->reset(); }

int64_t Simulator::request(std::string_view name_space, std::span<const int32_t> tokens,
                           int64_t prompt) {
  const auto given = static_cast<size_t>(
      std::min<int64_t>(std::max<int64_t>(prompt, 0), static_cast<int64_t>(tokens.size())));
  const Match found = impl_->reach(name_space, impl_->keys_of(tokens.first(given)));
  const int64_t reused =
      std::max<int64_t>(0, std::min(impl_->tokens(found.matched), static_cast<int64_t>(given) - 1));
  const Impl::Keys keys = impl_->keys_of(tokens);
  if (impl_->options.compat) {
    impl_->insert_compat(name_space, keys, 0, {});
    return reused;
  }
  try {
    impl_->insert_default(name_space, keys, 0, {}, false);
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
      for (const int32_t key : tree.tokens(n)) impl_->append_tokens(key, step.path);
      if (n.length > 0) {
        SimulatorNode out{.path = step.path, .name_space = name};
        impl_->read_slots(n, 0, n.length, out.slots);
        out.length = impl_->tokens(n.length);
        out.locks = n.held;
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
int64_t Simulator::evictions() const { return impl_->tree->evictions(); }
size_t Simulator::nodes() const { return impl_->tree->node_count() - impl_->names.size(); }
void Simulator::check() const { impl_->tree->check(); }

}  // namespace prefix
