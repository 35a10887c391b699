// The likeliest tokens of each place, against whole rows of logits, whatever draws the tokens.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "engine/engine_support.h"
#include "engine/generation_support.h"
#include "ops/host_logits.h"
#include "support/expect_error.h"
#include "support/tiny_engine.h"

namespace prefix {
namespace {

using namespace testing_support;
using Tokens = std::vector<int32_t>;

constexpr int32_t kTokens = 131;  // of the model

class TopLogprobs : public testing::Test {
 protected:
  static RequestSpec generation(Tokens prompt, int32_t max_tokens, int32_t top) {
    RequestSpec spec;
    spec.tokens = std::move(prompt);
    spec.sampling.max_tokens = max_tokens;
    spec.sampling.ignore_eos = true;
    spec.sampling.logprobs = true;
    spec.sampling.seed = 9;
    spec.top_logprobs = top;
    return spec;
  }
  static RequestSpec score(Tokens tokens, int32_t from, int32_t top) {
    RequestSpec spec;
    spec.task = Task::kLogprobs;
    spec.tokens = std::move(tokens);
    spec.from = from;
    spec.top_logprobs = top;
    return spec;
  }

  // The logits of all tokens behind these.
  std::vector<float> row(const Tokens& tokens) {
    RequestSpec spec = logits_of(tokens);
    spec.logit_ids.resize(kTokens);
    std::iota(spec.logit_ids.begin(), spec.logit_ids.end(), 0);
    return values_of(*engine, spec);
  }

  // Of the place behind `tokens`.
  void expect_place(const RequestResult& result, size_t place, size_t k, const Tokens& tokens) {
    const std::vector<float> logits = row(tokens);
    std::vector<ops::Candidate> all;
    for (int32_t id = 0; id < kTokens; ++id) all.push_back({id, logits[static_cast<size_t>(id)]});
    std::ranges::stable_sort(all, [](auto a, auto b) { return a.logit > b.logit; });
    for (size_t i = 0; i < k; ++i) {
      const size_t at = place * k + i;
      ASSERT_EQ(result.top_tokens[at], all[i].id) << "place " << place << ", rank " << i;
      ASSERT_EQ(result.top_logprobs[at],
                static_cast<float>(all[i].logit - ops::log_sum_exp(logits)));
    }
  }

  void expect_generation(const RequestSpec& spec) {
    const auto job = run_all(*engine, {spec});
    const RequestResult& result = job->result(0);
    ASSERT_EQ(result.status, Code::kOk) << result.message;
    const auto k = static_cast<size_t>(spec.top_logprobs);
    ASSERT_EQ(result.top_tokens.size(), result.tokens.size() * k);
    ASSERT_EQ(result.top_logprobs.size(), result.tokens.size() * k);
    Tokens tokens = spec.tokens;
    for (size_t place = 0; place < result.tokens.size(); ++place) {
      expect_place(result, place, k, tokens);
      const auto first = result.top_tokens.begin() + static_cast<ptrdiff_t>(place * k);
      const auto drawn = std::find(first, first + static_cast<ptrdiff_t>(k), result.tokens[place]) -
                         result.top_tokens.begin();
      if (static_cast<size_t>(drawn) < (place + 1) * k) {
        ASSERT_EQ(result.top_logprobs[static_cast<size_t>(drawn)], result.token_logprobs[place]);
      }
      tokens.push_back(result.tokens[place]);
    }
  }

