// Which hidden states make a vector: last, mean, first, each; the same bits however a text is cut
// into steps and whatever of it was computed before.
#include <gtest/gtest.h>

#include <string_view>

#include "embedding_support.h"
#include "engine/row_sum.h"

namespace prefix {
namespace {

using namespace testing_support;

class Pooled : public ::testing::Test {
 protected:
  TinyCheckpoint checkpoint_;
  std::mt19937 random_{7};
};

TEST_F(Pooled, EachIsMadeOfTheVectorsOfTheTokens) {
  const auto engine = make_engine(checkpoint_);
  const std::vector<int32_t> tokens = random_tokens(random_, 75, 131);
  const std::vector<float> all = values_of(*engine, embedding(tokens, Pooling::kTokens));
  ASSERT_EQ(all.size() % tokens.size(), 0u);
  const size_t width = all.size() / tokens.size();
  const auto row = [&](size_t i) {
    const auto begin = all.begin() + static_cast<ptrdiff_t>(i * width);
    return std::vector<float>(begin, begin + static_cast<ptrdiff_t>(width));
  };
  EXPECT_TRUE(same_bits(values_of(*engine, embedding(tokens, Pooling::kFirst)), row(0)));
  EXPECT_TRUE(same_bits(values_of(*engine, embedding(tokens, Pooling::kLast)), row(74)));
  std::vector<float> mean(width);
  for (size_t i = 0; i < width; ++i) {
    double sum = 0;
    for (size_t t = 0; t < tokens.size(); ++t) sum += double{all[t * width + i]};
    mean[i] = static_cast<float>(sum / 75);
  }
  EXPECT_TRUE(same_bits(values_of(*engine, embedding(tokens, Pooling::kMean)), mean));
  // A text is the beginning of another: each of its tokens has the same vector.
  const std::vector<float> half =
      values_of(*engine, embedding(first_tokens(tokens, 40), Pooling::kTokens));
  EXPECT_TRUE(std::equal(half.begin(), half.end(), all.begin()));
}

TEST_F(Pooled, PositionsChooseAmongThem) {
  const auto engine = make_engine(checkpoint_);
  const std::vector<int32_t> tokens = random_tokens(random_, 50, 131);
  const std::vector<float> all = values_of(*engine, embedding(tokens, Pooling::kTokens));
  const size_t width = all.size() / 50;
  RequestSpec some = embedding(tokens, Pooling::kTokens);
  some.positions = {3, 4, 31, 32, 49};
  std::vector<float> want;
  for (const int32_t p : some.positions)
    want.insert(want.end(), all.begin() + static_cast<ptrdiff_t>(p * width),
                all.begin() + static_cast<ptrdiff_t>((p + 1) * width));
  EXPECT_TRUE(same_bits(values_of(*engine, some), want));  // of tokens that are in the cache
  const auto cold = make_engine(checkpoint_);
  EXPECT_TRUE(same_bits(values_of(*cold, some), want));
  some.dimensions = 5;
  EXPECT_EQ(values_of(*engine, some).size(), 25u);
}

TEST_F(Pooled, CutsCompanyAndTheCacheChangeNoBit) {
  std::vector<RequestSpec> batch;
  const std::vector<int32_t> common = random_tokens(random_, 70, 131);
  for (size_t i = 0; i < 12; ++i) {
    std::vector<int32_t> tokens = first_tokens(common, 20 + 4 * i);
    for (const int32_t t : random_tokens(random_, i % 5 * 9 + 1, 131)) tokens.push_back(t);
    batch.push_back(embedding(tokens, i % 3 == 2 ? Pooling::kTokens : Pooling::kMean));
  }
  batch.push_back(embedding(common, Pooling::kMean));
  std::vector<std::vector<float>> want;
  for (const RequestSpec& spec : batch) {
    const auto alone = make_engine(checkpoint_, {{"sharing", "false"}});
    want.push_back(values_of(*alone, spec));
  }
  for (const char* rows : {"1", "5", "33", "2048"}) {
    const auto engine = make_engine(checkpoint_, {{"rows", rows}});
    for (const char* pass : {"cold", "from the cache"}) {
      const auto job = run_all(*engine, batch);
      for (size_t i = 0; i < batch.size(); ++i)
        EXPECT_TRUE(same_bits(job->result(i).values, want[i])) << rows << " " << pass << " " << i;
    }
    // Part of it is there, in mid-page, and others compute the rest before its turn comes.
    const auto part = make_engine(checkpoint_, {{"rows", rows}});
    RequestSpec warm = embedding(first_tokens(common, 45), Pooling::kLast);
    run_all(*part, {warm});
    const auto job = run_all(*part, batch);
    for (size_t i = 0; i < batch.size(); ++i)
      EXPECT_TRUE(same_bits(job->result(i).values, want[i])) << rows << " " << i;
  }
}

TEST_F(Pooled, WhatMakesNoSenseFailsAlone) {
  const auto engine = make_engine(checkpoint_);
  const std::vector<int32_t> tokens = random_tokens(random_, 10, 131);
  RequestSpec good = embedding(tokens, Pooling::kMean), beyond = good, down = good, last = good,
              head = good;
  beyond.pooling = down.pooling = Pooling::kTokens;
  beyond.positions = {2, 10};
  down.positions = {4, 4};
  last.positions = {1};
  head.head = true;
  const auto job = run_all(*engine, {good, beyond, down, last, head});
  const auto expect = [&](size_t i, Code code, std::string_view part) {
    EXPECT_EQ(job->result(i).status, code) << i;
    EXPECT_NE(job->result(i).message.find(part), std::string::npos) << job->result(i).message;
  };
  EXPECT_EQ(job->result(0).status, Code::kOk);
  expect(1, Code::kOutOfRange, "positions[1] is 10");
  expect(2, Code::kOutOfRange, "positions[1] is 4");
  expect(3, Code::kInvalidArgument, "pooling = tokens");
  expect(4, Code::kInvalidArgument, "no classification head");
}

TEST(RowSumTest, RowsBeforeTheirTurnWaitForIt) {
  RowSum sum;
  sum.begin(1);
  const auto row = [](float v) { return std::vector<float>{v}; };
  sum.add(row(1e8f));
  sum.keep(2, row(-1e8f));
  sum.keep(3, row(1));
  EXPECT_EQ(sum.next(), 1);
  EXPECT_EQ(sum.next_after(1), 4);
  sum.add(row(3));
  EXPECT_EQ(sum.next(), 4);
  EXPECT_EQ(sum.mean(), row(1));
}

}  // namespace
}  // namespace prefix
