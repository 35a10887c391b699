// Generations that go on as other code allows.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/engine_support.h"
#include "engine/generation_support.h"
#include "support/tiny_engine.h"

namespace prefix {
namespace {

using namespace testing_support;
using Tokens = std::vector<int32_t>;

class Constrained : public testing::Test {
 protected:
  RequestSpec generation(Tokens prompt, int32_t max_tokens, float temperature = 0) {
    RequestSpec spec;
    spec.tokens = std::move(prompt);
    spec.sampling.max_tokens = max_tokens;
    spec.sampling.temperature = temperature;
    spec.sampling.seed = 5;
    spec.sampling.ignore_eos = true;
    spec.constraint = constraint;
    return spec;
  }
  // Each of them has ended when its request has.
  void expect_states(int begun) const {
    EXPECT_EQ(sums.begun, begun);
    EXPECT_EQ(sums.ended, begun);
  }

  SumsConstraint sums;
  std::shared_ptr<const Constraint> constraint = sums.constraint();
  const std::shared_ptr<Engine> engine = make_engine(tiny_checkpoint());
};

TEST_F(Constrained, TokensFollowOneAnotherAsItAllows) {
  std::vector<RequestSpec> batch;
  for (const float temperature : {0.0f, 1.0f, 1000.0f})
    for (const int32_t top_k : {0, 5})
      for (int32_t i = 0; i < 4; ++i) {
        batch.push_back(generation({1, 2, i}, 30, temperature));
        batch.back().sampling.top_k = top_k;
        if (i == 3) batch.back().sampling.repetition_penalty = 2;
      }
  const auto job = run_all(*engine, batch);
  for (size_t i = 0; i < batch.size(); ++i) {
    ASSERT_EQ(job->result(i).status, Code::kOk) << job->result(i).message;
    ASSERT_EQ(job->result(i).tokens.size(), 30u);
    int32_t last = 0;
    for (const int32_t token : job->result(i).tokens) {
      EXPECT_TRUE(SumsConstraint::allows(last, token)) << last << " " << token;
      last = token;
    }
  }
  const auto count = static_cast<int>(batch.size());
  expect_states(count);
  EXPECT_EQ(sums.accepted, 29 * count) << "all but the last, behind which nothing comes";
}

// The loop that prefix.h calls its twin.
TEST_F(Constrained, IsALoopOfAllowedTokens) {
  const Tokens prompt = {9, 9, 4};
  const auto job = run_all(*engine, {generation(prompt, 12)});
  Tokens tokens = prompt;
  for (int32_t last = 0; tokens.size() < 15; last = tokens.back()) {
    RequestSpec spec = generation(tokens, 1);
    spec.constraint = nullptr;
    for (int32_t token = 0; token < 131; ++token)
      if (SumsConstraint::allows(last, token)) spec.sampling.allowed_tokens.push_back(token);
    tokens.push_back(run_all(*engine, {spec})->result(0).tokens.at(0));
  }
  EXPECT_EQ(Tokens(tokens.begin() + 3, tokens.end()), job->result(0).tokens);
}

TEST_F(Constrained, ACallThatFailsEndsItsRequestAlone) {
  const auto expect_failure = [&](const std::string& message, size_t tokens) {
    RequestSpec free = generation({1, 2, 3}, 6);
    free.constraint = nullptr;
    const int begun = sums.begun;
    const auto job = run_all(*engine, {free, generation({1, 2, 3}, 6), free});
    for (const size_t other : {0u, 2u}) {
      EXPECT_EQ(job->result(other).status, Code::kOk) << job->result(other).message;
      EXPECT_EQ(job->result(other).tokens.size(), 6u);
    }
    const RequestResult& result = job->result(1);
    EXPECT_EQ(result.status, Code::kInvalidArgument);
    EXPECT_EQ(result.message, message);
    EXPECT_EQ(result.finish, Finish::kError);
    EXPECT_EQ(result.tokens.size(), tokens);
    expect_states(sums.fail_begin != 0 ? begun : begun + 1);
    engine->check();
  };
  sums.fail_begin = 7;
  expect_failure("the constraint's begin answered 7 for token 1 of the generation", 0);
  sums.fail_begin = 0;
  sums.fail_accept = -3;
  expect_failure("the constraint's accept answered -3 for token 2 of the generation", 2);
  sums.fail_accept = 0;
  sums.fail_allow = 1;
  expect_failure("the constraint's allow answered 1 for token 3 of the generation", 2);
  sums.fail_allow = 0;
  sums.none = true;
  expect_failure(
      "nothing may come as token 3 of the generation: allowed_tokens, min_tokens and the "
      "constraint, those of them that are set, forbid all",
      2);
}

// Allows 5, 6 and then 7 alone.
std::shared_ptr<const Constraint> five_six_seven() {
  return std::make_shared<Constraint>(
      Constraint::Calls{
          [](void*, void** state) { return *state = new int32_t(5), int32_t{0}; },
          [](void* state, uint32_t* mask, size_t) {
            mask[0] |= 1u << *static_cast<int32_t*>(state);
            return int32_t{0};
          },
          [](void* state, int32_t token) { return *static_cast<int32_t*>(state) = token + 1, 0; },
          [](void* state) { delete static_cast<int32_t*>(state); }},
      nullptr);
}

TEST_F(Constrained, ATextEndsWhereOnlyItsEndIsAllowed) {
  for (const float temperature : {0.0f, 1.0f}) {
    RequestSpec spec = generation({1, 2, 3}, 10, temperature);
    spec.constraint = five_six_seven();
    spec.sampling.stop_tokens = {7};
    const auto job = run_all(*engine, {spec});
    EXPECT_EQ(job->result(0).tokens, (Tokens{5, 6, 7})) << job->result(0).message;
    EXPECT_EQ(job->result(0).finish, Finish::kStop);
    spec.sampling.min_tokens = 3;  // nothing else may come in its place
    EXPECT_EQ(run_all(*engine, {spec})->result(0).status, Code::kInvalidArgument);
  }
}

// However requests end: cancelled before they begin, and while they run.
TEST_F(Constrained, EveryStateEnds) {
  std::vector<RequestSpec> batch;
  for (int32_t i = 0; i < 40; ++i) batch.push_back(generation({1, 2, i}, 4000, 1));
  const auto job = engine->submit(batch);
  job->cancel(39);
  ASSERT_TRUE(token_comes(*job));
  job->cancel();
  job->wait(-1);
  EXPECT_EQ(sums.begun, sums.ended);
  EXPECT_GT(sums.begun, 0);
  const auto left = engine->submit(batch);
  ASSERT_TRUE(token_comes(*left));
  engine->shutdown(0);
  EXPECT_EQ(sums.begun, sums.ended);
}

TEST_F(Constrained, IsReleasedWithTheLastOfItsRequests) {
  int released = 0;
  auto owned = std::make_shared<Constraint>(
      Constraint::Calls{[](void*, void**) { return int32_t{0}; },
                        [](void*, uint32_t* mask, size_t) { return mask[0] = 2, int32_t{0}; },
                        [](void*, int32_t) { return int32_t{0}; }, [](void*) {}},
      &released);
  owned->release_with([](void* user) { ++*static_cast<int*>(user); });
  RequestSpec spec = generation({1}, 2);
  spec.constraint = std::move(owned);
  auto job = run_all(*engine, {spec});
  EXPECT_EQ(job->result(0).tokens, (Tokens{1, 1})) << job->result(0).message;
  spec.constraint.reset();
  EXPECT_EQ(released, 0);
  job.reset();
  engine->shutdown(0);  // its thread has let go of the job, too
  EXPECT_EQ(released, 1);
}

}  // namespace
}  // namespace prefix
