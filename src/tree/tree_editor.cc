#include "tree/tree_editor.h"

#include <algorithm>

namespace prefix {

void TreeEditor::prepare(int32_t nodes, int32_t pages) {
  tree_.prepare(nodes, pages);
  // A leaf that goes may leave its parent as one.
  tree_.common_.prepare(tree_.nodes_.live() + static_cast<size_t>(nodes));
}

NodeId TreeEditor::add_leaf(NodeId parent, std::span<const int32_t> tokens, uint32_t uses,
                            int16_t priority) {
  const NodeId id = tree_.branch(parent, tokens);
  Node& n = tree_.nodes_[id];
  n.uses = uses;
  n.priority = priority;
  n.computed = n.length;
  tree_.update_queue(id);
  return id;
}

void TreeEditor::set_last_use(NodeId id, int64_t tick) {
  edit(id, [&](Node& n) { n.last_use = tick; });
}

void TreeEditor::count_use(NodeId id) {
  edit(id, [](Node& n) { ++n.uses; });
}

void TreeEditor::raise_priority(NodeId id, int16_t priority) {
  edit(id, [&](Node& n) { n.priority = std::max(n.priority, priority); });
}

}  // namespace prefix
