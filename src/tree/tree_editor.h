// Single steps of the tree that keep its structure and leave its rules to the caller: times, uses
// and locks change one by one. For the simulator, which replays the steps of another cache.
#pragma once

#include <cstdint>
#include <span>

#include "tree/tree.h"

namespace prefix {

class TreeEditor {
 public:
  explicit TreeEditor(Tree& tree) : tree_(tree) {}

  int64_t next_tick() { return ++tree_.tick_; }
  void set_tick(int64_t tick) { tree_.tick_ = tick; }

  // After it, so many nodes (with roots) and pages are made without memory, and no leaf goes
  // because there is none to queue it. Leaves out the queues of quotas.
  void prepare(int32_t nodes, int32_t pages);
  // The upper half [0, offset) becomes a new node above; the lower half keeps the id and the locks.
  NodeId split(NodeId id, int32_t offset) { return tree_.split(id, offset); }
  // A computed leaf without locks.
  NodeId add_leaf(NodeId parent, std::span<const int32_t> tokens, uint32_t uses, int16_t priority);
  // Drops a lock and leaves times as they are.
  void remove_lock(NodeId id) { tree_.remove_lock(id); }

  void set_last_use(NodeId id, int64_t tick);
  void set_created(NodeId id, int64_t tick) {
    tree_.state_.created[static_cast<size_t>(id)] = tick;
  }
  void count_use(NodeId id);
  void raise_priority(NodeId id, int16_t priority);

 private:
  // Runs f(node), which may change what its place in the eviction queue depends on.
  template <typename F>
  void edit(NodeId id, const F& f) {
    if (tree_.nodes_[id].queued) tree_.dequeue(id);
    f(tree_.nodes_[id]);
    tree_.update_queue(id);
  }

  Tree& tree_;
};

}  // namespace prefix
