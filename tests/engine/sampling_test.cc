#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>

#include "engine/sampling/sampler.h"
#include "ops/host_logits.h"

namespace prefix {
namespace {

using ops::argmax;
using ops::log_sum_exp;

TEST(LogSumExp, AgreesWithDoubleArithmetic) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 8);
  for (size_t n : {1u, 2u, 15u, 16u, 17u, 1000u, 49152u}) {
    std::vector<float> x(n);
    for (float& v : x) v = normal(random);
    double sum = 0;
    for (float v : x) sum += std::exp(static_cast<double>(v));
    EXPECT_NEAR(log_sum_exp(x), std::log(sum), 1e-6) << n;
  }
  // Every term but one in the same place between two powers of two: errors there cannot hide.
  for (const float below : {0.1f, 0.2f, 0.3f, 0.34f, 0.5f, 3.0f}) {
    std::vector<float> x(1001, -below);
    x[0] = 0;
    EXPECT_NEAR(log_sum_exp(x), std::log(1 + 1000 * std::exp(-static_cast<double>(below))), 1e-6)
        << below;
  }
  EXPECT_EQ(log_sum_exp(std::vector<float>{-INFINITY, -INFINITY}), -INFINITY);
}

TEST(Argmax, TakesTheFirstOfEqualsAndReportsNaN) {
  EXPECT_EQ(argmax(std::vector<float>{1, 3, 3, 2}), 1);
  EXPECT_EQ(argmax(std::vector<float>{1, NAN, 3}), -1);
}

// A sort of a range without an order may leave the range: the address sanitizer looks on.
TEST(Candidates, ARowWithNaNKeepsInsideItsMemory) {
  for (const size_t n : {3u, 17u, 200u}) {
    std::vector<float> x(n);
    for (size_t i = 0; i < n; ++i) x[i] = i % 3 == 0 ? NAN : -static_cast<float>(i);
    std::vector<ops::Candidate> found;
    ops::top_candidates(x, n, found);
    ASSERT_EQ(found.size(), n);
    EXPECT_EQ(found[0].id, 1);
    EXPECT_EQ(found.back().logit, -INFINITY);
  }
}

// The next token after a prompt.
Sampled sample(const std::vector<float>& logits, const Sampling& options,
               const std::vector<int32_t>& prompt = {}) {
  return Sampler(options, prompt).sample(logits);
}

std::map<int32_t, int> draws(const Sampling& options, const std::vector<float>& logits, int n) {
  std::map<int32_t, int> counts;
  Sampler sampler(options, {});
  for (int i = 0; i < n; ++i) {
    const int32_t token = sampler.sample(logits).token;
    ++counts[token];
    sampler.accept(token);
  }
  return counts;
}

TEST(Sample, GreedyIsTheLargestAndItsLogprobIsTheModels) {
  const std::vector<float> logits{0, 2, 1};
  Sampling greedy;
  greedy.logprobs = true;
  const Sampled s = sample(logits, greedy);
  EXPECT_EQ(s.token, 1);
  EXPECT_NEAR(s.logprob, 2 - std::log(1 + std::exp(2.0) + std::exp(1.0)), 1e-6);
}

TEST(Sample, FrequenciesFollowTheDistribution) {
  Sampling options;
  options.temperature = 1;
  const std::vector<float> logits{std::log(0.5f), std::log(0.3f), std::log(0.2f)};
  const auto counts = draws(options, logits, 20000);
  EXPECT_NEAR(counts.at(0), 10000, 400);
  EXPECT_NEAR(counts.at(1), 6000, 400);
  EXPECT_NEAR(counts.at(2), 4000, 400);
}

TEST(Sample, TopKTopPAndMinPCutTheTail) {
  const std::vector<float> logits{std::log(0.5f), std::log(0.3f), std::log(0.15f), std::log(0.05f)};
  Sampling options;
  options.temperature = 1;
  options.top_k = 2;
  EXPECT_EQ(draws(options, logits, 2000).size(), 2u);
  options.top_k = 0;
  options.top_p = 0.6f;
  EXPECT_EQ(draws(options, logits, 2000).size(), 2u);
  options.top_p = 1;
  options.min_p = 0.25f;
  EXPECT_EQ(draws(options, logits, 2000).size(), 3u);
  options.min_p = 0;
  options.top_p = 1e-6f;
  EXPECT_EQ(draws(options, logits, 100).size(), 1u);
}

