#include "engine/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

namespace prefix {
namespace {

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
  EXPECT_EQ(log_sum_exp(std::vector<float>{-INFINITY, -INFINITY}), -INFINITY);
}

TEST(Argmax, TakesTheFirstOfEqualsAndReportsNaN) {
  EXPECT_EQ(argmax(std::vector<float>{1, 3, 3, 2}), 1);
  EXPECT_EQ(argmax(std::vector<float>{1, NAN, 3}), -1);
}

std::map<int32_t, int> draws(const Sampling& options, const std::vector<float>& logits, int n) {
  std::map<int32_t, int> counts;
  for (int i = 0; i < n; ++i) ++counts[sample(logits, options, {}, i).token];
  return counts;
}

TEST(Sample, GreedyIsTheLargestAndItsLogprobIsTheModels) {
  const std::vector<float> logits{0, 2, 1};
  Sampling greedy;
  greedy.logprobs = true;
  const Sampled s = sample(logits, greedy, {}, 0);
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

TEST(Sample, RepetitionPenaltyDividesPositiveAndMultipliesNegativeLogits) {
  Sampling options;
  options.repetition_penalty = 2;
  EXPECT_EQ(sample(std::vector<float>{3, 2, -1}, options, std::vector<int32_t>{0, 0}, 0).token, 1);
  EXPECT_EQ(sample(std::vector<float>{-1, -1.5f}, options, std::vector<int32_t>{0}, 0).token, 1);
}

TEST(Sample, SeedAndIndexDecideNotHistory) {
  Sampling options;
  options.temperature = 1;
  options.seed = 42;
  const std::vector<float> logits(50, 0.0f);
  const std::vector<int32_t> seen{1, 2, 3};
  EXPECT_EQ(sample(logits, options, {}, 7).token, sample(logits, options, seen, 7).token);
}

}  // namespace
}  // namespace prefix
