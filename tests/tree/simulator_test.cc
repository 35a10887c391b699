// Each rule of section 3 of the reference on radix caches as a case worked out by hand. Every case
// runs twice: on the simulator in compat mode and on the model that the fuzz test compares it with.
#include "tree/simulator.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/expect_error.h"
#include "tree/sglang_model.h"

namespace prefix {
namespace {

using testing_support::expect_error;
using testing_support::SglangModel;
using Tokens = std::vector<int32_t>;
using Slots = std::vector<int64_t>;

SimulatorOptions compat(Policy policy = Policy::kLru, int32_t page = 1, bool bigram = false) {
  return {.policy = policy, .page = page, .bigram = bigram, .compat = true};
}

template <typename Cache>
struct CompatTest : testing::Test {};

struct Names {
  template <typename Cache>
  static std::string GetName(int) {
    return std::is_same_v<Cache, Simulator> ? "Simulator" : "Model";
  }
};
using Caches = testing::Types<Simulator, SglangModel>;
TYPED_TEST_SUITE(CompatTest, Caches, Names);

template <typename Cache>
void expect_sizes(const Cache& cache, int64_t evictable, int64_t locked) {
  EXPECT_EQ(cache.evictable(), evictable);
  EXPECT_EQ(cache.protected_(), locked);
  EXPECT_EQ(cache.total(), evictable + locked);
}

TYPED_TEST(CompatTest, ClockIsReadOncePerOperationAndTwicePerNode) {
  TypeParam cache(compat());
  EXPECT_EQ(cache.tick(), 2);
  cache.match("", {});
  EXPECT_EQ(cache.tick(), 2) << "nothing is looked up";
  cache.match("", Tokens{1});
  EXPECT_EQ(cache.tick(), 3);
  cache.insert("", {});
  EXPECT_EQ(cache.tick(), 4) << "an insertion of nothing reads the clock";
  cache.insert("", Tokens{1, 2, 3});
  EXPECT_EQ(cache.tick(), 7);
  cache.insert("", Tokens{1, 2, 4});
  EXPECT_EQ(cache.tick(), 12) << "the operation, the upper half, the leaf";
  cache.match("", Tokens{1, 2, 4});
  EXPECT_EQ(cache.tick(), 13);
  cache.match("", Tokens{1});
  EXPECT_EQ(cache.tick(), 16) << "the operation and the upper half";
  cache.evict(1);
  EXPECT_EQ(cache.tick(), 16);
  cache.reset();
  EXPECT_EQ(cache.tick(), 18);
}

TYPED_TEST(CompatTest, LookUpSplitsAndRefreshesBothHalves) {
  TypeParam cache(compat());
  cache.insert("", Tokens{1, 2, 3, 4, 5});
  const SimulatorResult r = cache.match("", Tokens{1, 2, 9});
  EXPECT_EQ(r.matched, 2);
  EXPECT_EQ(r.slots, (Slots{0, 1}));
  const std::vector<SimulatorNode> nodes = cache.dump();
  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_EQ(nodes[0].path, (Tokens{1, 2}));
  EXPECT_EQ(nodes[0].slots, (Slots{0, 1}));
  EXPECT_EQ(nodes[0].last_use, 7) << "a new node reads the clock after the operation";
  EXPECT_EQ(nodes[0].created, 8);
  EXPECT_EQ(nodes[1].path, (Tokens{1, 2, 3, 4, 5}));
  EXPECT_EQ(nodes[1].slots, (Slots{2, 3, 4}));
  EXPECT_EQ(nodes[1].length, 3);
  EXPECT_EQ(nodes[1].last_use, 6) << "refreshed although it does not match";
  EXPECT_EQ(nodes[1].created, 5) << "the lower half stays the same node";
  expect_sizes(cache, 5, 0);
}

TYPED_TEST(CompatTest, OnlyInsertionsCountAsHits) {
  TypeParam cache(compat());
  cache.insert("", Tokens{1, 2, 3});
  cache.match("", Tokens{1, 2, 3});
  EXPECT_EQ(cache.dump()[0].hits, 1);
  cache.insert("", Tokens{1, 2, 3});
  EXPECT_EQ(cache.dump()[0].hits, 2);
  cache.insert("", Tokens{1, 2, 7});
  const std::vector<SimulatorNode> nodes = cache.dump();
  ASSERT_EQ(nodes.size(), 3u);
  EXPECT_EQ(nodes[0].hits, 3) << "copied by the split, then counted";
  EXPECT_EQ(nodes[1].hits, 2) << "off the path of the last insertion";
  EXPECT_EQ(nodes[2].hits, 1);
}

TYPED_TEST(CompatTest, PriorityIsTheLargestOfTheInsertionsOnThePath) {
  TypeParam cache(compat());
  cache.insert("", Tokens{1, 2, 3, 4}, 5);
  cache.insert("", Tokens{1, 2, 3, 4}, 2);
  EXPECT_EQ(cache.dump()[0].priority, 5);
  cache.insert("", Tokens{1, 2, 8}, 7);
  cache.insert("", Tokens{1, 9}, -1);
  const std::vector<SimulatorNode> nodes = cache.dump();
  ASSERT_EQ(nodes.size(), 5u);
  EXPECT_EQ(nodes[0].path, (Tokens{1}));
  EXPECT_EQ(nodes[0].priority, 7);
  EXPECT_EQ(nodes[1].path, (Tokens{1, 2}));
  EXPECT_EQ(nodes[1].priority, 7);
  EXPECT_EQ(nodes[2].path, (Tokens{1, 2, 3, 4}));
  EXPECT_EQ(nodes[2].priority, 5) << "below the split";
  EXPECT_EQ(nodes[3].path, (Tokens{1, 2, 8}));
  EXPECT_EQ(nodes[3].priority, 7);
  EXPECT_EQ(nodes[4].path, (Tokens{1, 9}));
  EXPECT_EQ(nodes[4].priority, -1);
}

TYPED_TEST(CompatTest, WhatIsThereKeepsItsSlots) {
  TypeParam cache(compat());
  EXPECT_EQ(cache.insert("", Tokens{1, 2, 3}).matched, 0);
  EXPECT_EQ(cache.insert("", Tokens{1, 2, 3, 4, 5}, 0, Slots{90, 91, 92, 93, 94}).matched, 3);
  EXPECT_EQ(cache.match("", Tokens{1, 2, 3, 4, 5}).slots, (Slots{0, 1, 2, 93, 94}));
  EXPECT_EQ(cache.insert("", Tokens{1, 2, 3, 4, 5}).matched, 5);
  EXPECT_EQ(cache.total(), 5);
  cache.insert("", Tokens{6});
  EXPECT_EQ(cache.match("", Tokens{6}).slots, Slots{5}) << "tokens with given slots count too";
}

TYPED_TEST(CompatTest, LocksMoveTheWholePathBetweenTheSizes) {
  TypeParam cache(compat());
  cache.insert("", Tokens{1, 2, 3, 4});
  cache.insert("", Tokens{1, 2, 7});
  expect_sizes(cache, 5, 0);
  EXPECT_EQ(cache.lock("", Tokens{1, 2, 7}).slots, (Slots{0, 1, 4}));
  expect_sizes(cache, 2, 3);
  EXPECT_EQ(cache.lock("", Tokens{1, 2}).matched, 2);
  expect_sizes(cache, 2, 3);
  std::vector<SimulatorNode> nodes = cache.dump();
  ASSERT_EQ(nodes.size(), 3u);
  EXPECT_EQ(nodes[0].locks, 2);
  EXPECT_EQ(nodes[1].locks, 0);
  EXPECT_EQ(nodes[2].locks, 1);
  EXPECT_EQ(cache.unlock("", Tokens{1, 2, 7}).slots, (Slots{0, 1, 4}));
  expect_sizes(cache, 3, 2);
  cache.unlock("", Tokens{1, 2});
  expect_sizes(cache, 5, 0);
}

TYPED_TEST(CompatTest, SplitCopiesLocksAndMovesNoSize) {
  TypeParam cache(compat());
  cache.insert("", Tokens{1, 2, 3, 4});
  cache.lock("", Tokens{1, 2, 3, 4});
  cache.match("", Tokens{1, 2, 9});
  expect_sizes(cache, 0, 4);
  const std::vector<SimulatorNode> nodes = cache.dump();
  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_EQ(nodes[0].locks, 1);
  EXPECT_EQ(nodes[1].locks, 1);
  cache.unlock("", Tokens{1, 2, 3, 4});
  expect_sizes(cache, 4, 0);
}

TYPED_TEST(CompatTest, LockSplitsAnEdgeAndHoldsTheUpperHalf) {
  TypeParam cache(compat());
  cache.insert("", Tokens{1, 2, 3, 4});
  EXPECT_EQ(cache.lock("", Tokens{1, 2}).matched, 2);
  EXPECT_EQ(cache.tick(), 8);
  expect_sizes(cache, 2, 2);
  EXPECT_EQ(cache.evict(100).freed, (Slots{2, 3}));
  EXPECT_EQ(cache.evict(100).freed, Slots{});
  cache.unlock("", Tokens{1, 2, 3, 4});
  EXPECT_EQ(cache.evict(100).freed, (Slots{0, 1}));
}

TYPED_TEST(CompatTest, LockOfNothingHoldsNothing) {
  TypeParam cache(compat());
  cache.insert("", Tokens{1, 2});
  EXPECT_EQ(cache.lock("", Tokens{5}).matched, 0);
  EXPECT_EQ(cache.lock("", {}).matched, 0);
  expect_sizes(cache, 2, 0);
  EXPECT_EQ(cache.unlock("", Tokens{5}).matched, 0);
  EXPECT_EQ(cache.unlock("", {}).matched, 0);
  expect_sizes(cache, 2, 0);
  EXPECT_EQ(cache.tick(), 7) << "two lookups of something";
}

TYPED_TEST(CompatTest, UnlockWithoutALockIsRefused) {
  TypeParam cache(compat());
  cache.insert("", Tokens{1, 2});
  expect_error(Code::kMisuse, {}, [&] { cache.unlock("", Tokens{1, 2}); });
  cache.lock("", Tokens{1, 2});
  cache.unlock("", Tokens{1, 2});
  expect_error(Code::kMisuse, {}, [&] { cache.unlock("", Tokens{1, 2}); });
  expect_sizes(cache, 2, 0);
  EXPECT_EQ(cache.tick(), 9) << "refused after its lookup";
}

TYPED_TEST(CompatTest, UnlockAboveALockTakesAwayWhatItCountsThere) {
  TypeParam cache(compat());
  cache.insert("", Tokens{1, 2, 3});
  cache.lock("", Tokens{1, 2, 3});
  cache.unlock("", Tokens{1, 2});
  EXPECT_EQ(cache.tick(), 9) << "its lookup has split the node";
  expect_sizes(cache, 2, 1);
  EXPECT_EQ(cache.evict(9).freed, Slots{}) << "not a leaf";
  expect_error(Code::kMisuse, {}, [&] { cache.unlock("", Tokens{1, 2, 3}); });
  expect_sizes(cache, 2, 1);
}

TYPED_TEST(CompatTest, EvictionTakesWholeNodesAndSoMoreThanAsked) {
  TypeParam cache(compat());
  cache.insert("", Tokens{1, 2, 3});
  cache.insert("", Tokens{7, 8, 9});
  EXPECT_EQ(cache.evict(0).freed, Slots{});
  EXPECT_EQ(cache.evict(1).freed, (Slots{0, 1, 2}));
  expect_sizes(cache, 3, 0);
  cache.insert("", Tokens{4, 5, 6});
  EXPECT_EQ(cache.evict(4).freed, (Slots{3, 4, 5, 6, 7, 8}));
  expect_sizes(cache, 0, 0);
  EXPECT_TRUE(cache.dump().empty());
  EXPECT_EQ(cache.evict(4).freed, Slots{});
}

TYPED_TEST(CompatTest, ParentFollowsItsLastChildInTheOrderOfThePolicy) {
  TypeParam cache(compat());
  cache.insert("", Tokens{1, 2, 3});  // slots 0 1 2
  cache.insert("", Tokens{1, 2, 4});  // splits; slot 3
  cache.insert("", Tokens{5});        // slot 4
  // Times: [3] 6, [1 2] 7, [4] 9, [5] 12.
  EXPECT_EQ(cache.evict(1).freed, (Slots{2}));
  EXPECT_EQ(cache.evict(2).freed, (Slots{3, 0, 1})) << "a leaf now, and older than the other one";
  EXPECT_EQ(cache.evict(1).freed, (Slots{4}));
}

TYPED_TEST(CompatTest, SplitRestartsTheAgeOfTheUpperHalf) {
  TypeParam cache(compat(Policy::kFifo));
  cache.insert("", Tokens{1, 2, 3});  // slots 0 1 2
  cache.insert("", Tokens{5});        // slot 3
  cache.match("", Tokens{1, 2});
  EXPECT_EQ(cache.evict(2).freed, (Slots{2, 3})) << "[1 2] is younger than [5] now";
  EXPECT_EQ(cache.evict(1).freed, (Slots{0, 1}));
}

TYPED_TEST(CompatTest, EachPolicyHasItsOrder) {
  const std::vector<std::pair<Policy, std::string>> expected = {
      {Policy::kLru, "cdab"},     {Policy::kLfu, "cbad"},  {Policy::kFifo, "abcd"},
      {Policy::kMru, "badc"},     {Policy::kFilo, "dcba"}, {Policy::kSlru, "cbda"},
      {Policy::kPriority, "acbd"}};
  for (const auto& [policy, order] : expected) {
    TypeParam cache(compat(policy));
    cache.insert("", Tokens{'a', 1}, 0);
    cache.insert("", Tokens{'b', 1}, 2);
    cache.insert("", Tokens{'c', 1}, 1);
    cache.insert("", Tokens{'d', 1}, 3);
    cache.insert("", Tokens{'d', 1});
    cache.insert("", Tokens{'d', 1});
    cache.insert("", Tokens{'a', 1});
    cache.match("", Tokens{'b', 1});
    std::string got;
    for (const int64_t slot : cache.evict(8).freed)
      if (slot % 2 == 0) got += static_cast<char>('a' + slot / 2);
    EXPECT_EQ(got, order) << policy_name(policy);
  }
}

TYPED_TEST(CompatTest, KeysAreWholePages) {
  TypeParam cache(compat(Policy::kLru, 4));
  EXPECT_EQ(cache.insert("", Tokens{1, 2, 3}).matched, 0);
  EXPECT_EQ(cache.tick(), 3);
  EXPECT_EQ(cache.match("", Tokens{1, 2, 3}).matched, 0);
  EXPECT_EQ(cache.tick(), 3) << "less than a page is an empty key";
  cache.insert("", Tokens{1, 2, 3, 4, 5, 6, 7, 8, 9});
  EXPECT_EQ(cache.total(), 8);
  EXPECT_EQ(cache.match("", Tokens{1, 2, 3, 4, 5, 6, 7, 0}).slots, (Slots{0, 1, 2, 3}));
  EXPECT_EQ(cache.insert("", Tokens{1, 2, 3, 0}).matched, 0);
  const std::vector<SimulatorNode> nodes = cache.dump();
  ASSERT_EQ(nodes.size(), 3u);
  EXPECT_EQ(nodes[0].path, (Tokens{1, 2, 3, 4}));
  EXPECT_EQ(nodes[1].path, (Tokens{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(nodes[2].path, (Tokens{1, 2, 3, 0})) << "siblings may share less than a page";
}

TYPED_TEST(CompatTest, BigramsAreTheUnitOfLengthsAndSlots) {
  TypeParam cache(compat(Policy::kLru, 2, true));
  cache.insert("", Tokens{5});
  EXPECT_EQ(cache.total(), 0);
  EXPECT_EQ(cache.insert("", Tokens{5, 6, 7, 8, 9, 1}).matched, 0);
  EXPECT_EQ(cache.total(), 4);
  const SimulatorResult r = cache.match("", Tokens{5, 6, 7, 8});
  EXPECT_EQ(r.matched, 2);
  EXPECT_EQ(r.slots, (Slots{0, 1}));
  const std::vector<SimulatorNode> nodes = cache.dump();
  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_EQ(nodes[0].path, (Tokens{5, 6, 7})) << "one token more than bigrams";
  EXPECT_EQ(nodes[0].length, 2);
  EXPECT_EQ(nodes[1].path, (Tokens{5, 6, 7, 8, 9}));
  EXPECT_EQ(nodes[1].length, 2);
  EXPECT_EQ(cache.match("", Tokens{5, 6, 0}).matched, 0);
}

TYPED_TEST(CompatTest, NamespacesShareNothingButTheQueue) {
  TypeParam cache(compat());
  cache.insert("b", Tokens{1, 2});
  cache.insert("", Tokens{1, 2, 3});
  cache.insert("a", Tokens{1});
  cache.insert("b", Tokens{4});
  EXPECT_EQ(cache.match("", Tokens{1, 2}).slots, (Slots{2, 3}));
  EXPECT_EQ(cache.match("a", Tokens{1, 2}).slots, (Slots{5}));
  EXPECT_EQ(cache.match("c", Tokens{1, 2}).matched, 0);
  const std::vector<SimulatorNode> nodes = cache.dump();
  ASSERT_EQ(nodes.size(), 5u);
  const std::vector<std::string> names = {nodes[0].name_space, nodes[1].name_space,
                                          nodes[2].name_space, nodes[3].name_space,
                                          nodes[4].name_space};
  EXPECT_EQ(names, (std::vector<std::string>{"b", "b", "", "", "a"}));
  EXPECT_EQ(nodes[1].path, Tokens{4});
  EXPECT_EQ(cache.evict(2).freed, (Slots{0, 1}));
  EXPECT_EQ(cache.evict(1).freed, (Slots{6}));
  EXPECT_EQ(cache.evict(1).freed, (Slots{4}));
}

TYPED_TEST(CompatTest, SplitNodeTakesThePlaceOfTheOldOneAmongItsSiblings) {
  TypeParam cache(compat());
  cache.insert("", Tokens{1, 2});
  cache.insert("", Tokens{3, 4});
  cache.insert("", Tokens{1, 5});
  const std::vector<SimulatorNode> nodes = cache.dump();
  ASSERT_EQ(nodes.size(), 4u);
  EXPECT_EQ(nodes[0].path, Tokens{1});
  EXPECT_EQ(nodes[1].path, (Tokens{1, 2}));
  EXPECT_EQ(nodes[2].path, (Tokens{1, 5}));
  EXPECT_EQ(nodes[3].path, (Tokens{3, 4}));
}

TYPED_TEST(CompatTest, ResetForgetsNodesAndLocksButNotTheClock) {
  TypeParam cache(compat());
  cache.insert("", Tokens{1, 2});
  cache.lock("", Tokens{1, 2});
  cache.reset();
  expect_sizes(cache, 0, 0);
  EXPECT_TRUE(cache.dump().empty());
  EXPECT_EQ(cache.tick(), 8);
  cache.insert("", Tokens{1, 2});
  EXPECT_EQ(cache.match("", Tokens{1, 2}).slots, (Slots{2, 3})) << "slots are never used twice";
  expect_sizes(cache, 2, 0);
}

}  // namespace
}  // namespace prefix
