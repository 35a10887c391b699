// Log-probs beside the tokens of a path.
#include <gtest/gtest.h>

#include <bit>
#include <vector>

#include "tree/tree.h"

namespace prefix {
namespace {

struct LogprobsTest : testing::Test {
  using Values = std::vector<float>;

  PagePool pool{100};
  Tree tree{pool};
  NodeId root = tree.add_root();

  // Tokens first, first + 1, ...
  static std::vector<int32_t> count(int32_t first, int32_t n) {
    std::vector<int32_t> tokens;
    for (int32_t i = 0; i < n; ++i) tokens.push_back(first + i);
    return tokens;
  }
  NodeId attach(const std::vector<int32_t>& tokens) {
    const NodeId node = tree.attach(tree.match(root, tokens), tokens, {});
    for (NodeId up = node; tree.node(up).length > 0; up = tree.node(up).parent)
      tree.set_computed(up, tree.node(up).length);
    return node;
  }
  // Of n tokens from position `from` on; 0 where it is not known.
  Values known(NodeId node, int32_t from, size_t n) const {
    Values values(n);
    tree.get_logprobs(node, from, values);
    for (float& v : values)
      if (v != v) v = 0;
    return values;
  }
  static Values ramp(float first, size_t n) {
    Values values;
    for (size_t i = 0; i < n; ++i) values.push_back(first - static_cast<float>(i));
    return values;
  }
};

TEST_F(LogprobsTest, AreNotKnownUntilTheyAreSet) {
  const NodeId node = attach(count(0, 100));
  EXPECT_EQ(known(node, 1, 99), Values(99));
  tree.set_logprobs(node, 30, ramp(-1, 40));
  EXPECT_EQ(known(node, 30, 40), ramp(-1, 40));
  EXPECT_EQ(known(node, 1, 29), Values(29));
  EXPECT_EQ(known(node, 70, 30), Values(30));
  tree.set_logprobs(node, 5, {});
}

TEST_F(LogprobsTest, KeepEveryBit) {
  const NodeId node = attach(count(0, 3));
  const float value = std::bit_cast<float>(0xc0a3d70bu);
  tree.set_logprobs(node, 1, std::span(&value, 1));
  EXPECT_EQ(std::bit_cast<uint32_t>(known(node, 1, 1)[0]), 0xc0a3d70bu);
}

TEST_F(LogprobsTest, StayWhereAnEdgeIsSplitAndAreThoseOfEachPathThroughIt) {
  for (const int32_t fork : {33, 50, 64, 65}) {
    tree.drop(root);
    const NodeId node = attach(count(0, 100));
    tree.set_logprobs(node, 1, ramp(-1, 99));
    auto other = count(0, fork);
    for (int32_t i = 0; i < 20; ++i) other.push_back(500 + i);
    const NodeId branch = attach(other);
    const auto common = static_cast<size_t>(fork - 1);
    EXPECT_EQ(known(node, 1, 99), ramp(-1, 99)) << fork;
    EXPECT_EQ(known(branch, 1, common), ramp(-1, common)) << fork;
    EXPECT_EQ(known(branch, fork, 20), Values(20)) << "not asked for behind the fork " << fork;
    tree.set_logprobs(branch, fork - 1, ramp(-200, 21));
    EXPECT_EQ(known(branch, fork - 1, 21), ramp(-200, 21)) << fork;
    EXPECT_EQ(known(node, fork, 3), ramp(static_cast<float>(-fork), 3)) << fork;
    EXPECT_EQ(known(node, fork - 1, 1), ramp(-200, 1)) << "of the token that both have";
    tree.unlock(node, true);
    tree.unlock(branch, true);
  }
}

TEST_F(LogprobsTest, GoWithTheirTokens) {
  const NodeId node = attach(count(0, 100));
  tree.set_logprobs(node, 1, ramp(-1, 99));
  tree.unlock(node, true);
  tree.evict_tokens(node, 60);
  const NodeId again = attach(count(0, 100));
  EXPECT_EQ(known(again, 1, 39), ramp(-1, 39));
  EXPECT_EQ(known(again, 40, 60), Values(60)) << "of equal tokens, which are new ones";
  tree.unlock(again, true);
  tree.drop(root);
  EXPECT_EQ(known(attach(count(7, 90)), 1, 89), Values(89)) << "of others in the same pages";
}

TEST_F(LogprobsTest, AreNotThoseOfATokenThatGrowsBehind) {
  const NodeId node = attach(count(0, 40));
  tree.set_logprobs(node, 1, ramp(-1, 39));
  tree.unlock(node, true);
  tree.evict_tokens(node, 2);
  const NodeId leaf = attach(count(0, 38));
  int32_t pages = 0;
  const NodeId grown = tree.advance(leaf, 38, 77, {}, &pages);
  EXPECT_EQ(known(grown, 37, 2), (Values{-37, 0}));
}

TEST_F(LogprobsTest, TakeMemoryWhereSomeAreKnownOnly) {
  const NodeId node = attach(count(0, 64));
  const size_t before = pool.metadata_bytes();
  EXPECT_EQ(known(node, 1, 63), Values(63));
  EXPECT_EQ(pool.metadata_bytes(), before);
  tree.set_logprobs(node, 1, ramp(-1, 63));
  EXPECT_EQ(pool.metadata_bytes(), before + 1024 * kPageTokens * sizeof(float));
}

// Those of tokens that are only scored: they are not in the tree.
struct NextLogprobsTest : LogprobsTest {
  // 0 where it is not known.
  float next(NodeId node, int32_t length, int32_t token) const {
    const float value = tree.next_logprob(node, length, token);
    return value != value ? 0 : value;
  }
};

TEST_F(NextLogprobsTest, AreThoseOfATokenBehindAPath) {
  const NodeId node = attach(count(0, 40));
  EXPECT_EQ(next(node, 40, 77), 0);
  tree.set_next_logprob(node, 40, 77, -2);
  tree.set_next_logprob(node, 40, 78, -3);
  tree.set_next_logprob(node, 39, 77, -4);  // inside an edge, which goes on with another token
  EXPECT_EQ(next(node, 40, 77), -2);
  EXPECT_EQ(next(node, 40, 78), -3);
  EXPECT_EQ(next(node, 40, 79), 0);
  EXPECT_EQ(next(node, 39, 77), 0);
  EXPECT_TRUE(tree.knows_next(node, 40, 77));
  EXPECT_FALSE(tree.knows_next(node, 40, 79));
}

TEST_F(NextLogprobsTest, AreBesideTheTokenWhereTheTreeHasIt) {
  const NodeId node = attach(count(0, 40));
  EXPECT_TRUE(tree.knows_next(node, 20, 20)) << "it is computed";
  tree.set_next_logprob(node, 20, 20, -2);
  EXPECT_EQ(known(node, 20, 1), Values{-2});
  EXPECT_EQ(next(node, 20, 20), -2);
  const NodeId upper = attach(count(0, 20));  // ends there now: the token begins a node below it
  tree.set_next_logprob(upper, 20, 20, -3);
  EXPECT_EQ(known(node, 20, 1), Values{-3});
  EXPECT_EQ(next(upper, 20, 20), -3);
}

TEST_F(NextLogprobsTest, StayWhenTheTokenComesAndWhenTheEdgeIsSplit) {
  const NodeId node = attach(count(0, 40));
  tree.set_next_logprob(node, 40, 77, -2);
  attach(count(0, 20));
  EXPECT_EQ(next(node, 40, 77), -2);
  std::vector<int32_t> longer = count(0, 40);
  longer.push_back(77);
  const NodeId leaf = attach(longer);
  EXPECT_EQ(known(leaf, 40, 1), Values(1)) << "it was not scored in its place";
  EXPECT_EQ(next(node, 40, 77), -2);
}

TEST_F(NextLogprobsTest, AreNotThoseBehindOtherTokens) {
  const NodeId node = tree.attach(tree.match(root, count(0, 40)), count(0, 40), {});
  int32_t pages = 0;
  ASSERT_EQ(tree.advance(node, 40, 50, {}, &pages), node);
  tree.set_next_logprob(node, 41, 77, -2);
  tree.retreat(node, 40);
  ASSERT_EQ(tree.advance(node, 40, 51, {}, &pages), node);
  EXPECT_EQ(next(node, 41, 77), 0) << "it ends after as many tokens, the last one another";
  tree.set_next_logprob(node, 41, 78, -3);
  EXPECT_EQ(next(node, 41, 77), 0);
  EXPECT_EQ(next(node, 41, 78), -3);
}

TEST_F(NextLogprobsTest, OfALongerPathTakeThePlaceOfThoseBefore) {
  const NodeId node = attach(count(0, 40));
  tree.set_next_logprob(node, 40, 77, -2);
  int32_t pages = 0;
  ASSERT_EQ(tree.advance(node, 40, 50, {}, &pages), node);
  tree.set_next_logprob(node, 41, 77, -3);
  EXPECT_EQ(next(node, 41, 77), -3);
  EXPECT_EQ(next(node, 40, 77), 0);
}

TEST_F(NextLogprobsTest, GoWithTheirNode) {
  const NodeId node = attach(count(0, 40));
  tree.set_next_logprob(node, 40, 77, -2);
  const size_t before = tree.metadata_bytes();
  tree.unlock(node, false);
  EXPECT_LT(tree.metadata_bytes(), before);
  const NodeId other = attach(count(100, 40));
  ASSERT_EQ(other, node) << "its number is used again";
  EXPECT_EQ(next(other, 40, 77), 0);
}

TEST(NextLogprobsOf, ManyTokensAreKeptUpToALimit) {
  NextLogprobs all;
  const auto most = static_cast<int32_t>(NextLogprobs::kMaxTokens);
  for (int32_t i = 0; i < most; ++i) all.set(i % 3, 5, i, -1);
  all.set(7, 5, 1, -2);
  EXPECT_NE(all.find(7, 5, 1), -2);
  all.forget(1);
  all.set(7, 5, 1, -2);
  EXPECT_EQ(all.find(7, 5, 1), -2);
  EXPECT_EQ(all.find(2, 5, 2), -1);
}

}  // namespace
}  // namespace prefix
