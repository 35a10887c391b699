// The prefix tree of a batch as sorted prompts, for what only counts or cuts it.
//
//     prompt        order  shared        tree            tokens of the tree
//     a b c d         0      0           a─b─c─d         4
//     a b c e         1      3               └─e         1 = 4 - 3
//     a b             2                                  0 = 2 - 2, see below
//     f g             3      0           f─g             2
//
// Sorted by tokens (a prompt before those that continue it), prompts stand as a depth-first walk of
// their tree meets them, and each adds what it does not share with the one before it. That holds of
// any run of them, too: a piece of the order is a tree by itself, and what it has twice because it
// was cut from its neighbour is `shared` at the cut.
//
// This and not Tree (tree.h): 16 bytes a prompt instead of nodes, pages and links, built by one
// sort; nothing here is looked up, extended or evicted.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace prefix {

using PromptList = std::span<const std::span<const int32_t>>;

struct SortedPrompts {
  std::vector<int64_t> order;  // numbers of prompts; equal ones in the order given
  std::vector<int64_t>
      shared;  // [k]: tokens that order[k] begins with as order[k - 1] does; [0]: 0
};
SortedPrompts sort_prompts(PromptList prompts);

// Tokens of prompts that are computed together, with nothing computed before.
struct BatchEstimate {
  int64_t given = 0;     // in all prompts
  int64_t computed = 0;  // different ones: those of the tree
  // By each prompt, when a token is computed for the first prompt, in the order given, that has it.
  std::vector<int64_t> by_prompt;
};
BatchEstimate estimate_batch(PromptList prompts);

}  // namespace prefix
