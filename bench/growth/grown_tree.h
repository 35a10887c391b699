// A tree of a size that a cost asks for.
#pragma once

#include <memory>
#include <vector>

#include "tree/tree.h"

namespace prefix::bench {

using Tokens = std::vector<int32_t>;

// `pages` whole pages that no other `first` begins with.
inline Tokens pages_of_tokens(int first, int pages) {
  Tokens tokens(static_cast<size_t>(pages) * kPageTokens);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i % 1000);
  tokens[0] = first;
  return tokens;
}

inline Tokens joined(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

struct GrownTree {
  explicit GrownTree(int pages, Policy policy = Policy::kLru)
      : pool_(std::make_unique<PagePool>(pages)),
        tree_(std::make_unique<Tree>(*pool_, TreeOptions{.policy = policy})) {}

  static Tokens leaf(int number) { return pages_of_tokens(number + 1, 1); }
  static Tokens path(int number, int pages) { return pages_of_tokens(number, pages); }

  NodeId computed(const Tokens& tokens, NodeId where = kNoNode) {
    const NodeId id = tree.attach(tree.match(where == kNoNode ? root : where, tokens), tokens, {});
    if (tree.node(id).computed < tree.node(id).length) tree.set_computed(id, tree.node(id).length);
    return id;
  }
  NodeId cached(const Tokens& tokens, NodeId where = kNoNode) {
    const NodeId id = computed(tokens, where);
    tree.unlock(id, true);
    return id;
  }
  void with_state(const Tokens& tokens, NodeId where) {
    const NodeId id = computed(tokens, where);
    tree.add_state(id, tree.take_state_pages(1), true);
    tree.unpin_state(id);
    tree.unlock(id, true);
  }

 private:
  std::unique_ptr<PagePool> pool_;
  std::unique_ptr<Tree> tree_;

 public:
  PagePool& pool = *pool_;
  Tree& tree = *tree_;
  NodeId root = tree.add_root();
};

}  // namespace prefix::bench
