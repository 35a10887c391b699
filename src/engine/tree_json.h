// The tree of the cache as data, for people and for what paints it (`prefix tree --from`).
// Printing takes longer than copying what is printed, which alone is done under the engine's lock.
//
//   {"tokens": 99,                                        of the whole tree
//    "nodes": [{"node": 0, "parent": -1, "namespace": "tenant a", "tokens": 0, ...},     a root
//              {"node": 3, "parent": 0, "start": 0, "tokens": 80, "computed": 80, ...},
//              {"node": 1, "parent": 3, "start": 80, "tokens": 19, "computed": 0, ...}]}
#pragma once

#include <string>
#include <vector>

#include "cache/namespaces.h"
#include "tree/tree.h"

namespace prefix {

// A tree at one moment: its nodes by number.
struct TreeCopy {
  struct Entry {
    NodeId id;
    NodeId root;
    int32_t pages;  // with a frame
    Node node;
  };
  int64_t tokens = 0;
  std::vector<Entry> nodes;
  std::vector<std::string> namespaces;  // labels, of the roots among them
};
TreeCopy copy_tree(const Tree& tree, const Namespaces& namespaces);

// Nodes in the order of their numbers: {"node", "parent", "root", "start", "tokens", "computed",
// "locks", "held", "pages", "uses", "priority", "last_use"}, and "namespace" where parent is -1.
std::string tree_json(const TreeCopy& tree);

// "tenant a / adapter / 7"; "(default)" for the empty one.
// Short, and printable whatever the parts are.
std::string namespace_label(const NamespaceParts& parts);

}  // namespace prefix
