// prefix.hpp: the likeliest tokens of each place, biases, and constraints that are objects.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <memory>
#include <numeric>
#include <prefix.hpp>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "abi_support.h"

namespace prefix_abi {
namespace {

constexpr size_t kVocabulary = 131;

struct Likely {
  prefix_token token;
  double logprob;
};

// What an object that is made for each generation does with its tokens.
enum class Way { kEven, kNothing, kThrows, kThrowsANumber, kBeyond, kBelow };

class WithAWay : public prefix::ConstraintState {
 public:
  WithAWay(Way way, std::atomic<int>& living) : way_(way), living_(living) { ++living_; }
  ~WithAWay() override { --living_; }
  void allow(prefix::TokenMask& mask) override {
    EXPECT_EQ(mask.words().size(), 5u);
    if (way_ == Way::kNothing) return;
    if (way_ == Way::kBeyond) mask.allow(5 * 32);
    if (way_ == Way::kBelow) mask.allow(-1);
    for (size_t id = 0; id < kVocabulary; id += 2) mask.allow(static_cast<prefix_token>(id));
  }
  void accept(prefix_token token) override {
    EXPECT_EQ(token % 2, 0);
    if (way_ == Way::kThrows) throw std::runtime_error("as the test wants");
    if (way_ == Way::kThrowsANumber) throw 5;  // NOLINT: whatever is thrown
  }

 private:
  Way way_;
  std::atomic<int>& living_;
};

class CppGeneration : public testing::Test {
 protected:
  CppGeneration() {
    options.max_tokens(4).ignore_eos(true);
    std::iota(ids.begin(), ids.end(), 0);
  }
  // The likeliest tokens after these, from the logits of all.
  std::vector<Likely> likeliest(const std::vector<prefix_token>& tokens, size_t count) {
    prefix::Batch all(engine);
    all.add_logits(tokens, ids);
    const std::vector<float> logits = engine.run(all).values(0);
    double sum = 0;
    for (const float logit : logits) sum += std::exp(double{logit});
    std::vector<Likely> list;
    for (size_t i = 0; i < logits.size(); ++i)
      list.push_back({ids[i], double{logits[i]} - std::log(sum)});
    std::stable_sort(list.begin(), list.end(),
                     [](const Likely& a, const Likely& b) { return a.logprob > b.logprob; });
    list.resize(count);
    return list;
  }
  void expect_likeliest(const std::vector<prefix::TopToken>& top,
                        const std::vector<prefix_token>& tokens, size_t count) {
    const std::vector<Likely> wanted = likeliest(tokens, count);
    ASSERT_EQ(top.size(), count);
    for (size_t i = 0; i < count; ++i) {
      EXPECT_EQ(top[i].token, wanted[i].token);
      EXPECT_NEAR(top[i].logprob, wanted[i].logprob, 1e-4);
    }
  }
  // The number of a generation that has a constraint.
  size_t add(Way way) {
    const prefix::Constraint constraint(
        [this, way] { return std::make_unique<WithAWay>(way, living); });
    const size_t request = batch.add_generate(prompt, {&options});
    batch.constrain(request, &constraint);
    return request;
  }