// A token that is as likely as the first one is not below any share of it.
TEST(Sample, MinPKeepsWhatIsEquallyLikely) {
  Sampling options;
  options.temperature = 1;
  options.min_p = 1;
  EXPECT_EQ(draws(options, {1, 3, 2, 3}, 200).size(), 2u);
  EXPECT_EQ(draws(options, {1, 3, 2, 2.999f}, 200).size(), 1u);
}

TEST(Sample, RepetitionPenaltyDividesPositiveAndMultipliesNegativeLogits) {
  Sampling options;
  options.repetition_penalty = 2;
  EXPECT_EQ(sample({3, 2, -1}, options, {0, 0}).token, 1);
  EXPECT_EQ(sample({-1, -1.5f}, options, {0}).token, 1);
}

TEST(Sample, SeedAndIndexDecideNotHistory) {
  Sampling options;
  options.temperature = 1;
  options.seed = 42;
  const std::vector<float> logits(50, 0.0f);
  Sampler a(options, {}), b(options, std::vector<int32_t>{1, 2, 3});
  for (int32_t i = 0; i < 7; ++i) {
    a.accept(i);
    b.accept(40 - i);
  }
  EXPECT_EQ(a.sample(logits).token, b.sample(logits).token);
}

TEST(Sample, AnAcceptedTokenIsPenalisedAsOneOfThePrompt) {
  Sampling options;
  options.repetition_penalty = 2;
  Sampler sampler(options, std::vector<int32_t>{5, 1});
  for (const int32_t token : {3, 1, 9, 3}) sampler.accept(token);
  EXPECT_EQ(sampler.tokens(), (std::vector<int32_t>{1, 3, 5, 9}));
  Sampler twice(options, {});
  for (int i = 0; i < 2; ++i) twice.accept(0);
  EXPECT_EQ(twice.sample(std::vector<float>{4, 1.5f}).token, 0);  // divided by 2, not by 4
}

// Even tokens after odd ones, odd ones after even ones.
class Alternation final : public LogitsProcessor {
 public:
  std::optional<std::span<const int32_t>> tokens() const override { return std::nullopt; }
  void process(const Logits& logits) override {
    for (size_t i = 0; i < logits.values.size(); ++i)
      if (i % 2 == (odd_ ? 0 : 1)) logits.values[i] = -INFINITY;
  }
  void accept(int32_t token) override { odd_ = token % 2 == 0; }

 private:
  bool odd_ = false;
};

TEST(Sample, AMaskForbidsTokensAndNeedsTheRow) {
  const std::vector<float> logits{1, 5, 3, 4};
  for (const float temperature : {0.0f, 1.0f}) {
    Sampling options;
    options.temperature = temperature;
    options.top_k = 3;
    Sampler sampler(options, {});
    EXPECT_GT(sampler.candidates(4), 0);
    sampler.add(std::make_unique<Alternation>());
    EXPECT_EQ(sampler.candidates(4), 0);
    EXPECT_EQ(sampler.tokens(), std::vector<int32_t>{});
    for (int32_t i = 0; i < 100; ++i) {
      const int32_t token = sampler.sample(logits).token;
      ASSERT_EQ(token % 2, i % 2);
      if (temperature == 0) {
        ASSERT_EQ(token, i % 2 == 0 ? 2 : 1);
      }
      sampler.accept(token);
    }
  }
}

// Halves the logits of two tokens.
class Halving final : public LogitsProcessor {
 public:
  std::optional<std::span<const int32_t>> tokens() const override { return kTokens; }
  void process(const Logits& logits) override {
    logits.for_each(kTokens, [](float& logit, size_t) { logit /= 2; });
  }
  void accept(int32_t) override {}

 private:
  static constexpr int32_t kTokens[] = {0, 2};
};

