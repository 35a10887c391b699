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

std::string tree_json(const Tree& tree, const Namespaces& namespaces) {
  JsonText json;
  json.open('{').field("tokens", tree.token_count()).key("nodes").open('[');
  for (NodeId id = 0; id < tree.node_limit(); ++id) {
    const Node& n = tree.node(id);
    if (n.root < 0) continue;
    json.open('{').field("node", id).field("parent", n.parent).field("root", tree.root(n));
    if (n.parent == kNoNode)
      json.field("namespace", namespace_label(namespaces.parts(tree.name_space(n))));
    json.field("start", n.start).field("tokens", n.length).field("computed", n.computed);
    json.field("locks", n.locks).field("held", n.subtree_locks).field("pages", tree.kept_pages(n));
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