  std::atomic<int> living{0};
  const prefix::Options of_engine = prefix::Options().set("cache_bytes", "16M").set("threads", 1);
  prefix::Engine engine{model_path(), &of_engine};
  prefix::Options options;
  prefix::Batch batch{engine};
  const std::vector<prefix_token> prompt = {1, 5, 9};
  std::vector<prefix_token> ids = std::vector<prefix_token>(kVocabulary);
};

TEST_F(CppGeneration, TheLikeliestTokensAreThoseOfAllLogits) {
  batch.add_generate(prompt, {&options});
  options.top_logprobs(3);
  batch.add_generate(prompt, {&options});
  const prefix::Options three = prefix::Options().top_logprobs(3);
  batch.add_logprobs(prompt, 1, {&three});
  options.top_logprobs(kVocabulary);
  batch.add_generate(prompt, {&options});
  batch.add_generate(std::vector<prefix_token>{9999}, {&options});
  const prefix::Job job = engine.run(batch);
  const std::vector<prefix_token> generated = job.tokens(1);
  const auto top = job.top(1);
  ASSERT_EQ(top.size(), 4u);
  std::vector<prefix_token> before = prompt;
  for (size_t place = 0; place < 4; ++place) {
    expect_likeliest(top[place], before, 3);
    expect_likeliest(job.partial_top(1, place), before, 3);
    before.push_back(generated[place]);
  }
  ASSERT_EQ(job.top(2).size(), 2u);
  expect_likeliest(job.top(2)[0], {1}, 3);
  expect_likeliest(job.top(2)[1], {1, 5}, 3);
  expect_likeliest(job.top(3)[0], prompt, kVocabulary);
  EXPECT_TRUE(job.top(0).empty());
  EXPECT_THROW(job.top(4), prefix::Error);
  Error error;
  EXPECT_TRUE(job.top(4, &error).empty());
  EXPECT_EQ(error.code, PREFIX_ERR_OUT_OF_RANGE);
  EXPECT_TRUE(job.partial_top(1, 4, &error).empty());
  EXPECT_EQ(error.code, PREFIX_ERR_OUT_OF_RANGE);
}

TEST_F(CppGeneration, BiasesAreNumbersOfTokens) {
  const prefix_token best = likeliest(prompt, 1)[0].token;
  const std::array<prefix::TokenBias, 3> biases = {{{best, -100}, {77, 100}, {78, 2.5e-7}}};
  options.logit_bias(biases).max_tokens(1);
  EXPECT_EQ(options.value("logit_bias"), std::to_string(best) + ":-100,77:100,78:2.5e-07");
  batch.add_generate(prompt, {&options});
  EXPECT_EQ(engine.run(batch).tokens(0), std::vector<prefix_token>{77});
  const std::array<prefix::TokenBias, 1> beyond = {{{7, 100.5}}};
  EXPECT_THROW(options.logit_bias(beyond), prefix::Error);
  EXPECT_EQ(options.logit_bias({}).value("logit_bias"), "");
}

TEST_F(CppGeneration, AConstraintSaysWhichTokensCome) {
  add(Way::kEven);
  batch.add_generate(prompt, {&options});
  prefix::Job job = engine.run(batch);
  std::vector<prefix_token> before = prompt;
  for (const prefix_token token : job.tokens(0)) {
    const std::vector<Likely> all = likeliest(before, kVocabulary);
    const auto even = std::ranges::find_if(all, [](const Likely& l) { return l.token % 2 == 0; });
    EXPECT_EQ(token, even->token);
    before.push_back(token);
  }
  EXPECT_EQ(before.size(), prompt.size() + 4);
  const std::vector<prefix_token> free = job.tokens(1);
  EXPECT_NE(free, job.tokens(0));
  EXPECT_EQ(living, 0);
  batch.constrain(0, nullptr);
  EXPECT_EQ(engine.run(batch).tokens(0), free);
  EXPECT_THROW(batch.constrain(2, nullptr), prefix::Error);
}

TEST_F(CppGeneration, WhatAConstraintThrowsEndsItsRequestAlone) {
  const std::array<std::pair<Way, const char*>, 5> ways = {
      {{Way::kNothing, ""},
       {Way::kThrows, "accept answered -1"},
       {Way::kThrowsANumber, "accept answered -1"},
       {Way::kBeyond, "allow answered -1"},
       {Way::kBelow, "allow answered -1"}}};
  for (const auto& [way, sentence] : ways) add(way);
  const prefix::Constraint none([]() -> std::unique_ptr<WithAWay> { return nullptr; });
  batch.constrain(batch.add_generate(prompt, {&options}), &none);
  const prefix::Constraint bad([]() -> std::unique_ptr<WithAWay> { throw 1; });
  batch.constrain(batch.add_generate(prompt, {&options}), &bad);
  const size_t free = batch.add_generate(prompt, {&options});
  const prefix::Job job = engine.run(batch);
  for (size_t request = 0; request < free; ++request) {
    EXPECT_EQ(job.info(request).status, PREFIX_ERR_INVALID_ARGUMENT);
    const char* const wanted = request < ways.size() ? ways[request].second : "begin answered -1";
    EXPECT_NE(job.message(request).find(wanted), std::string::npos) << job.message(request);
  }
  EXPECT_EQ(job.tokens(free).size(), 4u);
  EXPECT_EQ(living, 0);
}

// It is destroyed once, with the last batch that has the constraint.
TEST_F(CppGeneration, WhatBeginsAStateLivesAsLongAsItsConstraint) {
  const auto kept = std::make_shared<int>(0);
  {
    const prefix::Constraint constraint(
        [this, kept] { return std::make_unique<WithAWay>(Way::kEven, living); });
    batch.constrain(batch.add_generate(prompt, {&options}), &constraint);
    EXPECT_EQ(kept.use_count(), 2);
  }
  EXPECT_EQ(kept.use_count(), 2);
  EXPECT_EQ(engine.run(batch).tokens(0).size(), 4u);
  engine.shutdown(std::chrono::milliseconds(0));  // whose thread may still hold the request
  EXPECT_EQ(kept.use_count(), 2);
  batch.clear();
  EXPECT_EQ(kept.use_count(), 1);
}

}  // namespace
}  // namespace prefix_abi
