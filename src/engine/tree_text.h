// The tree for people: as data and as pictures. Under the engine's lock.
//
//   tenant a  ┌──────────────────┬────────┐     to the right: tokens; a node is as high as the
//             │ 2,048            │ 31     │     leaves below it; what lies to its left is its
//             │                  ├────────┤     prefix
//             │                  │ 18     │
//             └──────────────────┴────────┘
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cache/namespaces.h"
#include "tree/tree.h"

namespace prefix {

// {"tokens": n, "nodes": [{"node", "parent", "root", "start", "tokens", "computed", "locks",
// "held", "pages", "uses", "priority", "last_use"}]}
std::string tree_json(const Tree& tree);

struct PictureBox {
  int32_t parent = -1;  // box; -1: a namespace
  std::string label;    // of a namespace
  NodeId node = kNoNode;
  int32_t start = 0;
  int64_t tokens = 0;  // of a folded box: of everything in it
  int64_t pending = 0;
  int32_t held = 0;
  uint32_t uses = 0;
  int64_t folded = 0;  // nodes that the box stands for; 0: it is one node
  int32_t row = 0, rows = 1;
};

struct TreePicture {
  std::vector<PictureBox> boxes;  // parents first
  int32_t rows = 0;
  int64_t tokens = 0;
  int64_t nodes = 0;
};

// Where there are too many branches or namespaces to draw, the largest stay and the others are
// folded into one, and so is what lies too deep: a picture has a limit, whatever the tree.
TreePicture picture_of(const Tree& tree, const std::vector<std::pair<NodeId, std::string>>& roots);
std::string tree_dot(const TreePicture& picture);
std::string tree_svg(const TreePicture& picture);

// "tenant a / adapter / 7"; "(default)" for the empty one.
std::string namespace_label(const NamespaceParts& parts);

}  // namespace prefix
