// Texts that are asked for their vectors, as they are before they get the length of one.
#pragma once

#include <utility>
#include <vector>

#include "engine_support.h"

namespace prefix::testing_support {

inline RequestSpec embedding(std::vector<int32_t> tokens, Pooling pooling, bool dense = true) {
  RequestSpec spec;
  spec.task = Task::kEmbed;
  spec.tokens = std::move(tokens);
  spec.pooling = pooling;
  spec.normalize = false;
  spec.dense = dense;
  return spec;
}

}  // namespace prefix::testing_support
