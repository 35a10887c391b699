#include "cache/page_keys.h"

#include "base/status.h"

namespace prefix {

const PageKey& PageKeys::root(NodeId root) {
  const auto found = roots_.find(root);
  return found != roots_.end() ? found->second : roots_[root] = root_key_(root);
}

PageKey PageKeys::key(NodeId node, int32_t block) {
  // Up to the first page whose key is known, then down again.
  missing_.clear();
  PageKey parent;
  NodeId id = tree_.node_at(node, (block + 1) * kPageTokens - 1);
  int32_t page = -1;
  for (;;) {
    if (page < 0) {
      const Node& n = tree_.node(id);
      const int32_t offset = (block + 1) * kPageTokens - 1 - n.start;
      tree_.for_each_piece(n, offset, offset + 1, [&](int32_t p, int32_t, int32_t) { page = p; });
    }
    if (pages_.keyed(page)) {
      parent = known(page);
      break;
    }
    missing_.push_back(page);
    if (block == 0) {
      parent = root(tree_.root(tree_.node(id)));
      break;
    }
    --block;
    const NodeId above = tree_.node_at(id, (block + 1) * kPageTokens - 1);
    page = above == id ? pages_.previous(page) : -1;
    id = above;
  }
  for (; !missing_.empty(); missing_.pop_back()) {
    const int32_t at = missing_.back();
    parent = page_key(parent, {pages_.tokens(at), kPageTokens});
    if (keys_.size() <= static_cast<size_t>(at)) keys_.resize(static_cast<size_t>(at) + 1);
    keys_[static_cast<size_t>(at)] = parent;
    pages_.set_keyed(at);
  }
  return parent;
}

std::vector<PageKey> PageKeys::keys_behind(NodeId node, int32_t first,
                                           std::span<const int32_t> tokens, int32_t last) {
  std::vector<PageKey> keys;
  if (first >= last) return keys;
  PageKey parent = first > 0 ? key(node, first - 1) : root(tree_.root(tree_.node(node)));
  for (int32_t block = first; block < last; ++block) {
    parent =
        page_key(parent, tokens.subspan(static_cast<size_t>(block) * kPageTokens, kPageTokens));
    keys.push_back(parent);
  }
  return keys;
}

}  // namespace prefix
