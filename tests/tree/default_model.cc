#include "tree/default_model.h"

#include <algorithm>
#include <utility>

#include "base/status.h"

namespace prefix::testing_support {

DefaultModel::DefaultModel(const SimulatorOptions& options) : options_(options) {}

void DefaultModel::reset() { spaces_.clear(); }

DefaultModel::Atoms DefaultModel::atoms_of(std::span<const int32_t> tokens) const {
  Atoms atoms;
  if (options_.bigram)
    for (size_t i = 1; i < tokens.size(); ++i)
      atoms.push_back(int64_t{tokens[i - 1]} << 32 | tokens[i]);
  else
    atoms.assign(tokens.begin(), tokens.end());
  atoms.resize(atoms.size() - atoms.size() % static_cast<size_t>(options_.page));
  return atoms;
}

template <typename Visit>
void DefaultModel::visit(const Node& node, const Visit& f) const {
  f(node);
  for (const auto& child : node.children) visit(*child, f);
}

template <typename Visit>
void DefaultModel::visit_all(const Visit& f) const {
  for (const Space& space : spaces_)
    for (const auto& child : space.root->children) visit(*child, f);
}

int64_t DefaultModel::total() const {
  int64_t sum = 0;
  visit_all([&](const Node& n) { sum += static_cast<int64_t>(n.atoms.size()); });
  return sum;
}

int64_t DefaultModel::protected_() const {
  int64_t sum = 0;
  visit_all([&](const Node& n) { sum += n.held > 0 ? static_cast<int64_t>(n.atoms.size()) : 0; });
  return sum;
}

DefaultModel::Place DefaultModel::find(std::string_view name_space, const Atoms& atoms) const {
  Place at;
  for (const Space& space : spaces_)
    if (space.name == name_space) at.node = space.root.get();
  if (!at.node) return at;
  const auto page = static_cast<size_t>(options_.page);
  for (;;) {
    Node* next = nullptr;
    size_t same = 0;
    for (const auto& child : at.node->children) {
      const auto [a, b] =
          std::mismatch(child->atoms.begin(), child->atoms.end(),
                        atoms.begin() + static_cast<ptrdiff_t>(at.matched), atoms.end());
      same = static_cast<size_t>(a - child->atoms.begin()) / page * page;
      if (same == 0) continue;
      next = child.get();
      break;
    }
    if (!next) return at;
    at = {next, same, at.matched + same};
    if (same < next->atoms.size()) return at;
  }
}

SimulatorResult DefaultModel::found(const Place& place) const {
  SimulatorResult result;
  result.matched = static_cast<int64_t>(place.matched);
  for (const Node* n = place.node; n; n = n->parent)
    result.slots.insert(result.slots.begin(), n->slots.begin(), n->slots.end());
  result.slots.resize(place.matched);
  return result;
}

DefaultModel::Node* DefaultModel::split(Node* node, size_t offset) {
  auto upper = std::make_unique<Node>();
  Node* const result = upper.get();
  const auto cut = static_cast<ptrdiff_t>(offset);
  upper->parent = node->parent;
  upper->atoms.assign(node->atoms.begin(), node->atoms.begin() + cut);
  upper->slots.assign(node->slots.begin(), node->slots.begin() + cut);
  upper->held = node->held;
  upper->last_use = node->last_use;
  upper->created = node->created;
  upper->uses = node->uses;
  upper->priority = node->priority;
  node->atoms.erase(node->atoms.begin(), node->atoms.begin() + cut);
  node->slots.erase(node->slots.begin(), node->slots.begin() + cut);
  auto& siblings = node->parent->children;
  const auto place = std::find_if(siblings.begin(), siblings.end(),
                                  [&](const auto& child) { return child.get() == node; });
  node->parent = result;
  result->children.push_back(std::exchange(*place, std::move(upper)));
  return result;
}

SimulatorResult DefaultModel::match(std::string_view name_space, std::span<const int32_t> tokens) {
  return found(find(name_space, atoms_of(tokens)));
}

SimulatorResult DefaultModel::insert(std::string_view name_space, std::span<const int32_t> tokens,
                                     int32_t priority, std::span<const int64_t> freed,
                                     bool with_slots) {
  const Atoms atoms = atoms_of(tokens);
  SimulatorResult result;
  if (atoms.empty()) return result;
  Place at = find(name_space, atoms);
  const auto added = static_cast<int64_t>(atoms.size() - at.matched);
  int64_t over = 0;
  if (options_.capacity > 0) {
    int64_t fixed = protected_();
    size_t end = at.offset;
    for (const Node* n = at.node; n && n->parent; n = n->parent, end = n ? n->atoms.size() : 0)
      if (n->held == 0) fixed += static_cast<int64_t>(end);
    const int64_t room = options_.capacity / options_.page * options_.page;
    if (fixed + added > room) fail(Code::kCacheFull, "it does not fit");
    over = total() + added - room;
  }
  if (!at.node) {
    spaces_.push_back({std::string(name_space), std::make_unique<Node>()});
    at.node = spaces_.back().root.get();
  }
  if (at.offset < at.node->atoms.size()) at.node = split(at.node, at.offset);
  if (over > 0) {
    for (Node* n = at.node; n; n = n->parent) ++n->held;
    make_room(over, result.freed, freed);
    for (Node* n = at.node; n; n = n->parent) --n->held;
  }
  ++tick_;
  for (Node* n = at.node; n; n = n->parent) {
    ++n->uses;
    n->priority = std::max<int64_t>(n->priority, priority);
  }
  if (added > 0) {
    auto leaf = std::make_unique<Node>();
    leaf->parent = at.node;
    leaf->atoms.assign(atoms.begin() + static_cast<ptrdiff_t>(at.matched), atoms.end());
    leaf->created = tick_;
    leaf->uses = 1;
    leaf->priority = priority;
    for (int64_t i = 0; i < added; ++i) leaf->slots.push_back(with_slots ? next_slot_++ : -1);
    at.node->children.push_back(std::move(leaf));
    at.node = at.node->children.back().get();
  }
  ++tick_;
  for (Node* n = at.node; n; n = n->parent) n->last_use = tick_;
  result.matched = static_cast<int64_t>(at.matched);
  if (!with_slots) result.freed.clear();
  return result;
}

SimulatorResult DefaultModel::lock(std::string_view name_space, std::span<const int32_t> tokens) {
  Place at = find(name_space, atoms_of(tokens));
  SimulatorResult result = found(at);
  if (at.matched == 0) return result;
  if (at.offset < at.node->atoms.size()) at.node = split(at.node, at.offset);
  ++at.node->locks;
  for (Node* n = at.node; n; n = n->parent) ++n->held;
  return result;
}

SimulatorResult DefaultModel::unlock(std::string_view name_space, std::span<const int32_t> tokens) {
  const Place at = find(name_space, atoms_of(tokens));
  if (at.matched == 0) return {};
  if (at.node->locks == 0 || at.offset < at.node->atoms.size())
    fail(Code::kMisuse, "no lock ends there");
  --at.node->locks;
  for (Node* n = at.node; n; n = n->parent) --n->held;
  return found(at);
}

std::vector<int64_t> DefaultModel::rank(const Node& n) const {
  switch (options_.policy) {
    case Policy::kLfu:
      return {n.uses, n.last_use};
    case Policy::kFifo:
      return {n.created};
    case Policy::kMru:
      return {-n.last_use};
    case Policy::kFilo:
      return {-n.created};
    case Policy::kSlru:
      return {n.uses >= 2 ? 1 : 0, n.last_use};
    case Policy::kPriority:
      return {n.priority, n.last_use};
    default:
      return {n.last_use};
  }
}

DefaultModel::Node* DefaultModel::victim(std::span<const int64_t> freed) const {
  const Node* best = nullptr;
  visit_all([&](const Node& n) {
    if (n.held > 0 || !n.children.empty()) return;
    if (options_.policy == Policy::kGdsf) {
      if (!freed.empty() && std::count(n.slots.begin(), n.slots.end(), freed.front())) best = &n;
    } else if (!best || rank(n) < rank(*best)) {
      best = &n;
    }
  });
  return const_cast<Node*>(best);
}

// hint: the slots that went, in order, for gdsf.
void DefaultModel::make_room(int64_t tokens, std::vector<int64_t>& freed,
                             std::span<const int64_t> hint) {
  const int64_t page = options_.page;
  int64_t left = (tokens + page - 1) / page * page;
  while (left > 0) {
    Node* const node = victim(hint.subspan(std::min(hint.size(), freed.size())));
    if (!node) return;
    const auto length = static_cast<int64_t>(node->atoms.size());
    const auto keep = static_cast<size_t>(std::max<int64_t>(0, length - left));
    freed.insert(freed.end(), node->slots.begin() + static_cast<ptrdiff_t>(keep),
                 node->slots.end());
    left -= length - static_cast<int64_t>(keep);
    node->atoms.resize(keep);
    node->slots.resize(keep);
    if (keep > 0) return;
    ++evictions_;
    std::erase_if(node->parent->children, [&](const auto& child) { return child.get() == node; });
  }
}

SimulatorResult DefaultModel::evict(int64_t n, std::span<const int64_t> freed) {
  SimulatorResult result;
  make_room(n, result.freed, freed);
  return result;
}

int64_t DefaultModel::request(std::string_view name_space, std::span<const int32_t> tokens,
                              int64_t prompt) {
  const Place at = find(name_space, atoms_of(tokens.first(static_cast<size_t>(prompt))));
  try {
    insert(name_space, tokens, 0, {}, false);
  } catch (const Error& e) {
    PREFIX_CHECK(e.code() == Code::kCacheFull);
  }
  return std::max<int64_t>(0, std::min(static_cast<int64_t>(at.matched), prompt - 1));
}

std::vector<SimulatorNode> DefaultModel::dump() const {
  std::vector<SimulatorNode> out;
  for (const Space& space : spaces_)
    for (const auto& child : space.root->children) list(*child, {}, space.name, out);
  return out;
}

void DefaultModel::list(const Node& node, std::vector<int32_t> path, const std::string& name,
                        std::vector<SimulatorNode>& out) const {
  if (options_.bigram && path.empty()) path.push_back(static_cast<int32_t>(node.atoms[0] >> 32));
  for (const int64_t atom : node.atoms) path.push_back(static_cast<int32_t>(atom & INT32_MAX));
  out.push_back({path, name, node.slots, static_cast<int64_t>(node.atoms.size()), node.held,
                 node.uses, node.priority, node.last_use, node.created});
  for (const auto& child : node.children) list(*child, path, name, out);
}

}  // namespace prefix::testing_support
