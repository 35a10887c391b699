// What the options of a generation make of a row of logits before a token is drawn, against their
// definitions, each written down once more over a whole row.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "engine/sampling/draw.h"
#include "engine/sampling/sampler.h"
#include "ops/host_logits.h"
#include "support/cases.h"

namespace prefix {
namespace {

using Tokens = std::vector<int32_t>;

bool has(const Tokens& list, size_t token) {
  return std::ranges::find(list, static_cast<int32_t>(token)) != list.end();
}

std::vector<float> changed(std::vector<float> row, const Sampling& o, const Tokens& prompt,
                           const Tokens& generated, const Tokens& ends) {
  for (size_t token = 0; token < row.size(); ++token) {
    float& logit = row[token];
    const auto count = std::ranges::count(generated, static_cast<int32_t>(token));
    if (has(prompt, token) || count > 0)
      logit = logit > 0 ? logit / o.repetition_penalty : logit * o.repetition_penalty;
    if (count > 0) logit -= o.presence_penalty + o.frequency_penalty * static_cast<float>(count);
    for (const LogitBias& one : o.logit_bias)
      if (one.token == static_cast<int32_t>(token)) logit += one.bias;
    if (!o.allowed_tokens.empty() && !has(o.allowed_tokens, token)) logit = -INFINITY;
    const bool would_end = has(o.stop_tokens, token) || (!o.ignore_eos && has(ends, token));
    if (std::ssize(generated) < o.min_tokens && would_end) logit = -INFINITY;
  }
  return row;
}

// -1: all are forbidden.
int32_t token_of(const std::vector<float>& row, const Sampling& o, size_t index) {
  std::vector<ops::Candidate> list;
  for (size_t token = 0; token < row.size(); ++token)
    if (row[token] != -INFINITY) list.push_back({static_cast<int32_t>(token), row[token]});
  if (list.empty()) return -1;
  std::ranges::stable_sort(list, [](auto a, auto b) { return a.logit > b.logit; });
  if (o.temperature == 0) return list.front().id;
  if (o.top_k > 0 && o.top_k < std::ssize(list)) list.resize(static_cast<size_t>(o.top_k));
  return draw(list, o, static_cast<int64_t>(index));
}

class Chain : public testing::Test {
 protected:
  template <typename... Values>
  float pick(Values... values) {
    const double all[] = {static_cast<double>(values)...};
    return static_cast<float>(all[random() % sizeof...(values)]);
  }
  Tokens some(size_t most, size_t vocab) {
    Tokens tokens(random() % (most + 1));
    for (int32_t& token : tokens) token = static_cast<int32_t>(random() % vocab);
    return tokens;
  }
  Sampling options(size_t vocab) {
    Sampling o;
    o.temperature = pick(0, 0.5, 1, 20);
    o.top_k = static_cast<int32_t>(pick(0, 1, 3, 1000));
    o.repetition_penalty = pick(1, 1.3, 0.7);
    o.presence_penalty = pick(0, 0.5, 2, -2);
    o.frequency_penalty = pick(0, 0.25, 2, -2);
    if (random() % 2 == 0)
      for (size_t token = random() % 5; token < vocab; token += 1 + random() % 20)
        o.logit_bias.push_back(
            {static_cast<int32_t>(token), pick(-100, -1, 0.5, 3, token % 7 == 0 ? 100 : 1)});
    if (random() % 3 == 0) {
      const Tokens tokens = some(12, vocab);
      const std::set<int32_t> once(tokens.begin(), tokens.end());
      o.allowed_tokens.assign(once.begin(), once.end());
      std::shuffle(o.allowed_tokens.begin(), o.allowed_tokens.end(), random);
    }
    o.min_tokens = static_cast<int32_t>(pick(0, 2, 6));
    o.ignore_eos = random() % 2 == 0;
    o.stop_tokens = some(3, vocab);
    o.seed = static_cast<int64_t>(random());
    return o;
  }

