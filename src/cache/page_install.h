// Puts pages that were computed before, by this process or another, into the tree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cache/kv_memory.h"
#include "tree/tree.h"

namespace prefix {

// Makes `tokens` a computed path below `root`, as far as it is not one already, and locks the node
// that holds the last of them: the caller unlocks it. bytes(block) is the page of positions
// [32 block, 32 block + 32) of this path, from the one in which the tree's match ends to that of
// the last token. Between steps only. kNoNode: a part of the path is being computed just now.
// Throws kCacheFull.
template <typename Bytes>
NodeId install_pages(Tree& tree, PagePool& pages, KvMemory& kv, NodeId root,
                     std::span<const int32_t> tokens, const AttachOptions& use,
                     const Bytes& bytes) {
  const Match match = tree.match(root, tokens);
  if (match.computed < match.matched) return kNoNode;
  const NodeId id = tree.attach(match, tokens, use);
  if (match.matched == static_cast<int32_t>(tokens.size())) return id;
  const Node& n = tree.node(id);
  int32_t block = n.start / kPageTokens;
  tree.for_each_piece(n, 0, n.length, [&](int32_t page, int32_t, int32_t) {
    kv.write(page, bytes(block++));
    pages.set_clean(page);
  });
  tree.set_computed(id, n.length);
  return id;
}

}  // namespace prefix
