// Requests of every kind whose prompts share prefixes, in mid-page too.
#pragma once

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "engine_support.h"

namespace prefix::testing_support {

inline constexpr int32_t kVocab = 131;  // of the tiny models

// Often begins as one of the earlier ones does.
inline std::vector<int32_t> random_prompt(std::mt19937& random,
                                          const std::vector<RequestSpec>& earlier) {
  std::vector<int32_t> tokens;
  if (!earlier.empty() && random() % 5) {
    const std::vector<int32_t>& from = earlier[random() % earlier.size()].tokens;
    tokens = first_tokens(from, 1 + random() % from.size());
  }
  const size_t more = random() % 3 == 0 ? 40 + random() % 100 : random() % 24;
  for (const int32_t t : random_tokens(random, more, kVocab)) tokens.push_back(t);
  tokens.resize(std::clamp<size_t>(tokens.size(), 2, 160), 1);
  return tokens;
}

inline RequestSpec random_task(std::mt19937& random, std::vector<int32_t> tokens) {
  RequestSpec spec;
  spec.tokens = std::move(tokens);
  switch (random() % 5) {
    case 0:
      spec.task = Task::kLogits;
      spec.logit_ids = random_tokens(random, 1 + random() % 4, kVocab);
      break;
    case 1:
      spec.task = Task::kLogprobs;
      spec.from = static_cast<int32_t>(spec.tokens.size() - 1 -
                                       random() % std::min<size_t>(spec.tokens.size() - 1, 12));
      break;
    case 2:
      spec.task = Task::kChoices;
      for (size_t c = 1 + random() % 3; c > 0; --c)
        spec.choices.push_back(random_tokens(random, 1 + random() % 3, kVocab));
      break;
    case 3: {
      spec.task = Task::kEmbed;
      // Of a generator of its own: what is drawn next does not depend on the pooling.
      std::mt19937 own(static_cast<unsigned>(spec.tokens.size() * 131 + spec.tokens[0]));
      spec.pooling = static_cast<Pooling>(own() % 4);
      if (spec.pooling == Pooling::kTokens && own() % 2)
        for (size_t at = own() % 3; at < spec.tokens.size(); at += 1 + own() % 60)
          spec.positions.push_back(static_cast<int32_t>(at));
      break;
    }
    default:
      spec.task = Task::kGenerate;
      spec.sampling.max_tokens = 1 + static_cast<int32_t>(random() % 4);
      spec.sampling.ignore_eos = true;
      spec.sampling.logprobs = true;
  }
  return spec;
}

inline std::vector<RequestSpec> random_batch(std::mt19937& random, size_t count) {
  std::vector<RequestSpec> batch;
  while (batch.size() < count) batch.push_back(random_task(random, random_prompt(random, batch)));
  return batch;
}

}  // namespace prefix::testing_support
