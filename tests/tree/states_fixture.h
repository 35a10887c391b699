// A small tree whose nodes are given states.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "tree/tree.h"

namespace prefix::testing_support {

using Tokens = std::vector<int32_t>;

inline Tokens count_from(int32_t first, int32_t n) {
  Tokens tokens;
  for (int32_t i = 0; i < n; ++i) tokens.push_back(first + i);
  return tokens;
}

struct StatesTest : testing::Test {
  PagePool pool{20};
  Tree tree{pool};
  NodeId root = tree.add_root();

  NodeId computed(const Tokens& tokens, NodeId below = kNoNode) {
    const NodeId at = below == kNoNode ? root : below;
    const NodeId node = tree.attach(tree.match(at, tokens), tokens, {});
    for (NodeId up = node; tree.node(up).length > 0; up = tree.node(up).parent)
      if (tree.node(up).computed < tree.node(up).length)
        tree.set_computed(up, tree.node(up).length);
    return node;
  }
  // A cached path.
  NodeId cached(const Tokens& tokens) {
    const NodeId node = computed(tokens);
    tree.unlock(node, true);
    return node;
  }
  void give_state(NodeId node, int32_t pages = 2) {
    tree.add_state(node, tree.take_state_pages(pages), true);
    tree.unpin_state(node);
  }
};

}  // namespace prefix::testing_support