  const std::shared_ptr<Engine> engine = make_engine(tiny_checkpoint());
};

TEST_F(TopLogprobs, OfAGenerationAreThoseOfTheRowHoweverItIsDrawnFrom) {
  SumsConstraint sums;
  for (const int32_t top : {1, 5, kTokens}) {
    RequestSpec spec = generation({1, 2, 3}, 5, top);
    expect_generation(spec);
    spec.sampling.repetition_penalty = 1.5f;
    expect_generation(spec);
    spec.sampling.temperature = 3;
    expect_generation(spec);
    spec.sampling.top_k = 40;
    expect_generation(spec);
    spec.sampling.repetition_penalty = 1;
    expect_generation(spec);
    spec.constraint = sums.constraint();
    expect_generation(spec);
    spec.sampling.logit_bias = {{7, 100}};
    spec.sampling.temperature = 0;
    expect_generation(spec);
    if (HasFatalFailure()) return;
  }
}

TEST_F(TopLogprobs, OfScoresAreThoseOfTheRow) {
  std::mt19937 random(4);
  const Tokens tokens = random_tokens(random, 40, kTokens);
  const auto plain = run_all(*engine, {score(tokens, 3, 0)});
  EXPECT_TRUE(plain->result(0).top_tokens.empty());
  for (const int32_t top : {1, 7, kTokens}) {
    const auto job = run_all(*engine, {score(tokens, 3, top)});
    const RequestResult& result = job->result(0);
    ASSERT_EQ(result.status, Code::kOk) << result.message;
    EXPECT_TRUE(same_bits(result.values, plain->result(0).values));
    ASSERT_EQ(result.top_tokens.size(), 37 * static_cast<size_t>(top));
    for (size_t place = 0; place < 37; ++place)
      ASSERT_NO_FATAL_FAILURE(
          expect_place(result, place, static_cast<size_t>(top), first_tokens(tokens, place + 3)));
  }
}

// Requests of one row that keep other numbers of them, beside one that draws from the likeliest.
TEST_F(TopLogprobs, EachRequestHasAsManyAsItAskedFor) {
  const Tokens tokens = {4, 5, 6, 7};
  std::vector<RequestSpec> batch;
  for (const int32_t top : {2, 0, 9, 1}) {
    batch.push_back(generation(tokens, 3, top));
    batch.push_back(score({4, 5, 6, 7, 8}, 4, top));
  }
  batch.push_back(generation(tokens, 3, 3));
  batch.back().sampling.temperature = 1;
  batch.back().sampling.top_k = 50;
  const auto job = run_all(*engine, batch);
  for (size_t i = 0; i < batch.size(); ++i)
    EXPECT_TRUE(same_bits(job->result(i), run_all(*engine, {batch[i]})->result(0))) << i;
  EXPECT_EQ(job->result(4).top_tokens.size(), 27u);
  EXPECT_EQ(job->result(5).top_tokens.size(), 9u);
}

TEST_F(TopLogprobs, MoreThanThereAreTokensAreRefused) {
  for (const int32_t top : {-1, kTokens + 1, 100000})
    for (const RequestSpec& spec : {generation({1}, 1, top), score({1, 2}, 1, top)}) {
      const auto job = run_all(*engine, {spec, logits_of({1})});
      EXPECT_EQ(job->result(0).status, Code::kOutOfRange);
      EXPECT_EQ(
          job->result(0).message,
          cat("top_logprobs is ", top, "; it must lie in [0, 131], the vocabulary has 131 tokens"));
      EXPECT_EQ(job->result(1).status, Code::kOk);
    }
}

// Each place can be read as soon as its token is told of, while others are still to come.
TEST_F(TopLogprobs, ArePlaceByPlaceThereWithTheirTokens) {
  constexpr int32_t kTop = 3;
  auto job = engine->submit({generation({1, 2}, 600, kTop)});
  std::vector<Tokens> seen;
  expect_error(Code::kOutOfRange, {"place 600", "request 0"},
               [&] { job->read_top(0, 600, [](auto, auto) {}); });
  while (const std::optional<Event> event = job->next_event(-1)) {
    if (event->kind != Event::kToken) continue;
    job->read_top(0, seen.size(), [&](auto tokens, auto logprobs) {
      EXPECT_EQ(logprobs.size(), tokens.size());
      EXPECT_EQ(logprobs[0], event->logprob);  // greedy
      seen.emplace_back(tokens.begin(), tokens.end());
    });
  }
  Tokens all;
  for (const Tokens& tokens : seen) all.insert(all.end(), tokens.begin(), tokens.end());
  EXPECT_EQ(seen.size(), 600u);
  EXPECT_EQ(all, job->result(0).top_tokens);
}

// generate with max_tokens = 1: what a search over continuations goes on with.
TEST_F(TopLogprobs, OneTokenAtATimeIsASearchByTheCaller) {
  const Tokens prompt = {3, 1, 4};
  struct Beam {
    Tokens tokens;
    double sum;
  };
  const auto extended = [&](const std::vector<Beam>& beams, const auto& top_of) {
    std::vector<Beam> next;
    for (const Beam& beam : beams)
      for (const auto& [token, logprob] : top_of(beam.tokens)) {
        next.push_back({beam.tokens, beam.sum + logprob});
        next.back().tokens.push_back(token);
      }
    std::ranges::stable_sort(next, [](const Beam& a, const Beam& b) { return a.sum > b.sum; });
    next.resize(3);
    return next;
  };
  using Top = std::vector<std::pair<int32_t, float>>;
  const auto asked = [&](const Tokens& tokens) {
    const auto job = run_all(*engine, {generation(tokens, 1, 3)});
    Top top;
    for (size_t i = 0; i < 3; ++i)
      top.emplace_back(job->result(0).top_tokens[i], job->result(0).top_logprobs[i]);
    return top;
  };
  const auto by_rows = [&](const Tokens& tokens) {
    const std::vector<float> logits = row(tokens);
    std::vector<ops::Candidate> best;
    ops::top_candidates(logits, 3, best);
    Top top;
    for (const ops::Candidate& c : best)
      top.emplace_back(c.id, static_cast<float>(c.logit - ops::log_sum_exp(logits)));
    return top;
  };
  std::vector<Beam> a = {{prompt, 0}}, b = a;
  for (int depth = 0; depth < 4; ++depth) {
    a = extended(a, asked);
    b = extended(b, by_rows);
  }
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(a[i].tokens, b[i].tokens);
}

}  // namespace
}  // namespace prefix
