// Log-probs of tokens that were scored before, which the tree keeps beside them: whoever asks for
// them again reads none of the rows. Requests for log-probs and choices have such.
#pragma once

#include <cstdint>

#include "engine/schedule/sequence.h"
#include "tree/tree.h"

namespace prefix {

// Writes those that are known of a sequence, which has `match` of its path, to its result, and sets
// how many outputs are left. Returns the first position whose row is still to be read; the end of
// those that are read when there is none.
int32_t take_logprobs(const Tree& tree, const RunningRequest& request, Sequence& s,
                      const Match& match);

// Whether all that a request asks for is known, so that none of its rows is read.
bool knows_logprobs(const Tree& tree, NodeId root, const RequestSpec& spec) noexcept;

// Keeps those of a request that ends for requests that read them again, on its paths or on ones
// that share these.
void keep_logprobs(Tree& tree, const RunningRequest& request) noexcept;

}  // namespace prefix
