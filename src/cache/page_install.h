// Puts pages and states that were computed before, by this process or another, into the tree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

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
  try {
    tree.for_each_piece(n, 0, n.length, [&](int32_t page, int32_t, int32_t) {
      kv.write(pages.frame(page), bytes(block++));
      pages.set_clean(page);
    });
  } catch (...) {  // by the device
    tree.unlock_quietly(id);
    throw;
  }
  tree.set_computed(id, n.length);
  return id;
}

// The state that the recurrent layers have after the first `length` tokens of the path to `node`,
// all of them computed: bytes(i) is its page i. Between steps only. kNoNode when the node that ends
// there has one already or `count` pages are not free, or the quota has no room for them and
// `reserved` tokens; nothing is evicted for it.
template <typename Bytes>
NodeId install_state(Tree& tree, PagePool& pages, KvMemory& kv, NodeId node, int32_t length,
                     int32_t count, int64_t reserved, const Bytes& bytes) {
  const int64_t left = tree.quota_left(tree.name_space(tree.node(node))) - reserved;
  if (count > pages.available() || int64_t{count} * kPageTokens > left) return kNoNode;
  const NodeId id = tree.end_at(node, length);
  if (tree.has_state(id)) return kNoNode;
  std::vector<int32_t> own = tree.take_state_pages(count);
  try {
    for (int32_t i = 0; i < count; ++i) {
      const int32_t page = own[static_cast<size_t>(i)];
      kv.write(pages.frame(page), bytes(i));
      pages.set_clean(page);
    }
  } catch (...) {
    tree.give_state_pages(std::move(own));
    throw;
  }
  tree.add_state(id, std::move(own), true);
  tree.unpin_state(id);
  return id;
}

}  // namespace prefix
