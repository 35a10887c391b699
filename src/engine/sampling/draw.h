// The end of the chain: a seeded draw from candidates.
#pragma once

#include <cstdint>
#include <span>

#include "engine/request.h"
#include "ops/logits.h"

namespace prefix {

// One of the candidates, the most likely one first and cut by top-k, by temperature (> 0), min-p
// and top-p. The seed and the index of the generated token decide, and nothing else that happens:
// not other requests, threads or the order of steps.
int32_t draw(std::span<const ops::Candidate> candidates, const Sampling& options, int64_t index);

}  // namespace prefix
