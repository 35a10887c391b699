#include "engine/schedule/guesses.h"

#include <algorithm>

namespace prefix {
namespace {

constexpr size_t kShortestEnd = 2;
constexpr size_t kLongestEnd = 16;  // that is looked for: a longer one tells no more

// How many tokens before `a` equal those before `b`, a < b.
size_t common_end(std::span<const int32_t> text, size_t a, size_t b) {
  size_t n = 0;
  while (n < std::min(a, kLongestEnd) && text[a - 1 - n] == text[b - 1 - n]) ++n;
  return n;
}

// Among the newest, which come last: a fork may have very many.
NodeId last_used_child(const Tree& tree, NodeId id) {
  constexpr int kLookedAt = 32;
  const NodeId first = tree.node(id).first_child;
  NodeId best = tree.last_child(id);
  NodeId child = best;
  for (int i = 0; i < kLookedAt && child != first; ++i) {
    child = tree.node(child).previous;
    if (tree.node(child).last_use > tree.node(best).last_use) best = child;
  }
  return best;
}

}  // namespace

std::vector<int32_t> guess_from_text(std::span<const int32_t> text, size_t limit) {
  size_t longest = kShortestEnd - 1;
  size_t place = 0;  // behind the end that occurred before
  for (size_t at = text.size(); at-- > kShortestEnd && longest < kLongestEnd;) {
    if (text[at - 1] != text.back()) continue;
    const size_t n = common_end(text, at, text.size());
    if (n <= longest) continue;
    longest = n;
    place = at;
  }
  std::vector<int32_t> guess;
  if (place == 0) return guess;
  guess.reserve(limit);
  for (size_t i = place; guess.size() < limit; ++i)
    guess.push_back(i < text.size() ? text[i] : guess[i - text.size()]);
  return guess;
}

CachedGuess guess_from_cache(const Tree& tree, NodeId node, int32_t length, size_t limit) {
  CachedGuess guess;
  NodeId at = tree.node_at(node, length - 1);
  for (int32_t offset = length - tree.node(at).start;;) {
    const Node& n = tree.node(at);
    const auto left = static_cast<int32_t>(limit - guess.tokens.size());
    const int32_t end = std::min(n.computed, offset + left);
    if (offset < end) guess.node = at;
    tree.for_each_piece(n, offset, end, [&](int32_t page, int32_t slot, int32_t count) {
      const int32_t* const tokens = tree.page_tokens(page) + slot;
      guess.tokens.insert(guess.tokens.end(), tokens, tokens + count);
    });
    if (end < n.length || guess.tokens.size() == limit) return guess;
    at = last_used_child(tree, at);
    if (at == kNoNode) return guess;
    offset = 0;
  }
}

}  // namespace prefix
