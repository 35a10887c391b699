// The roots of the tree that requests share, by namespace and rotary regime.
//
//   namespace 0 ─┬─ base regime ──> root          a model with two rotary regimes computes other
//                └─ long regime ──> root          keys for long contexts, so these share nothing
//   namespace 1 ─── base regime ──> root          with short ones
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "model/model.h"
#include "tree/tree.h"

namespace prefix {

class Roots {
 public:
  Roots(const Model& model, Tree& tree) : model_(model), tree_(tree) {}

  // The root for sequences of at most `length` tokens; made when there is none yet. A namespace has
  // one adapter for good, or none (0).
  NodeId root_of(int32_t name_space, int32_t length, int32_t adapter) {
    const auto [at, is_new] = roots_.try_emplace(key_of(name_space, length), kNoNode);
    if (!is_new) return at->second;
    try {
      return at->second = tree_.add_root(model_.rope_offset(length), name_space, adapter);
    } catch (...) {
      roots_.erase(at);
      throw;
    }
  }
  // The same, kNoNode when there is none yet.
  NodeId find(int32_t name_space, int32_t length) const {
    const auto found = roots_.find(key_of(name_space, length));
    return found != roots_.end() ? found->second : kNoNode;
  }
  // f(root) for one of each regime that was used.
  template <typename F>
  void for_each(int32_t name_space, const F& f) const {
    for (auto at = roots_.lower_bound(int64_t{name_space} << 32);
         at != roots_.end() && at->first >> 32 == name_space; ++at)
      f(at->second);
  }
  std::vector<NodeId> roots_of(int32_t name_space) const {
    std::vector<NodeId> roots;
    for_each(name_space, [&](NodeId root) { roots.push_back(root); });
    return roots;
  }
  std::vector<NodeId> all() const {
    std::vector<NodeId> roots;
    for (const auto& [key, root] : roots_) roots.push_back(root);
    return roots;
  }
  // Without children all of them.
  void remove(int32_t name_space) {
    const auto begin = roots_.lower_bound(int64_t{name_space} << 32);
    auto end = begin;
    for (; end != roots_.end() && end->first >> 32 == name_space; ++end)
      tree_.remove_root(end->second);
    roots_.erase(begin, end);
  }

 private:
  int64_t key_of(int32_t name_space, int32_t length) const {
    const int32_t offset = model_.rope_offset(length);
    return static_cast<int64_t>(name_space) << 32 | static_cast<uint32_t>(offset);
  }

  const Model& model_;
  Tree& tree_;
  std::map<int64_t, NodeId> roots_;  // key: namespace in the upper half, offset of the regime below
};

}  // namespace prefix
