#include "tree/sglang_model.h"

#include <algorithm>
#include <utility>

#include "base/status.h"

namespace prefix::testing_support {

SglangModel::SglangModel(const SimulatorOptions& options) : options_(options) { reset(); }

// The clock and the numbers of slots go on: they count what ever happened.
void SglangModel::reset() {
  evictable_leaves_.clear();
  name_spaces_.clear();
  evictable_ = 0;
  protected_size_ = 0;
  root_ = make_node();
  root_->lock_ref = 1;
}

// 3.2: atoms of the tokens, floored to whole pages.
SglangModel::Key SglangModel::key_of(std::span<const int32_t> tokens) const {
  Key key;
  if (options_.bigram) {
    for (size_t i = 1; i < tokens.size(); ++i) key.emplace_back(tokens[i - 1], tokens[i]);
  } else {
    for (const int32_t token : tokens) key.emplace_back(token, 0);
  }
  key.resize(key.size() - key.size() % static_cast<size_t>(options_.page));
  return key;
}

SglangModel::ChildKey SglangModel::child_key(const std::string& name_space, const Key& key) const {
  return {name_space, Key(key.begin(), key.begin() + options_.page)};
}

size_t SglangModel::common_pages(const Key& a, std::span<const Atom> b) const {
  size_t n = 0;
  while (n < a.size() && n < b.size() && a[n] == b[n]) ++n;
  return n - n % static_cast<size_t>(options_.page);
}

// 3.9: every node reads the clock twice, for its access and then for its creation.
std::unique_ptr<SglangModel::Node> SglangModel::make_node() {
  auto node = std::make_unique<Node>();
  node->access = ++tick_;
  node->creation = ++tick_;
  return node;
}

template <typename Entered>
SglangModel::Walk SglangModel::walk(const std::string& name_space, const Key& key, int64_t time,
                                    Entered entered) {
  Walk at{root_.get(), 0};
  root_->access = time;
  while (at.length < key.size()) {
    const Key rest(key.begin() + static_cast<ptrdiff_t>(at.length), key.end());
    const auto child = at.node->children.find(child_key(name_space, rest));
    if (child == at.node->children.end()) break;
    Node* node = child->second.get();
    node->access = time;  // before the comparison: the part that does not match is refreshed too
    const size_t n = common_pages(node->key, rest);
    const bool partial = n < node->key.size();
    if (partial) node = split(node, n);
    entered(*node);
    at = {node, at.length + n};
    if (partial) break;
  }
  return at;
}

// 3.3
SglangModel::Walk SglangModel::find(std::string_view name_space, std::span<const int32_t> tokens) {
  const Key key = key_of(tokens);
  if (key.empty()) return {root_.get(), 0};  // without reading the clock
  const int64_t time = ++tick_;
  return walk(std::string(name_space), key, time, [](Node&) {});
}

// 3.4: the new node takes the upper part and the place of the old one, which keeps its times.
SglangModel::Node* SglangModel::split(Node* child, size_t n) {
  Node* parent = child->parent;
  const auto cut = static_cast<ptrdiff_t>(n);
  std::unique_ptr<Node> upper = make_node();
  Node* result = upper.get();
  upper->parent = parent;
  upper->name_space = child->name_space;
  upper->key.assign(child->key.begin(), child->key.begin() + cut);
  upper->value.assign(child->value.begin(), child->value.begin() + cut);
  upper->lock_ref = child->lock_ref;
  upper->hits = child->hits;
  upper->priority = child->priority;
  upper->place = child->place;
  std::unique_ptr<Node>& entry = parent->children.at(child_key(child->name_space, child->key));
  std::unique_ptr<Node> lower = std::exchange(entry, std::move(upper));
  child->key.erase(child->key.begin(), child->key.begin() + cut);
  child->value.erase(child->value.begin(), child->value.begin() + cut);
  child->parent = result;
  result->children[child_key(child->name_space, child->key)] = std::move(lower);
  return result;
}

SglangModel::Node* SglangModel::add_leaf(Node* parent, const std::string& name_space, Key key,
                                         int32_t priority) {
  std::unique_ptr<Node> leaf = make_node();
  Node* result = leaf.get();
  leaf->parent = parent;
  leaf->name_space = name_space;
  leaf->key = std::move(key);
  leaf->hits = 1;
  leaf->priority = priority;
  leaf->place = next_place_++;
  evictable_ += static_cast<int64_t>(leaf->key.size());
  parent->children[child_key(name_space, leaf->key)] = std::move(leaf);
  if (std::find(name_spaces_.begin(), name_spaces_.end(), name_space) == name_spaces_.end())
    name_spaces_.push_back(name_space);
  update_leaf_status(parent);
  update_leaf_status(result);
  return result;
}

// 3.6. A node is never evicted without being deleted here: there is no second tier.
void SglangModel::update_leaf_status(Node* node) {
  if (node->lock_ref > 0 || !node->children.empty())
    evictable_leaves_.erase(node);
  else
    evictable_leaves_.insert(node);
}

SimulatorResult SglangModel::found(const Walk& walk) const {
  SimulatorResult result;
  result.matched = static_cast<int64_t>(walk.length);
  for (const Node* n = walk.node; n != root_.get(); n = n->parent)
    result.slots.insert(result.slots.begin(), n->value.begin(), n->value.end());
  return result;
}

SimulatorResult SglangModel::match(std::string_view name_space, std::span<const int32_t> tokens) {
  return found(find(name_space, tokens));
}

// 3.5
SimulatorResult SglangModel::insert(std::string_view name_space, std::span<const int32_t> tokens,
                                    int32_t priority, std::span<const int64_t> slots) {
  const Key key = key_of(tokens);
  const std::string name(name_space);
  PREFIX_CHECK(slots.empty() || slots.size() == key.size());
  const int64_t time = ++tick_;  // even for an empty key
  const Walk at = walk(name, key, time, [&](Node& node) {
    node.priority = std::max<int64_t>(node.priority, priority);
    ++node.hits;
  });
  if (at.length < key.size()) {
    const Key rest(key.begin() + static_cast<ptrdiff_t>(at.length), key.end());
    Node* leaf = add_leaf(at.node, name, rest, priority);
    for (size_t i = at.length; i < key.size(); ++i, ++next_slot_)
      leaf->value.push_back(slots.empty() ? next_slot_ : slots[i]);
  }
  SimulatorResult result;
  result.matched = static_cast<int64_t>(at.length);
  return result;
}

// 3.6
SimulatorResult SglangModel::lock(std::string_view name_space, std::span<const int32_t> tokens) {
  const Walk at = find(name_space, tokens);
  if (at.node != root_.get()) ++at.node->holders;
  for (Node* n = at.node; n != root_.get(); n = n->parent) {
    if (n->lock_ref == 0) {
      evictable_ -= static_cast<int64_t>(n->key.size());
      protected_size_ += static_cast<int64_t>(n->key.size());
    }
    ++n->lock_ref;
    update_leaf_status(n);
  }
  return found(at);
}

SimulatorResult SglangModel::unlock(std::string_view name_space, std::span<const int32_t> tokens) {
  const Walk at = find(name_space, tokens);
  if (at.node == root_.get()) return found(at);
  // Python would count below 0. Not only the last node can be at 0: whoever lets go of a node above
  // one that is locked takes away what that lock counts there.
  for (const Node* n = at.node; n != root_.get(); n = n->parent)
    if (n->lock_ref == 0) fail(Code::kMisuse, "no lock after ", at.length, " tokens");
  --at.node->holders;
  for (Node* n = at.node; n != root_.get(); n = n->parent) {
    if (n->lock_ref == 1) {
      evictable_ += static_cast<int64_t>(n->key.size());
      protected_size_ -= static_cast<int64_t>(n->key.size());
    }
    --n->lock_ref;
    update_leaf_status(n);
  }
  return found(at);
}

// 3.7: the smallest goes first. The last use decides between equal keys.
std::pair<int64_t, int64_t> SglangModel::rank(const Node& node) const {
  switch (options_.policy) {
    case Policy::kLru:
      return {0, node.access};
    case Policy::kLfu:
      return {node.hits, node.access};
    case Policy::kFifo:
      return {node.creation, node.access};
    case Policy::kMru:
      return {-node.access, 0};
    case Policy::kFilo:
      return {-node.creation, node.access};
    case Policy::kSlru:
      return {node.hits >= 2 ? 1 : 0, node.access};
    case Policy::kPriority:
      return {node.priority, node.access};
    case Policy::kGdsf:
    case Policy::kGds:
    case Policy::kMarconi:
      break;
  }
  fail(Code::kInvalidArgument, "SGLang has no policy ", policy_name(options_.policy));
}

SglangModel::Node* SglangModel::next_victim() const {
  std::vector<std::pair<std::pair<int64_t, int64_t>, Node*>> order;
  for (Node* leaf : evictable_leaves_) order.emplace_back(rank(*leaf), leaf);
  std::sort(order.begin(), order.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  return order.empty() ? nullptr : order.front().second;
}

void SglangModel::remove(Node* leaf) {
  Node* parent = leaf->parent;
  evictable_leaves_.erase(leaf);
  evictable_ -= static_cast<int64_t>(leaf->key.size());
  parent->children.erase(child_key(leaf->name_space, leaf->key));
  update_leaf_status(parent);  // the root is locked and so never becomes a leaf
}

SimulatorResult SglangModel::evict(int64_t n) {
  SimulatorResult result;
  while (static_cast<int64_t>(result.freed.size()) < n) {
    Node* leaf = next_victim();
    if (!leaf) break;
    result.freed.insert(result.freed.end(), leaf->value.begin(), leaf->value.end());
    remove(leaf);
  }
  return result;
}

std::vector<SimulatorNode> SglangModel::dump() const {
  std::vector<SimulatorNode> out;
  for (const std::string& name_space : name_spaces_) list(*root_, {}, &name_space, out);
  return out;
}

// name_space: of the children to list; null below the root, where all have the same.
void SglangModel::list(const Node& node, std::vector<int32_t> path, const std::string* name_space,
                       std::vector<SimulatorNode>& out) const {
  if (&node != root_.get()) {
    if (options_.bigram && path.empty()) path.push_back(node.key.front().first);
    for (const Atom& atom : node.key) path.push_back(options_.bigram ? atom.second : atom.first);
    out.push_back({path, node.name_space, node.value, static_cast<int64_t>(node.key.size()),
                   node.lock_ref, node.hits, node.priority, node.access, node.creation});
  }
  std::map<int64_t, const Node*> children;
  for (const auto& [key, child] : node.children)
    if (!name_space || key.first == *name_space) children[child->place] = child.get();
  for (const auto& [place, child] : children) list(*child, path, nullptr, out);
}

size_t SglangModel::nodes() const {
  int64_t tokens = 0;
  std::set<const Node*> leaves;
  return check_below(*root_, tokens, leaves);
}

void SglangModel::check() const {
  int64_t tokens = 0;
  std::set<const Node*> leaves;
  check_below(*root_, tokens, leaves);
  PREFIX_CHECK(tokens == evictable_ + protected_size_);  // I1
  PREFIX_CHECK(leaves ==
               std::set<const Node*>(evictable_leaves_.begin(), evictable_leaves_.end()));  // I3
}

// Returns the number of nodes below; adds up their tokens and collects the evictable leaves.
size_t SglangModel::check_below(const Node& node, int64_t& tokens,
                                std::set<const Node*>& leaves) const {
  size_t count = 0;
  int64_t locks = node.holders;
  for (const auto& [key, child] : node.children) {
    PREFIX_CHECK(child->parent == &node);
    PREFIX_CHECK(!child->key.empty());
    PREFIX_CHECK(child->lock_ref >= 0);
    PREFIX_CHECK(child->key.size() % static_cast<size_t>(options_.page) == 0);  // I5
    PREFIX_CHECK(child->value.size() == child->key.size());                     // I5
    PREFIX_CHECK(key == child_key(child->name_space, child->key));              // I4
    PREFIX_CHECK(&node == root_.get() || key.first == node.name_space);
    if (child->lock_ref == 0 && child->children.empty()) leaves.insert(child.get());
    tokens += static_cast<int64_t>(child->key.size());
    locks += child->lock_ref;
    count += 1 + check_below(*child, tokens, leaves);
  }
  PREFIX_CHECK(&node == root_.get() || locks == node.lock_ref);  // I2
  return count;
}

}  // namespace prefix::testing_support
