// Small models with recurrent layers, and engines with them.
#pragma once

#include <memory>
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

inline std::vector<int32_t> joined(std::vector<int32_t> a, const std::vector<int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
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

}  // namespace prefix::testing_support
