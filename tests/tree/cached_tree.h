// A tree in which sequences come, are computed and go, as tests of eviction fill it.
#pragma once

#include <vector>

#include "tree/tree.h"

namespace prefix {

using Tokens = std::vector<int32_t>;

// n tokens that no other `first` begins with.
inline Tokens run_of(int32_t first, int32_t n) {
  Tokens tokens(static_cast<size_t>(n));
  for (int32_t i = 0; i < n; ++i) tokens[static_cast<size_t>(i)] = 1000 * first + i;
  return tokens;
}

inline Tokens joined(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

struct CachedTree {
  explicit CachedTree(int32_t pages = 64, Policy policy = Policy::kLru)
      : pool(pages), tree(pool, {.policy = policy}), root(tree.add_root()) {}

  NodeId attach(const Tokens& tokens, const AttachOptions& use = {}, NodeId where = kNoNode) {
    const NodeId top = where == kNoNode ? root : where;
    const NodeId id = tree.attach(tree.match(top, tokens), tokens, use);
    for (NodeId up = id; tree.node(up).length > 0; up = tree.node(up).parent)
      tree.set_computed(up, tree.node(up).length);
    return id;
  }
  // A sequence that comes, is computed and goes.
  NodeId use(const Tokens& tokens, const AttachOptions& use = {}, NodeId where = kNoNode) {
    const NodeId id = attach(tokens, use, where);
    tree.unlock(id, true);
    tree.check();
    return id;
  }
  int32_t matched(const Tokens& tokens, NodeId where = kNoNode) const {
    return tree.match(where == kNoNode ? root : where, tokens).matched;
  }

  PagePool pool;
  Tree tree;
  NodeId root;
};

}  // namespace prefix
