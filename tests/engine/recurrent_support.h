// Small models with recurrent layers, and engines with them.
#pragma once

#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine_support.h"

namespace prefix::testing_support {

inline tools::CheckpointShape granite_shape() {
  tools::CheckpointShape shape;
  shape.architecture = "granitemoehybrid";
  shape.layers = 4;
  shape.recurrent = {"rrar", 8, 16, 2, 20, 4};
  return shape;
}

inline tools::CheckpointShape qwen_shape() {
  tools::CheckpointShape shape;
  shape.architecture = "qwen3_5_text";
  shape.layers = 4;
  shape.recurrent = {"arra", 4, 18, 2, 24, 3};
  return shape;
}

inline tools::CheckpointShape nemotron_shape() {
  tools::CheckpointShape shape;
  shape.architecture = "nemotron_h";
  shape.layers = 5;
  shape.recurrent = {"rfrar", 8, 16, 4, 20, 4};
  return shape;
}

inline tools::CheckpointShape lfm2_shape() {
  tools::CheckpointShape shape;
  shape.architecture = "lfm2";
  shape.layers = 4;
  shape.recurrent = {"rarr", 1, 1, 1, 1, 3};
  return shape;
}

inline tools::CheckpointShape hybrid_shape(const std::string& family) {
  if (family == "nemotron") return nemotron_shape();
  if (family == "lfm2") return lfm2_shape();
  return family == "granite" ? granite_shape() : qwen_shape();
}

inline RequestSpec generation(std::vector<int32_t> tokens, int32_t more) {
  RequestSpec spec;
  spec.task = Task::kGenerate;
  spec.tokens = std::move(tokens);
  spec.sampling.max_tokens = more;
  spec.sampling.ignore_eos = true;
  spec.sampling.logprobs = true;
  return spec;
}

inline RequestSpec warm(std::vector<int32_t> tokens) {
  RequestSpec spec;
  spec.task = Task::kWarm;
  spec.tokens = std::move(tokens);
  return spec;
}

// Any kind of request; it may share a prefix with an earlier one.
inline RequestSpec random_hybrid_request(std::mt19937& random,
                                         const std::vector<RequestSpec>& earlier, int32_t vocab) {
  RequestSpec spec;
  if (!earlier.empty() && random() % 4) {  // shares a prefix with an earlier one
    spec.tokens = earlier[random() % earlier.size()].tokens;
    spec.tokens.resize(1 + random() % spec.tokens.size());
  }
  const size_t more = random() % 8 == 0 ? 60 + random() % 100 : random() % 30;
  spec.tokens = joined(spec.tokens, random_tokens(random, more, vocab));
  while (spec.tokens.size() < 2) spec.tokens.push_back(1);
  for (int32_t at = 0; random() % 3 == 0;) {
    at += 1 + static_cast<int32_t>(random() % 40);
    if (at <= static_cast<int32_t>(spec.tokens.size())) spec.checkpoint.push_back(at);
  }
  switch (random() % 6) {
    case 0:
    case 1:
      spec.task = Task::kLogits;
      spec.logit_ids = random_tokens(random, 1 + random() % 4, vocab);
      break;
    case 2:
      spec.task = Task::kLogprobs;
      spec.from = 1 + static_cast<int32_t>(random() % (spec.tokens.size() - 1));
      break;
    case 3:
      spec.task = Task::kChoices;
      for (size_t c = 1 + random() % 3; c > 0; --c)
        spec.choices.push_back(random_tokens(random, 1 + random() % 4, vocab));
      break;
    case 4:
      spec.task = random() % 2 ? Task::kEmbed : Task::kWarm;
      break;
    default:
      spec.task = Task::kGenerate;
      spec.sampling.max_tokens = 1 + static_cast<int32_t>(random() % 6);
      spec.sampling.logprobs = true;
  }
  return spec;
}

}  // namespace prefix::testing_support
