#include "cache/page_keys.h"

#include "base/status.h"

namespace prefix {

const PageKey& PageKeys::root(NodeId root) {
  const auto found = roots_.find(root);
  return found != roots_.end() ? found->second : roots_[root] = root_key_(root);
}

PageKey PageKeys::key(PagePlace place) {
  // Up to the first page whose key is known, then down again.
  missing_.clear();
  PageKey parent;
  for (;; place = page_before(tree_, pages_, place)) {
    if (pages_.keyed(place.page)) {
      parent = known(place.page);
      break;
    }
    missing_.push_back(place.page);
    if (place.block == 0) {
      parent = root(tree_.root(tree_.node(place.node)));
      break;
    }
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
