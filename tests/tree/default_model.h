// A naive model of the simulator in default mode, written from its rules and sharing nothing with
// src/tree but the types of the results. It prefers plain over fast: nodes hold their tokens, and a
// victim is found by looking at every leaf.
//
//   - The capacity counts tokens, in whole pages. An insertion that needs room takes exactly what
//   is
//     missing: the last pages of the leaf that goes first, then of the next one. What it continues,
//     what is held and what has children stays. If that does not suffice, nothing changes.
//   - A lookup changes nothing. An insertion reads the clock twice: as it begins, which is when
//   its
//     new node is made, and as it ends, which is the last use of its whole path. It is one use of
//     it.
//   - The upper half of a split is as old, as used and as held as the lower one.
//   - A lock holds the path to the end of what matches; an unlock needs a lock that ends there.
//
// Under gdsf leaves of equal worth may go in any order: the model follows the slots that went, and
// demands that they are the end of a leaf that may go.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tree/simulator.h"

namespace prefix::testing_support {

class DefaultModel {
 public:
  explicit DefaultModel(const SimulatorOptions& options);

  SimulatorResult match(std::string_view name_space, std::span<const int32_t> tokens);
  // `freed`: what the simulator gave up, for gdsf. with_slots: false for a request of a trace.
  SimulatorResult insert(std::string_view name_space, std::span<const int32_t> tokens,
                         int32_t priority, std::span<const int64_t> freed, bool with_slots = true);
  SimulatorResult lock(std::string_view name_space, std::span<const int32_t> tokens);
  SimulatorResult unlock(std::string_view name_space, std::span<const int32_t> tokens);
  SimulatorResult evict(int64_t n, std::span<const int64_t> freed);
  void reset();
  int64_t request(std::string_view name_space, std::span<const int32_t> tokens, int64_t prompt);

  std::vector<SimulatorNode> dump() const;
  int64_t total() const;
  int64_t protected_() const;
  int64_t tick() const { return tick_; }
  int64_t evictions() const { return evictions_; }

 private:
  using Atoms = std::vector<int64_t>;
  struct Node {
    Node* parent = nullptr;
    std::vector<std::unique_ptr<Node>> children;  // by age
    Atoms atoms;
    std::vector<int64_t> slots;
    int64_t locks = 0;  // that end here
    int64_t held = 0;   // that end here or below
    int64_t last_use = 0;
    int64_t created = 0;
    int64_t uses = 0;
    int64_t priority = 0;
  };
  struct Space {
    std::string name;
    std::unique_ptr<Node> root;
  };
  struct Place {
    Node* node = nullptr;  // null: there is no such namespace
    size_t offset = 0;     // atoms of its edge that match
    size_t matched = 0;    // atoms in all
  };

  Atoms atoms_of(std::span<const int32_t> tokens) const;
  Place find(std::string_view name_space, const Atoms& atoms) const;
  SimulatorResult found(const Place& place) const;
  Node* split(Node* node, size_t offset);
  template <typename Visit>
  void visit(const Node& node, const Visit& f) const;
  template <typename Visit>
  void visit_all(const Visit& f) const;
  std::vector<int64_t> rank(const Node& node) const;
  Node* victim(std::span<const int64_t> freed) const;
  void make_room(int64_t tokens, std::vector<int64_t>& freed, std::span<const int64_t> hint);
  void list(const Node& node, std::vector<int32_t> path, const std::string& name,
            std::vector<SimulatorNode>& out) const;

  SimulatorOptions options_;
  std::vector<Space> spaces_;
  int64_t tick_ = 0;
  int64_t next_slot_ = 0;
  int64_t evictions_ = 0;
};

}  // namespace prefix::testing_support
