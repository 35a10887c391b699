// What the tests of the engine share.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "support/cases.h"
#include "support/tiny_engine.h"

namespace prefix::testing_support {

inline std::vector<int32_t> random_tokens(std::mt19937& random, size_t n, int32_t vocab) {
  std::vector<int32_t> tokens(n);
  for (int32_t& t : tokens) t = static_cast<int32_t>(random() % static_cast<unsigned>(vocab));
  return tokens;
}

inline std::vector<int32_t> first_tokens(const std::vector<int32_t>& tokens, size_t n) {
  return {tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(n)};
}

inline std::vector<int32_t> joined(std::vector<int32_t> a, const std::vector<int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline RequestSpec logits_of(std::vector<int32_t> tokens, int32_t name_space = 0) {
  RequestSpec spec;
  spec.task = Task::kLogits;
  spec.tokens = std::move(tokens);
  spec.name_space = name_space;
  spec.logit_ids = {0, 1, 2};
  return spec;
}

inline std::shared_ptr<Job> run_all(Engine& engine, std::vector<RequestSpec> batch) {
  auto job = engine.submit(std::move(batch));
  job->wait(-1);
  return job;
}

// Of one request, which must succeed.
inline std::vector<float> values_of(Engine& engine, const RequestSpec& spec) {
  const auto job = run_all(engine, {spec});
  EXPECT_EQ(job->result(0).status, Code::kOk) << job->result(0).message;
  return job->result(0).values;
}

// The logits of the first `ids` ids behind a text of n tokens, of a model with 64 ids at least.
inline RequestSpec many_logits(int32_t n, int32_t ids) {
  RequestSpec spec;
  spec.task = Task::kLogits;
  for (int32_t i = 0; i < n; ++i) spec.tokens.push_back(1 + i * 5 % 60);
  for (int32_t id = 0; id < ids; ++id) spec.logit_ids.push_back(id);
  return spec;
}

inline CacheInfo look_up(Engine& engine, const std::vector<int32_t>& tokens,
                         int32_t name_space = 0) {
  return engine.cache_lookup(name_space, tokens.data(), tokens.size());
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

inline bool same_bits(const RequestResult& a, const RequestResult& b) {
  return a.status == b.status && a.tokens == b.tokens && same_bits(a.values, b.values) &&
         same_bits(a.token_logprobs, b.token_logprobs) && a.top_tokens == b.top_tokens &&
         same_bits(a.top_logprobs, b.top_logprobs);
}

}  // namespace prefix::testing_support
