// Prompts shared out among workers that each compute their own: pieces of the sorted prompts of
// about equal work, cut where the fewest tokens are shared.
//
//     sorted prompts   ├──────┬──┬────┬───────┬──┬─────┬──────┤
//     shared at a cut        0  9    4       0  9     9          tokens that both sides compute
//     3 parts          ├──────────────────────┤│├──────────┤...  a subtree stays whole, unless it is
//                                                                heavier than a part may be
//
// A part is one run of the sorted prompts (sorted_prompts.h), so what a cut costs is one number,
// and the best cuts are found exactly, by dynamic programming over those places where a cut can be.
//
// Most work that a part may have: `balance` times the mean of the different tokens. Where something
// heavy makes that impossible, `balance` times the least that the largest part can have: a prefix
// that is long against all that follows it stays in one part, since each further part would compute
// it again and none would be done much sooner.
#pragma once

#include <cstdint>
#include <vector>

#include "tree/sorted_prompts.h"

namespace prefix {

struct Partition {
  std::vector<int32_t> part;   // of each prompt
  std::vector<int64_t> order;  // the prompts, part after part, each part sorted
  std::vector<int64_t> work;   // of each part: its different tokens; 0 for one without prompts
  int64_t given = 0;
  int64_t distinct = 0;  // tokens of the whole batch that differ: the sum of `work` has more
};
// parts >= 1; balance >= 1. Of more parts than prompts some stay empty.
Partition partition(PromptList prompts, int32_t parts, double balance);

}  // namespace prefix
