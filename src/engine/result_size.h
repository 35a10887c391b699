// How many numbers a request reads: for those who make room for them, and for the gap that one
// leaves among others when it has failed. `model`: the ModelConfig, or the EngineInfo, which is
// there as long as jobs are.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/request.h"

namespace prefix {

// Of a vector of an embedding before `dimensions` cuts it.
template <typename Model>
int32_t vector_width(const RequestSpec& spec, const Model& model) {
  const bool dense = spec.goes_dense(model.dense_of_tokens) && model.dense_width > 0;
  return dense ? model.dense_width : model.hidden;
}

// Of one vector of an embedding, or of what a head makes of it.
template <typename Model>
size_t embedding_width(const RequestSpec& spec, const Model& model) {
  const int32_t width = vector_width(spec, model);
  const int32_t cut = spec.dimensions > 0 ? std::min(spec.dimensions, width) : width;
  return static_cast<size_t>(spec.head ? model.labels : cut);
}

// Tokens that a request for log-probs scores.
inline size_t scored_tokens(const RequestSpec& spec) {
  const auto from = static_cast<size_t>(std::max(spec.from, 0));
  return spec.tokens.size() > from ? spec.tokens.size() - from : 0;
}

// Of RequestResult::values, also of a request that was refused.
template <typename Model>
size_t value_count(const RequestSpec& spec, const Model& model) {
  switch (spec.task) {
    case Task::kLogits:
      return spec.logit_ids.size();
    case Task::kLogprobs:
      return scored_tokens(spec);
    case Task::kChoices:
      return spec.choices.size();
    case Task::kEmbed:
      return spec.vectors() * embedding_width(spec, model);
    case Task::kGenerate:
    case Task::kWarm:
      break;
  }
  return 0;
}

}  // namespace prefix
