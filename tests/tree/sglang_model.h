// A second, naive implementation of section 3 of the reference on radix caches: what SGLang's tree
// does, operation by operation. It exists to be compared with prefix::Simulator in compat mode, so
// it shares nothing with src/tree but the types of the results, and it prefers plain over fast:
//
//   root ── map of (namespace, first page) ──> node: key [a b c d], value [0 1 2 3], times, counts
//                                                └─ map of (namespace, first page) ──> node ...
//
// There is one root for all namespaces. Victims are found by sorting every evictable leaf, once
// more after each one that went.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tree/simulator.h"

namespace prefix::testing_support {

class SglangModel {
 public:
  explicit SglangModel(const SimulatorOptions& options);

  SimulatorResult match(std::string_view name_space, std::span<const int32_t> tokens);
  SimulatorResult insert(std::string_view name_space, std::span<const int32_t> tokens,
                         int32_t priority = 0, std::span<const int64_t> slots = {});
  SimulatorResult lock(std::string_view name_space, std::span<const int32_t> tokens);
  SimulatorResult unlock(std::string_view name_space, std::span<const int32_t> tokens);
  SimulatorResult evict(int64_t n);
  void reset();

  std::vector<SimulatorNode> dump() const;
  int64_t evictable() const { return evictable_; }
  int64_t protected_() const { return protected_size_; }
  int64_t total() const { return evictable_ + protected_size_; }
  int64_t tick() const { return tick_; }
  size_t nodes() const;
  // Throws kInternal when one of the invariants I1 to I5 of section 4 does not hold.
  void check() const;

 private:
  using Atom = std::pair<int32_t, int32_t>;  // with bigrams two neighbours, else (token, 0)
  using Key = std::vector<Atom>;
  using ChildKey = std::pair<std::string, Key>;

  struct Node {
    Node* parent = nullptr;
    std::map<ChildKey, std::unique_ptr<Node>> children;
    std::string name_space;
    Key key;
    std::vector<int64_t> value;
    int64_t lock_ref = 0;
    int64_t holders = 0;  // locks less unlocks of this node itself, only for I2
    int64_t access = 0;
    int64_t creation = 0;
    int64_t hits = 0;
    int64_t priority = 0;
    int64_t place = 0;  // among its siblings in a dump; a split hands it on
  };

  struct Walk {
    Node* node;
    size_t length;  // atoms from the root to the end of the node
  };

  Key key_of(std::span<const int32_t> tokens) const;
  ChildKey child_key(const std::string& name_space, const Key& key) const;
  size_t common_pages(const Key& a, std::span<const Atom> b) const;
  std::unique_ptr<Node> make_node();
  // Follows the key and sets the time of every node it enters; splits where the key leaves an edge.
  // Calls `entered` with each node that lies on the key, the upper half after a split.
  template <typename Entered>
  Walk walk(const std::string& name_space, const Key& key, int64_t time, Entered entered);
  Walk find(std::string_view name_space, std::span<const int32_t> tokens);
  Node* split(Node* child, size_t n);
  Node* add_leaf(Node* parent, const std::string& name_space, Key key, int32_t priority);
  void update_leaf_status(Node* node);
  SimulatorResult found(const Walk& walk) const;
  std::pair<int64_t, int64_t> rank(const Node& node) const;
  Node* next_victim() const;
  void remove(Node* leaf);
  void list(const Node& node, std::vector<int32_t> path, const std::string* name_space,
            std::vector<SimulatorNode>& out) const;
  size_t check_below(const Node& node, int64_t& tokens, std::set<const Node*>& leaves) const;

  SimulatorOptions options_;
  std::unique_ptr<Node> root_;
  std::set<Node*> evictable_leaves_;
  std::vector<std::string> name_spaces_;  // in the order in which they got their first node
  int64_t evictable_ = 0;
  int64_t protected_size_ = 0;
  int64_t tick_ = 0;
  int64_t next_slot_ = 0;
  int64_t next_place_ = 0;
};

}  // namespace prefix::testing_support
