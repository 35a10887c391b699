// The keys of the full pages of a tree, each computed once while the page lives.
//
//   root "tenant a"  key R
//     └─ [ 0 .. 31 | 32 .. 63 | 64 .. 70 ]       pages 7, 9, 4
//          key(7) = h(R, tokens)   key(9) = h(key(7), tokens)   page 4 is not full: no key
//
// A key stands for all tokens up to the end of its page (page_key.h), so that of a page further
// down needs those above: they are looked up by page number, and computed where they are
// not known yet.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cache/page_key.h"
#include "tree/page_pool.h"
#include "tree/tree.h"

namespace prefix {

// A page of a path: that of `block`, and the node that has the last of its positions.
struct PagePlace {
  NodeId node;
  int32_t page;
  int32_t block;
};

// That of a block which the path to `node` fills.
inline PagePlace page_place(const Tree& tree, NodeId node, int32_t block) {
  const int32_t last = (block + 1) * kPageTokens - 1;
  const NodeId at = tree.node_at(node, last);
  return {at, tree.page_of(at, last), block};
}

// That of the block before it, which there is: a step of the path, however long its edges are.
inline PagePlace page_before(const Tree& tree, const PagePool& pages, const PagePlace& place) {
  const int32_t last = place.block * kPageTokens - 1;
  if (last < tree.node(place.node).start) return page_place(tree, place.node, place.block - 1);
  return {place.node, pages.previous(place.page), place.block - 1};
}

class PageKeys {
 public:
  using RootKey = std::function<PageKey(NodeId root)>;

  // A root whose key was asked for is forgotten before it goes: another one with the same number
  // would get the key.
  PageKeys(const Tree& tree, PagePool& pages, RootKey root_key)
      : tree_(tree), pages_(pages), root_key_(std::move(root_key)) {}

  const PageKey& root(NodeId root);
  void forget(NodeId root) noexcept { roots_.erase(root); }

  // The key of page `block` (positions 32 x block and on) of the path to `node`, which is full
  // there.
  PageKey key(NodeId node, int32_t block) { return key(page_place(tree_, node, block)); }
  // The same of a page that was found already.
  PageKey key(PagePlace place);
  // Of a page that keyed() says is known.
  const PageKey& known(int32_t page) const { return keys_[static_cast<size_t>(page)]; }

  // The keys of blocks [first, last) of `tokens`, which need not be in the tree; the path to
  // `node` is, and has the full pages before `first`.
  std::vector<PageKey> keys_behind(NodeId node, int32_t first, std::span<const int32_t> tokens,
                                   int32_t last);

 private:
  const Tree& tree_;
  PagePool& pages_;
  RootKey root_key_;
  std::unordered_map<NodeId, PageKey> roots_;
  std::vector<PageKey> keys_;     // by page number
  std::vector<int32_t> missing_;  // scratch: pages, last ones first
};

// f(page, block) for every page whose last position is one of tokens [begin, end) of the edge,
// first ones first: the pages that are full when these are computed.
template <typename F>
void for_each_full_page(const Tree& tree, const Node& n, int32_t begin, int32_t end, const F& f) {
  int32_t position = n.start + begin;
  tree.for_each_piece(n, begin, end, [&](int32_t page, int32_t slot, int32_t count) {
    if (slot + count == kPageTokens) f(page, position / kPageTokens);
    position += count;
  });
}

}  // namespace prefix
