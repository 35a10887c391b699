// From a row of logits to a token: penalties, temperature, truncation, a seeded draw.
//
// A draw depends on the logits, the options, the request's seed and the index of the generated
// token, and on nothing else: not on other requests, threads or the order of steps.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/request.h"

namespace prefix {

struct Sampled {
  int32_t token = 0;
  float logprob = 0;  // under the model's own distribution (no penalties, temperature 1)
};

// log(sum(exp(x))) in double over a fixed lane order, so equal rows give equal bits.
double log_sum_exp(std::span<const float> x);

// Index of the largest value, the first one among equals; -1 when any value is NaN.
int32_t argmax(std::span<const float> x);

// `seen` are the prompt and generated tokens so far (for the repetition penalty); `index` counts
// generated tokens. Throws kInternal when a logit is NaN.
Sampled sample(std::span<const float> logits, const Sampling& options,
               std::span<const int32_t> seen, int64_t index);

}  // namespace prefix
