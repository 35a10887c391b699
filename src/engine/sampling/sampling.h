// From a row of logits to a token: penalties, temperature, truncation, a seeded draw.
//
// A draw depends on the logits, the options, the request's seed and the index of the generated
// token, and on nothing else: not on other requests, threads or the order of steps.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/request.h"
#include "ops/logits.h"

namespace prefix {

struct Sampled {
  int32_t token = 0;
  float logprob = 0;  // under the model's own distribution (no penalties, temperature 1)
};

// From the whole row. `seen` are the prompt and generated tokens so far (for the repetition
// penalty); `index` counts generated tokens. Throws kNotFinite when a logit is NaN or the
// largest is infinite.
Sampled sample(std::span<const float> logits, const Sampling& options,
               std::span<const int32_t> seen, int64_t index);

// The same tokens from less than the row:
//
//   greedy, no penalty           the first of the largest
//   top-k of at most 256         the k most likely
//   the same with a penalty      the 256 most likely and the logits of all tokens seen; now and
//                                then that is not enough
//   without top-k                the whole row

// How many candidates the options need, before penalties; 0: the whole row.
int32_t candidates_for(const Sampling& options, int32_t vocab);

// Each token once, ascending.
std::vector<int32_t> distinct_tokens(std::span<const int32_t> seen);

// The k most likely tokens after the repetition penalty, given the most likely ones before it
// (`complete`: these are the whole vocabulary) and the logits of `seen`, each token once. False
// when they do not tell.
bool penalised_candidates(std::span<const ops::Candidate> likely, bool complete,
                          std::span<const int32_t> seen, std::span<const float> seen_logits,
                          float penalty, int32_t k, std::vector<ops::Candidate>& out);

// The token that the options choose from the most likely ones, in their order, penalties applied
// and cut by top-k.
int32_t choose(std::span<const ops::Candidate> kept, const Sampling& options, int64_t index);

}  // namespace prefix
