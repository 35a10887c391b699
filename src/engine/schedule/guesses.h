// Guesses at what a generation says next, which the model checks.
//
// From the text itself: what came behind the same tokens before (prompt lookup decoding, Saxena
// 2023). Answers repeat their prompt, and themselves.
//
//   3 7 4 9 2 5 5 8 ... 3 7 4 9            the longest end that occurred before: 3 7 4 9
//           \ guess/
//
// From the cache: what was computed behind the same path, by an earlier answer to the same prompt.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tree/tree.h"

namespace prefix {

// At most `limit` tokens; none where no end of two tokens or more occurred before. Of several
// places with equally long ends the last one counts. A text that repeats itself is guessed to go
// on so. Costs a pass over the text.
std::vector<int32_t> guess_from_text(std::span<const int32_t> text, size_t limit);

struct CachedGuess {
  std::vector<int32_t> tokens;
  NodeId node = kNoNode;  // holds the last one
};
// At most `limit` tokens behind the first `length` of the path to `node`, all of them computed; at
// a fork those of the branch that was used last.
CachedGuess guess_from_cache(const Tree& tree, NodeId node, int32_t length, size_t limit);

}  // namespace prefix