  std::mt19937 random{11};
};

TEST_F(Chain, IsWhatItsOptionsAreDefinedAs) {
  int drawn = 0, refused = 0;
  for (int trial = 0; trial < testing_support::cases(300); ++trial) {
    const auto vocab = static_cast<size_t>(pick(1, 3, 40, 300));
    const Sampling o = options(vocab);
    const Tokens prompt = some(20, vocab), ends = some(3, vocab);
    Sampler sampler(o, prompt, ends);
    Tokens generated;
    for (size_t i = 0; i < 10; ++i) {
      std::vector<float> row(vocab);
      for (float& logit : row) logit = std::normal_distribution<float>(0, 3)(random);
      const int32_t wanted = token_of(changed(row, o, prompt, generated, ends), o, i);
      if (wanted < 0) {
        ++refused;
        try {
          sampler.sample(row);
          FAIL() << "trial " << trial << ": nothing is allowed";
        } catch (const Error& e) {
          ASSERT_EQ(e.code(), Code::kInvalidArgument);
        }
        break;
      }
      ++drawn;
      ASSERT_EQ(sampler.sample(row).token, wanted) << "trial " << trial << ", token " << i;
      sampler.accept(wanted);
      generated.push_back(wanted);
    }
  }
  EXPECT_GT(drawn, testing_support::cases(1000));
  EXPECT_GT(refused, testing_support::cases(10));
}

TEST_F(Chain, FrequencyCountsWhatWasGeneratedAndPresenceThatItWas) {
  Sampling o;
  o.presence_penalty = 1;
  o.frequency_penalty = 0.5;
  Sampler sampler(o, Tokens{0, 0, 0});
  const std::vector<float> row{4, 3, 0, 0};  // 0 has 2.5, 2, 1.5, 1 behind 1, 2, 3, 4 of it
  Tokens tokens;
  for (int i = 0; i < 6; ++i) {
    tokens.push_back(sampler.sample(row).token);
    sampler.accept(tokens.back());
  }
  EXPECT_EQ(tokens, (Tokens{0, 1, 0, 0, 0, 1}));
}

TEST_F(Chain, WhatIsForbiddenIsNeverDrawn) {
  for (const int32_t top_k : {0, 3, 40}) {
    Sampling o;
    o.temperature = 1000;
    o.top_k = top_k;
    o.allowed_tokens = {7, 2};
    Sampler sampler(o, {});
    std::map<int32_t, int> counts;
    const std::vector<float> row(40, 1.0f);
    for (int i = 0; i < 2000; ++i) {
      const int32_t token = sampler.sample(row).token;
      ++counts[token];
      sampler.accept(token);
    }
    EXPECT_EQ(counts.size(), 2u);
    EXPECT_GT(std::min(counts[2], counts[7]), 800);
  }
}

TEST_F(Chain, NothingEndsAGenerationBeforeItsLeastTokens) {
  Sampling o;
  o.min_tokens = 3;
  o.stop_tokens = {1, 0};
  const Tokens ends = {2, 0};
  const std::vector<float> row{9, 8, 7, 6};
  const auto first_end = [&] {
    Sampler sampler(o, {}, ends);
    for (int32_t i = 0;; ++i) {
      const int32_t token = sampler.sample(row).token;
      if (token == 0) return i;
      EXPECT_EQ(token, o.ignore_eos && i < o.min_tokens ? 2 : 3);
      sampler.accept(token);
    }
  };
  EXPECT_EQ(first_end(), 3);
  o.ignore_eos = true;  // then 2 ends nothing
  EXPECT_EQ(first_end(), 3);
  o.min_tokens = 0;
  EXPECT_EQ(first_end(), 0);
}

// The log-prob of what was drawn is the model's, whatever the options made of its logits.
TEST_F(Chain, LogprobsAreThoseOfTheModel) {
  Sampling o;
  o.logprobs = true;
  o.logit_bias = {{1, 50}};
  o.allowed_tokens = {1, 2};
  const std::vector<float> row{5, 1, 2};
  const Sampled sampled = Sampler(o, {}).sample(row);
  EXPECT_EQ(sampled.token, 1);
  EXPECT_EQ(sampled.logprob, static_cast<float>(1 - ops::log_sum_exp(row)));
}

}  // namespace
}  // namespace prefix
