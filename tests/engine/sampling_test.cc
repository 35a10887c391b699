#include "engine/sampling/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

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

// What sample() says of the whole row, from the candidates and the logits of tokens seen alone.
Sampled from_candidates(const std::vector<float>& logits, const Sampling& options,
                        const std::vector<int32_t>& seen, int64_t index, bool* enough) {
  const auto vocab = static_cast<int32_t>(logits.size());
  std::vector<ops::Candidate> likely, kept;
  ops::top_candidates(logits, static_cast<size_t>(candidates_for(options, vocab)), likely);
  const std::vector<int32_t> ids = distinct_tokens(seen);
  std::vector<float> seen_logits;
  for (const int32_t id : ids) seen_logits.push_back(logits[static_cast<size_t>(id)]);
  const int32_t k = options.temperature > 0 ? std::min(options.top_k, vocab) : 1;
  *enough = true;
  if (options.repetition_penalty != 1) {
    *enough = penalised_candidates(likely, static_cast<int32_t>(likely.size()) == vocab, ids,
                                   seen_logits, options.repetition_penalty, k, kept);
  } else {
    kept = likely;
  }
  return {*enough ? choose(kept, options, index) : -1, 0};
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
    options.seed = static_cast<int64_t>(random());
    std::vector<int32_t> seen(random() % (trial % 4 == 0 ? 2000 : 30));
    for (int32_t& id : seen) id = static_cast<int32_t>(random() % logits.size());
    bool enough = false;
    const Sampled got = from_candidates(logits, options, seen, trial, &enough);
    ++(enough ? told : untold);
    if (!enough) continue;
    ASSERT_EQ(got.token, sample(logits, options, seen, trial).token) << trial;
  }
  EXPECT_GT(told, 3500);  // the others read the row
  EXPECT_GT(untold, 10);
}

TEST(Sample, OnlyTopKNeedsLessThanTheRow) {
  Sampling options;
  EXPECT_EQ(candidates_for(options, 1000), 1);
  options.temperature = 1;
  EXPECT_EQ(candidates_for(options, 1000), 0);
  options.top_k = 40;
  EXPECT_EQ(candidates_for(options, 1000), 40);
  EXPECT_EQ(candidates_for(options, 30), 30);
  options.repetition_penalty = 1.1f;
  EXPECT_EQ(candidates_for(options, 1000), 256);
  options.top_k = 257;
  EXPECT_EQ(candidates_for(options, 1000), 0);
}

}  // namespace
}  // namespace prefix
