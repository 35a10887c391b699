// What the tests of engines on the emulated GPU share.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/engine_support.h"
#include "kernels/gpu_support.h"
#include "support/expect_error.h"

namespace prefix {

using ops::testing::EmulatedCuda;
using testing_support::expect_error;
using testing_support::logits_of;
using testing_support::make_engine;
using testing_support::random_tokens;
using testing_support::run_all;
using testing_support::tiny_checkpoint;
using testing_support::TinyCheckpoint;

// Of all requests, which must succeed.
inline std::vector<RequestResult> results_of(Engine& engine,
                                             const std::vector<RequestSpec>& batch) {
  const auto job = run_all(engine, batch);
  std::vector<RequestResult> results;
  for (size_t i = 0; i < batch.size(); ++i) {
    results.push_back(job->result(i));
    EXPECT_EQ(results.back().status, Code::kOk) << results.back().message;
  }
  return results;
}

// Of one that generates so many tokens, whatever they are.
inline RequestSpec generation(std::vector<int32_t> tokens, int32_t max_tokens) {
  return {.tokens = std::move(tokens), .sampling = {.max_tokens = max_tokens, .ignore_eos = true}};
}

class EmulatedEngine : public ::testing::Test {
 protected:
  // With device=cuda and more options.
  static std::shared_ptr<Engine> make(testing_support::OptionList more = {},
                                      const TinyCheckpoint& checkpoint = tiny_checkpoint()) {
    return Engine::create(checkpoint.path(), options(more), nullptr);
  }
  static Options options(testing_support::OptionList more) {
    Options all = testing_support::make_options({{"device", "cuda"}});
    for (const auto& [key, value] : more) all.set(key, value);
    return all;
  }
  std::vector<int32_t> tokens(size_t count, int32_t vocab = 64) {
    return random_tokens(random_, count, vocab);
  }
  ops::gpu::EmulatedRuntime& gpu() { return cuda_.runtime(); }
  const ops::gpu::EmulatorCounters& counters() { return gpu().counters(); }

  EmulatedCuda cuda_;
  std::mt19937 random_{9};
};

}  // namespace prefix
