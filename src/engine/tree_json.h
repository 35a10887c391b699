// The tree of the cache as data, for people and for what paints it (`prefix tree --from`).
// Under the engine's lock.
//
//   {"tokens": 99,                                        of the whole tree
//    "nodes": [{"node": 0, "parent": -1, "namespace": "tenant a", "tokens": 0, ...},     a root
//              {"node": 3, "parent": 0, "start": 0, "tokens": 80, "computed": 80, ...},
//              {"node": 1, "parent": 3, "start": 80, "tokens": 19, "computed": 0, ...}]}
#pragma once

#include <string>

#include "cache/namespaces.h"
#include "tree/tree.h"

namespace prefix {

// Nodes in the order of their numbers: {"node", "parent", "root", "start", "tokens", "computed",
// "locks", "held", "pages", "uses", "priority", "last_use"}, and "namespace" where parent is -1.
std::string tree_json(const Tree& tree, const Namespaces& namespaces);

// "tenant a / adapter / 7"; "(default)" for the empty one.
// Short, and printable whatever the parts are.
std::string namespace_label(const NamespaceParts& parts);

}  // namespace prefix
