// Which state goes first, worked out by hand for each policy that weighs what it saves.
#include <algorithm>

#include "states_fixture.h"

namespace prefix {
namespace {

using namespace testing_support;

struct StatePoliciesTest : StatesTest {
  // A path of its own with a state of 64 tokens' room at its end.
  NodeId leaf(int32_t from, int32_t n) {
    const NodeId node = cached(count_from(from, n));
    give_state(node);
    return node;
  }
  // Makes room until a state goes; leaves without one go before.
  void lose_one() {
    const size_t states = tree.state_count();
    for (int32_t more = 1; tree.state_count() == states; ++more)
      ASSERT_TRUE(tree.make_room(pool.available() + more));
    ASSERT_EQ(tree.state_count(), states - 1);
    tree.check();
  }
};

// Tokens saved for those that fit into state and prefix: 96 / 160, 32 / 96, 64 / 128. As shares of
// their range 1, 0 and 0.625; recency 0, between, and 1.
TEST_F(StatePoliciesTest, MarconiWeighsRecencyAgainstWhatAStateSaves) {
  for (const auto& [alpha, expected] : {std::pair{0.0, std::vector{0, 1, 2}},
                                        {0.1, std::vector{0, 1, 2}},
                                        {2.0, std::vector{1, 2, 0}}}) {
    tree.drop(root);
    std::vector<NodeId> nodes;
    for (const int32_t n : {96, 32, 64}) nodes.push_back(leaf(1000 * n, n));
    tree.set_policy(Policy::kMarconi, alpha);
    EXPECT_EQ(tree.alpha(), alpha);
    std::vector<int> gone;
    for (int lost = 0; lost < 3; ++lost) {
      lose_one();
      for (int i = 0; i < 3; ++i)
        if (!tree.has_state(nodes[static_cast<size_t>(i)]) &&
            std::find(gone.begin(), gone.end(), i) == gone.end())
          gone.push_back(i);
    }
    EXPECT_EQ(gone, expected) << alpha;
  }
}

// A state saves what lies between it and the one above it, and no more.
TEST_F(StatePoliciesTest, MarconiCountsTheTokensFromTheStateAboveOn) {
  for (const bool with_state_above : {false, true}) {
    tree.drop(root);
    const NodeId deep = leaf(0, 96);
    const NodeId other = leaf(5000, 48);
    if (with_state_above) give_state(tree.end_at(deep, 80), 2);
    tree.set_policy(Policy::kMarconi, 2);  // 96 / 160 or 16 / 160 against 48 / 112
    lose_one();
    EXPECT_EQ(tree.has_state(deep), !with_state_above);
    EXPECT_EQ(tree.has_state(other), with_state_above);
  }
}

// 48 tokens behind 112 for a state and 160 tokens are less than 32 for a state and 32.
TEST_F(StatePoliciesTest, MarconiCountsTheRoomOfTheWholePrefix) {
  const NodeId flat = leaf(5000, 32);
  const NodeId deep = leaf(0, 160);
  give_state(tree.end_at(deep, 112));
  tree.set_policy(Policy::kMarconi, 20);
  lose_one();
  EXPECT_TRUE(tree.has_state(flat));
  EXPECT_FALSE(tree.has_state(deep));
}

TEST_F(StatePoliciesTest, MarconiLeavesOtherNamespacesTheirFloor) {
  const NodeId own = tree.add_root(0, 7);
  const NodeId held = computed(count_from(0, 32), own);
  tree.unlock(held, true);
  give_state(held);
  tree.set_limits(7, 3 * kPageTokens, 0);
  const NodeId other = leaf(1000, 96);  // saves more, and was used later
  tree.set_policy(Policy::kMarconi, 2);
  ASSERT_TRUE(tree.make_room(pool.available() + 1));
  EXPECT_TRUE(tree.has_state(held));
  EXPECT_FALSE(tree.has_state(other));
}

TEST_F(StatePoliciesTest, MarconiTakesExpiredStatesFirst) {
  const NodeId old = leaf(0, 32);
  const Tokens tokens = count_from(1000, 96);
  const NodeId node = tree.attach(tree.match(root, tokens), tokens, {.expires_ms = 100});
  tree.set_computed(node, 96);
  give_state(node);
  tree.pin_state(node);
  tree.unlock(node, true);
  tree.expire(100);
  EXPECT_TRUE(tree.has_state(node)) << "in use";
  tree.unpin_state(node);
  tree.set_policy(Policy::kMarconi, 2);
  ASSERT_TRUE(tree.make_room(pool.available() + 1));
  EXPECT_FALSE(tree.has_state(node));
  EXPECT_TRUE(tree.has_state(old));
}

// With gds a state is worth more when the one above it goes: 32 tokens to compute again, then 96,
// for its pages and a run of 32; against 48 for its pages and a run of 48.
TEST_F(StatePoliciesTest, GdsKnowsWhenTheStateAboveGoes) {
  for (const bool goes : {false, true}) {
    tree.drop(root);
    tree.set_policy(Policy::kGds);
    const NodeId deep = leaf(0, 96);
    const NodeId above = tree.end_at(deep, 64);
    give_state(above);
    tree.check();
    const NodeId other = leaf(5000, 48);
    if (goes) tree.drop_state(above);
    tree.check();
    lose_one();
    EXPECT_EQ(tree.has_state(deep), goes);
    EXPECT_EQ(tree.has_state(other), !goes);
  }
}

// What is not used grows old: after others went, one that came later stays though it saves less.
TEST_F(StatePoliciesTest, GdsLetsGoOfWhatSavesMuchAndIsNotUsed) {
  for (const bool used : {false, true}) {
    tree.drop(root);
    tree.set_policy(Policy::kGds);
    const NodeId old = leaf(0, 96);  // 96 / 160; others 32 / 96, and the age when they came
    const NodeId first = leaf(1000, 32);
    lose_one();
    EXPECT_FALSE(tree.has_state(first));
    if (used) tree.use_state(old);
    const NodeId second = leaf(2000, 32);
    lose_one();
    EXPECT_EQ(tree.has_state(old), used);
    EXPECT_EQ(tree.has_state(second), !used);
  }
}

}  // namespace
}  // namespace prefix
