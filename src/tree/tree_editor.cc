#include "tree/tree_editor.h"

#include <algorithm>

namespace prefix {

void TreeEditor::prepare(int32_t nodes, int32_t pages) {
  const auto count = static_cast<size_t>(nodes);
  Tree& t = tree_;
  t.nodes_.prepare(count);
  t.children_.prepare(count);
  if (t.roots_.capacity() < t.roots_.size() + count)
    t.roots_.reserve(std::max(t.roots_.size() + count, 2 * t.roots_.capacity()));
  std::vector<int64_t>& created = t.state_.created;
  if (t.keep_created_ && created.capacity() < t.nodes_.room())
    created.reserve(std::max(t.nodes_.room(), 2 * created.capacity()));
  t.common_.prepare(t.nodes_.live() + count);  // a leaf that goes may leave its parent as one
  t.pages_.prepare(pages);
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
