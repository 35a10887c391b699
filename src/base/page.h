// Pages of keys and values, as everything above this file speaks of them: numbers, no bytes.
//
//   position   0 ......... 31 32 ........ 63 64 ...
//   page       [ block 0     ][ block 1    ][ block 2
//   slot        0 ......... 31  0 ....... 31  0
//
// Page `b` of a path holds its positions [b * kPageTokens, (b + 1) * kPageTokens).
#pragma once

#include <cstdint>

namespace prefix {

// Positions per KV page.
inline constexpr int kPageTokens = 32;

// Pages that the positions [start, end) touch.
inline int32_t pages_between(int32_t start, int32_t end) {
  return end > start ? (end - 1) / kPageTokens - start / kPageTokens + 1 : 0;
}

// Pages that so many tokens take from the beginning of one.
constexpr int64_t pages_for(int64_t tokens) { return (tokens + kPageTokens - 1) / kPageTokens; }

// Where a row's key and value go: page index and slot (position % kPageTokens) in the pool; page
// < 0: nowhere (the row is recomputed only to read a result; its key and value exist already).
struct KvSlot {
  int32_t page;
  int32_t slot;
};

// Copies slots [0, tokens) of page `from` to page `to`: the head of a page shared by a branch.
struct PageCopy {
  int32_t from;
  int32_t to;
  int32_t tokens;
};

}  // namespace prefix