// What the sampler reads of a row when it does not read all of it.
std::optional<ops::Candidate> from_part(const std::vector<float>& logits, Sampler& sampler) {
  const auto vocab = static_cast<int32_t>(logits.size());
  std::vector<ops::Candidate> likely;
  ops::top_candidates(logits, static_cast<size_t>(sampler.candidates(vocab)), likely);
  const std::vector<int32_t> tokens = sampler.tokens();
  std::vector<float> of_tokens;
  for (const int32_t id : tokens) of_tokens.push_back(logits[static_cast<size_t>(id)]);
  return sampler.sample({likely, likely.size() == logits.size(), tokens, of_tokens});
}

// False for one of stop_tokens where min_tokens are not there yet.
bool sampled_before_ends(const Sampling& options, int32_t id, size_t generated) {
  return static_cast<int32_t>(generated) >= options.min_tokens ||
         std::ranges::find(options.stop_tokens, id) == options.stop_tokens.end();
}

TEST(Sample, CandidatesSayTheSameAsTheWholeRow) {
  std::mt19937 random(3);
  const auto pick = [&](auto... values) {
    const double all[] = {static_cast<double>(values)...};
    return all[random() % (sizeof all / sizeof all[0])];
  };
  int told = 0, untold = 0;
  for (int trial = 0; trial < 4000; ++trial) {
    std::vector<float> logits(static_cast<size_t>(pick(1, 2, 40, 256, 257, 300, 1000)));
    const bool coarse = random() % 3 == 0;
    for (float& v : logits) {
      v = std::normal_distribution<float>(0, 2)(random);
      if (coarse) v = std::round(v);
    }
    Sampling options;
    options.temperature = static_cast<float>(pick(0, 0.3, 1, 5));
    options.top_k = static_cast<int32_t>(pick(1, 2, 20, 256));
    options.top_p = static_cast<float>(pick(1, 1, 0.9, 0.3));
    options.min_p = static_cast<float>(pick(0, 0, 0.1));
    options.repetition_penalty = static_cast<float>(pick(1, 1.1, 0.8, 3, 0.01, 100));
    options.presence_penalty = static_cast<float>(pick(0, 0, 2, -2));
    options.frequency_penalty = static_cast<float>(pick(0, 0, 0.3, -0.3));
    for (size_t id = 0; trial % 3 == 0 && id < logits.size(); id += 1 + random() % 90)
      options.logit_bias.push_back(
          {static_cast<int32_t>(id), static_cast<float>(pick(1, 5, -5, -100))});
    options.min_tokens = static_cast<int32_t>(pick(0, 0, 5));
    options.stop_tokens = {static_cast<int32_t>(random() % logits.size()), 0};
    options.seed = static_cast<int64_t>(random());
    std::vector<int32_t> seen(random() % (trial % 4 == 0 ? 2000 : 30));
    for (int32_t& id : seen) id = static_cast<int32_t>(random() % logits.size());
    const size_t prompt = seen.empty() ? 0 : random() % seen.size();
    Sampler sampler(options, std::span(seen).first(prompt));
    for (size_t i = prompt; i < seen.size(); ++i) sampler.accept(seen[i]);
    if (logits.size() > 2 && random() % 4 == 0) sampler.add(std::make_unique<Halving>());
    const auto got = from_part(logits, sampler);
    ++(got ? told : untold);
    if (!got) continue;
    ASSERT_TRUE(sampled_before_ends(options, got->id, seen.size() - prompt)) << trial;
    ASSERT_EQ(got->id, sampler.sample(logits).token) << trial;
    ASSERT_EQ(got->logit, logits[static_cast<size_t>(got->id)]) << trial;
  }
  EXPECT_GT(told, 3500);  // the others read the row
  EXPECT_GT(untold, 10);
}

TEST(Sample, OnlyTopKNeedsLessThanTheRow) {
  Sampling options;
  const auto candidates = [&](int32_t vocab) { return Sampler(options, {}).candidates(vocab); };
  EXPECT_EQ(candidates(1000), 1);
  options.temperature = 1;
  EXPECT_EQ(candidates(1000), 0);
  options.top_k = 40;
  EXPECT_EQ(candidates(1000), 40);
  EXPECT_EQ(candidates(30), 30);
  options.repetition_penalty = 1.1f;
  EXPECT_EQ(candidates(1000), 256);
  options.top_k = 257;
  EXPECT_EQ(candidates(1000), 0);
}

}  // namespace
}  // namespace prefix
