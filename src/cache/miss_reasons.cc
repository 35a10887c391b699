#include "cache/miss_reasons.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace prefix {
namespace {

// A 64-bit hash of the pages up to and including these tokens; good enough for statistics.
uint64_t chain(uint64_t before, const int32_t* tokens) {
  uint64_t h = before;
  for (int i = 0; i < kPageTokens; i += 2) {
    uint64_t two;
    std::memcpy(&two, tokens + i, sizeof(two));
    h = (h ^ two) * 0x9e3779b97f4a7c15u;
    h ^= h >> 29;
  }
  return h * 0xbf58476d1ce4e5b9u;
}

uint64_t in_namespace(uint64_t hash, int32_t name_space) {
  return (hash ^ static_cast<uint64_t>(static_cast<uint32_t>(name_space) + 1)) *
         0x94d049bb133111ebu;
}

// Of a whole text, apart from those of pages.
uint64_t text_hash(std::span<const int32_t> tokens) {
  int32_t page[kPageTokens] = {};
  page[0] = static_cast<int32_t>(tokens.size());
  uint64_t hash = chain(~MissReasons::kStart, page);
  for (size_t at = 0; at < tokens.size(); at += kPageTokens) {
    const auto piece = tokens.subspan(at, std::min<size_t>(kPageTokens, tokens.size() - at));
    std::fill(std::ranges::copy(piece, page).out, std::end(page), 0);
    hash = chain(hash, page);
  }
  return hash;
}

}  // namespace

MissReasons::Entry* MissReasons::find(uint64_t hash) {
  const std::span<Entry> set = set_of(hash);
  const auto at = std::ranges::find(set, hash, &Entry::hash);
  return at == set.end() ? nullptr : &*at;
}

MissReasons::Seen MissReasons::count(int32_t name_space, Seen seen, std::span<const int32_t> tokens,
                                     int32_t matched, MissCounts& counts) {
  const int32_t begin = seen.pages * kPageTokens;
  const int32_t n = begin + static_cast<int32_t>(tokens.size());
  int32_t counted = std::max(matched, begin);
  for (; seen.pages < n / kPageTokens; ++seen.pages) {
    seen.hash = chain(seen.hash, tokens.data() + seen.pages * kPageTokens - begin);
    const int32_t end = (seen.pages + 1) * kPageTokens;
    if (end > matched) {
      seen.reason = reason_of(seen.hash, name_space);
      counts.*seen.reason += end - counted;
      counted = end;
    }
    see(seen.hash, name_space);
  }
  if (seen.pages == 0 && n > 0) {
    const uint64_t hash = text_hash(tokens);
    seen.reason = reason_of(hash, name_space);
    see(hash, name_space);
  }
  // What does not fill a page goes with the page before it.
  counts.*seen.reason += n - counted;
  return seen;
}

void MissReasons::count_whole(int32_t name_space, std::span<const int32_t> tokens, bool found,
                              MissCounts& counts) {
  const uint64_t hash = text_hash(tokens);
  if (!found) counts.*reason_of(hash, name_space) += static_cast<int64_t>(tokens.size());
  see(hash, name_space);
}

int64_t MissCounts::* MissReasons::reason_of(uint64_t hash, int32_t name_space) {
  if (const Entry* here = find(in_namespace(hash, name_space)))
    return here->made_room ? &MissCounts::budget : &MissCounts::evicted;
  const Entry* anywhere = find(hash);
  return anywhere && anywhere->name_space != name_space ? &MissCounts::name_space
                                                        : &MissCounts::first_seen;
}

void MissReasons::see(uint64_t hash, int32_t name_space) {
  remember({in_namespace(hash, name_space), name_space, false});
  remember({hash, name_space, false});
}

// In front of its set, in the place of the entry of the same hash, or of the one seen first.
void MissReasons::remember(const Entry& entry) {
  const std::span<Entry> set = set_of(entry.hash);
  const auto at = std::find_if(set.begin(), set.end() - 1,
                               [&](const Entry& e) { return e.hash == entry.hash; });
  std::move_backward(set.begin(), at, at + 1);
  set.front() = entry;
}

void MissReasons::text_made_room(const Tree& tree, NodeId id) {
  std::vector<int32_t> tokens(static_cast<size_t>(tree.node(id).end()));
  for (NodeId up = id; tree.node(up).length > 0; up = tree.node(up).parent)
    std::ranges::copy(tree.tokens(tree.node(up)), tokens.begin() + tree.node(up).start);
  if (Entry* e = find(in_namespace(text_hash(tokens), tree.name_space(tree.node(id)))))
    e->made_room = true;
}

void MissReasons::made_room(const Tree& tree, NodeId id, int32_t from) {
  const bool as_text = tree.whole() || tree.node(id).end() < kPageTokens;
  try {
    as_text ? text_made_room(tree, id) : path_made_room(tree, id, from);
  } catch (const std::bad_alloc&) {  // the tree cannot wait for statistics
  }
}

void MissReasons::path_made_room(const Tree& tree, NodeId id, int32_t from) {
  hash_path(tree, id);
  const Node& n = tree.node(id);
  const int32_t name_space = tree.name_space(n);
  for (auto b = static_cast<size_t>((n.start + from) / kPageTokens); b < hashes_.size(); ++b)
    if (Entry* e = find(in_namespace(hashes_[b], name_space))) e->made_room = true;
}

// Leaves that make room one after the other have most of their paths in common, or are the same one
// with fewer pages: what the last path told stays as long as the tree only loses something.
void MissReasons::hash_path(const Tree& tree, NodeId id) {
  path_.clear();
  for (NodeId up = id; tree.node(up).length > 0; up = tree.node(up).parent) path_.push_back(up);
  std::ranges::reverse(path_);
  size_t same = 0;
  if (hashed_growth_ == tree.growth())
    same = static_cast<size_t>(std::ranges::mismatch(path_, hashed_path_).in1 - path_.begin());
  hashed_growth_ = -1;  // until all of it is there
  hashes_.resize(same > 0 ? static_cast<size_t>(tree.node(path_[same - 1]).end() / kPageTokens)
                          : 0);
  uint64_t hash = hashes_.empty() ? kStart : hashes_.back();
  for (size_t i = same; i < path_.size(); ++i) {
    const Node& n = tree.node(path_[i]);
    tree.for_each_piece(n, 0, n.length, [&](int32_t page, int32_t slot, int32_t count) {
      if (slot + count != kPageTokens) return;
      hash = chain(hash, tree.page_tokens(page));
      hashes_.push_back(hash);
      ++hashed_pages_;
    });
  }
  std::swap(path_, hashed_path_);
  hashed_growth_ = tree.growth();
}

}  // namespace prefix
