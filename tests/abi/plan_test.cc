// How a batch shares, as prefix_batch_plan_json says it before anything runs.
#include <nlohmann/json.hpp>
#include <random>

#include "abi_support.h"

namespace prefix_abi {
namespace {

nlohmann::json plan_of(const prefix_batch* batch) {
  return nlohmann::json::parse(text([&](char* b, size_t c, size_t* n, prefix_error* e) {
    return prefix_batch_plan_json(batch, b, c, n, e);
  }));
}

void add_logprobs(prefix_batch* batch, const Tokens& tokens,
                  const prefix_options* options = nullptr) {
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_batch_add_logprobs(batch, tokens.data(), tokens.size(), 1, options, 0, nullptr,
                                     e);
  });
}

void add_choices(prefix_batch* batch, const Tokens& prompt, const Tokens& tokens,
                 const std::vector<int64_t>& offsets) {
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_batch_add_choices(batch, prompt.data(), prompt.size(), tokens.data(),
                                    tokens.size(), offsets.data(), offsets.size(), nullptr, 0,
                                    nullptr, e);
  });
}

TEST(Plan, WhatIsSharedIsANodeAndWhatEndsThereIsCounted) {
  const Batch batch = make_batch(nullptr);
  add_logits(batch, {1, 2, 3});
  add_logits(batch, {1, 2, 4, 5});
  const auto plan = plan_of(batch);
  EXPECT_EQ(plan["requests"], 2);
  EXPECT_EQ(plan["tokens_given"], 7);
  EXPECT_EQ(plan["tokens_distinct"], 5);
  EXPECT_EQ(plan["tokens_scored"], 0);
  ASSERT_EQ(plan["nodes"].size(), 3u);
  EXPECT_EQ(plan["nodes"][0]["parent"], -1);
  EXPECT_EQ(plan["nodes"][0]["below"], 2);
}

// One by one, each without its last token.
TEST(Plan, ChoicesAreCountedWhereTheyEnd) {
  const Batch batch = make_batch(nullptr);
  add_choices(batch, {1, 2}, {7, 8, 9, 9}, {0, 1, 3, 4});
  const auto plan = plan_of(batch);
  EXPECT_EQ(plan["requests"], 1);
  EXPECT_EQ(plan["tokens_given"], 6);
  EXPECT_EQ(plan["tokens_distinct"], 3);
  EXPECT_EQ(plan["tokens_scored"], 3);
  ASSERT_EQ(plan["nodes"].size(), 2u);
  const auto &prompt = plan["nodes"][0], &longer = plan["nodes"][1];
  EXPECT_EQ(prompt["requests"], 2);
  EXPECT_EQ(prompt["below"], 3);
  EXPECT_EQ(longer["requests"], 1);
  EXPECT_EQ(longer["first"], std::vector<int>{8});
}

TEST(Plan, WhatTheEngineRefusesHasAPlanToo) {
  const Batch batch = make_batch(nullptr);
  add_logprobs(batch, {5});
  add_choices(batch, {1, 2}, {7}, {0, 0, 1});
  add_logits(batch, {});
  const auto plan = plan_of(batch);
  EXPECT_EQ(plan["tokens_given"], 4);
  EXPECT_EQ(plan["tokens_distinct"], 2);
  EXPECT_EQ(plan["tokens_scored"], 2);
}

// Requests of all kinds over few tokens, so that they meet in many ways.
TEST(Plan, ItsNumbersAreThoseOfTheRun) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto below = [&](unsigned n) { return random() % n; };
  const auto path = [&](size_t least) {
    Tokens tokens(least + below(4));
    for (prefix_token& token : tokens) token = static_cast<prefix_token>(below(3));
    return tokens;
  };
  for (int round = 0; round < 20; ++round) {
    const Engine engine = make_engine();
    const Batch batch = make_batch(engine);
    for (int i = 0; i < 12; ++i) {
      const Tokens prompt = path(2);
      switch (below(4)) {
        case 0:
          add_logits(batch, prompt);
          break;
        case 1:
          add_logprobs(batch, prompt);
          break;
        case 2: {  // whose last token is to stay, so that it has a row
          const std::string end = std::to_string(prompt.size());
          add_logprobs(batch, prompt, make_options({{"checkpoint", end.c_str()}}));
          break;
        }
        default: {
          const Tokens first = path(1), second = path(1);
          Tokens both = first;
          both.insert(both.end(), second.begin(), second.end());
          add_choices(batch, prompt, both,
                      {0, static_cast<int64_t>(first.size()), static_cast<int64_t>(both.size())});
        }
      }
    }
    const auto plan = plan_of(batch);
    const Job job = run(engine, batch);
    prefix_job_totals totals = PREFIX_JOB_TOTALS_INIT;
    expect(PREFIX_OK, [&](prefix_error* e) { return prefix_job_get_totals(job, &totals, e); });
    EXPECT_EQ(plan["tokens_given"], totals.tokens_given);
    EXPECT_EQ(plan["tokens_distinct"], totals.rows);
    EXPECT_EQ(plan["tokens_distinct"].get<int64_t>() + plan["tokens_scored"].get<int64_t>(),
              totals.tokens_computed);
  }
}

}  // namespace
}  // namespace prefix_abi
