// Numbers of a row of logits in host memory: what the CPU device answers, and what a sampler reads
// of a whole row. A row gives the same bits wherever it lies and whatever lies beside it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/logits.h"

namespace prefix::ops {

// Index of the largest value, the first one among equals; -1 when any value is NaN.
int32_t argmax(std::span<const float> x);

// log(sum(exp(x))), in double over a fixed order of lanes.
double log_sum_exp(std::span<const float> x);
// The same of a row of which only this is known.
double log_sum_exp(const RowStats& row);

// What is not wanted stays zero.
RowStats row_stats(std::span<const float> x, bool first, bool sum);

// The order of candidates; NaN has no place in it.
inline bool more_likely(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}
// The out.size() most likely tokens in order, no more than the row has.
void top_candidates(std::span<const float> x, std::span<Candidate> out);
// The k most likely ones; all of them when k is no smaller than the row.
void top_candidates(std::span<const float> x, size_t k, std::vector<Candidate>& out);

}  // namespace prefix::ops
