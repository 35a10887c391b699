#include "engine/tree_json.h"

#include <algorithm>
#include <string_view>

#include "base/json_text.h"
#include "base/quote.h"
#include "base/status.h"

namespace prefix {
namespace {

constexpr size_t kMaxParts = 8;  // of a namespace, in its label

}  // namespace

TreeCopy copy_tree(const Tree& tree, const Namespaces& namespaces) {
  TreeCopy copy;
  copy.tokens = tree.token_count();
  copy.nodes.reserve(tree.node_count());
  for (NodeId id = 0; id < tree.node_limit(); ++id) {
    const Node& n = tree.node(id);
    if (n.root < 0) continue;
    copy.nodes.push_back({id, tree.root(n), tree.kept_pages(n), n});
    if (n.parent == kNoNode)
      copy.namespaces.push_back(namespace_label(namespaces.parts(tree.name_space(n))));
  }
  return copy;
}

std::string tree_json(const TreeCopy& tree) {
  JsonText json;
  json.open('{').field("tokens", tree.tokens).key("nodes").open('[');
  auto label = tree.namespaces.begin();
  for (const auto& [id, root, pages, n] : tree.nodes) {
    json.open('{').field("node", id).field("parent", n.parent).field("root", root);
    if (n.parent == kNoNode) json.field("namespace", *label++);
    json.field("start", n.start).field("tokens", n.length).field("computed", n.computed);
    json.field("locks", n.locks).field("held", n.subtree_locks).field("pages", pages);
    json.field("uses", n.uses).field("priority", n.priority).field("last_use", n.last_use);
    json.close('}');
  }
  return json.close(']').close('}').text();
}

std::string namespace_label(const NamespaceParts& parts) {
  if (parts.empty()) return "(default)";
  std::string label;
  for (size_t i = 0; i < std::min(parts.size(), kMaxParts); ++i) {
    const std::string part = quote(parts[i], 60);  // a name may be anything: make it fit to print
    label += cat(i > 0 ? " / " : "", std::string_view(part).substr(1, part.size() - 2));
  }
  if (parts.size() > kMaxParts) label += " / ...";
  return label;
}

}  // namespace prefix
