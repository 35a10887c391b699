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

inline std::vector<float> vector_of(Engine& engine, const RequestSpec& spec) {
  const auto job = run_all(engine, {spec});
  EXPECT_EQ(job->result(0).status, Code::kOk) << job->result(0).message;
  return job->result(0).values;
}

}  // namespace prefix::testing_support
