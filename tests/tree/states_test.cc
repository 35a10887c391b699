// States of recurrent layers in the tree: whose they are, what they cost, which one goes.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "base/status.h"
#include "states_fixture.h"

namespace prefix {
namespace {

using namespace testing_support;

TEST_F(StatesTest, ASplitLeavesTheStateWithTheLowerHalf) {
  const NodeId node = cached(count_from(0, 10));
  give_state(node);
  EXPECT_EQ(tree.state_at(node, 10), node);
  EXPECT_EQ(tree.state_at(node, 9), kNoNode);
  const NodeId upper = tree.end_at(node, 4);
  EXPECT_NE(upper, node);
  EXPECT_FALSE(tree.has_state(upper));
  EXPECT_TRUE(tree.has_state(node));
  give_state(upper);
  EXPECT_EQ(tree.state_at(node, 9), upper);
  tree.check();
}

TEST_F(StatesTest, ThinningTakesTheStatesNearestToTheRoot) {
  const NodeId leaf = cached(count_from(0, 30));
  give_state(leaf, 1);
  std::vector<NodeId> nodes;
  for (const int32_t end : {4, 8, 12, 16}) nodes.push_back(tree.end_at(leaf, end));
  for (const NodeId node : nodes) give_state(node, 1);
  Tokens other = count_from(0, 8);
  other.push_back(77);
  cached(other);             // nodes[1] is a fork now
  tree.pin_state(nodes[2]);  // and nodes[2] is in use
  tree.thin_states(leaf, 5);
  EXPECT_EQ(tree.state_count(), 5u);
  tree.thin_states(leaf, 4);
  EXPECT_FALSE(tree.has_state(nodes[0]));
  EXPECT_EQ(tree.state_count(), 4u);
  tree.thin_states(leaf, 1);
  EXPECT_FALSE(tree.has_state(nodes[3]));
  EXPECT_TRUE(tree.has_state(nodes[1]) && tree.has_state(nodes[2]) && tree.has_state(leaf));
  EXPECT_EQ(tree.state_evictions(), 0);
  tree.unpin_state(nodes[2]);
  tree.thin_states(nodes[2], 1);
  EXPECT_EQ(tree.state_count(), 3u) << "its own stays";
  tree.exempt_state(nodes[2]);
  tree.thin_states(leaf, 1);
  EXPECT_EQ(tree.state_count(), 3u) << "so does what was asked for";
  tree.check();
}

TEST_F(StatesTest, ALeafWithAStateDoesNotGrow) {
  const NodeId node = computed(count_from(0, 10));
  give_state(node);
  int32_t pages = 0;
  const NodeId below = tree.advance(node, 10, 77, {.job = 1}, &pages);
  EXPECT_NE(below, node);
  EXPECT_EQ(tree.node(below).parent, node);
  EXPECT_EQ(tree.node(below).first_page, tree.node(node).last_page)
      << "what is below it goes on there";
  EXPECT_EQ(pages, 0);
  EXPECT_TRUE(tree.has_state(node));
  tree.unlock(below, true);
  tree.check();
}

TEST_F(StatesTest, ItGoesWithTheLastTokenOfItsNode) {
  const NodeId node = cached(count_from(0, 40));
  give_state(node, 3);
  EXPECT_EQ(pool.used(), 5);
  tree.evict_tokens(node, 1);
  EXPECT_FALSE(tree.has_state(node));
  EXPECT_EQ(pool.used(), 2);
  give_state(cached(count_from(100, 5)), 4);
  EXPECT_EQ(tree.drop(root), 44);
  EXPECT_EQ(pool.used(), 0);
  EXPECT_EQ(tree.state_count(), 0u);
  tree.check();
}

TEST_F(StatesTest, LeavesWithoutAStateGoFirstThenTheOldestState) {
  const NodeId first = cached(count_from(0, 32));
  give_state(first, 8);
  const NodeId second = cached(count_from(100, 32));
  give_state(second, 8);
  cached(count_from(200, 32));
  tree.lock(first);  // a use of the path, not of its state
  tree.unlock(first, true);
  ASSERT_TRUE(tree.make_room(2));
  EXPECT_EQ(tree.match(root, count_from(200, 32)).matched, 0);
  EXPECT_EQ(tree.state_evictions(), 0);
  ASSERT_TRUE(tree.make_room(3));
  EXPECT_FALSE(tree.has_state(first));
  EXPECT_TRUE(tree.has_state(second));
  EXPECT_EQ(tree.match(root, count_from(0, 32)).matched, 32);
  ASSERT_TRUE(tree.make_room(11));  // now the first is a leaf without a state
  EXPECT_EQ(tree.match(root, count_from(0, 32)).matched, 0);
  EXPECT_TRUE(tree.has_state(second));
  tree.check();
}

TEST_F(StatesTest, GdsKeepsWhatCostsMoreForItsSizeAndGdsfCountsUses) {
  for (const Policy policy : {Policy::kGds, Policy::kGdsf}) {
    PagePool pages(60);
    Tree t(pages, {.policy = policy, .token_cost = 1, .position_cost = 0});
    const NodeId top = t.add_root();
    const auto leaf = [&](int32_t from, int32_t n) {
      const Tokens tokens = count_from(from, n);
      const NodeId id = t.attach(t.match(top, tokens), tokens, {});
      t.set_computed(id, n);
      t.add_state(id, t.take_state_pages(10), true);
      t.unpin_state(id);
      t.unlock(id, true);
      return id;
    };
    const NodeId deep = leaf(0, 96), used = leaf(1000, 32), flat = leaf(2000, 32);
    for (int i = 0; i < 9; ++i) t.use_state(used);
    ASSERT_TRUE(t.make_room(60 - pages.used() + 1));
    EXPECT_TRUE(t.has_state(deep));
    EXPECT_EQ(t.has_state(used), policy == Policy::kGdsf);
    EXPECT_EQ(t.has_state(flat), policy == Policy::kGds);  // gds: the older one of two
    t.check();
  }
}

TEST_F(StatesTest, AnotherPolicyFromNowOn) {
  const NodeId first = cached(count_from(0, 96));
  give_state(first, 6);
  const NodeId second = cached(count_from(1000, 32));
  give_state(second, 6);
  EXPECT_EQ(tree.policy(), Policy::kLru);
  tree.set_policy(Policy::kGds);
  tree.check();
  ASSERT_TRUE(tree.make_room(5));
  EXPECT_TRUE(tree.has_state(first));
  EXPECT_FALSE(tree.has_state(second));
}

TEST_F(StatesTest, AUseOfTheStateKeepsIt) {
  const NodeId first = cached(count_from(0, 32));
  give_state(first, 8);
  const NodeId second = cached(count_from(100, 32));
  give_state(second, 8);
  tree.lock(first);
  tree.unlock(first, true);
  tree.use_state(first);
  ASSERT_TRUE(tree.make_room(3));
  EXPECT_TRUE(tree.has_state(first));
  EXPECT_FALSE(tree.has_state(second));
}

TEST_F(StatesTest, AStateAtAForkStaysUntilTheForkIsGone) {
  const NodeId trunk = computed(count_from(0, 32));
  give_state(trunk, 10);
  Tokens a = count_from(0, 32), b = a;
  a.push_back(500);
  b.push_back(600);
  const NodeId left = computed(a), right = computed(b);
  tree.unlock(trunk, true);
  tree.unlock(left, true);
  tree.unlock(right, true);
  ASSERT_TRUE(tree.make_room(8));  // a branch in mid-page has a page of its own
  EXPECT_TRUE(tree.has_state(trunk));
  ASSERT_TRUE(tree.make_room(18));
  EXPECT_FALSE(tree.has_state(trunk));
  tree.check();
}

// A floor keeps others away; its namespace gives up one state, not all that it has.
TEST_F(StatesTest, ASpaceGivesUpAStateBelowItsOwnFloor) {
  tree.set_limits(0, 20 * kPageTokens, 0);
  const NodeId first = cached(count_from(0, 32)), second = cached(count_from(100, 32));
  give_state(first, 8);
  give_state(second, 8);
  EXPECT_FALSE(tree.make_room(5));
  EXPECT_EQ(tree.state_count(), 2u);
  EXPECT_TRUE(tree.make_room(5, 0));
  EXPECT_EQ(tree.state_count(), 1u);
  EXPECT_TRUE(tree.has_state(second)) << "the one used last";
  tree.check();
}

TEST_F(StatesTest, APinnedStateStaysAndOneThatNobodyKeepsGoesWithItsLastPin) {
  const NodeId node = computed(count_from(0, 32));
  tree.add_state(node, tree.take_state_pages(10), false);  // pinned once
  tree.pin_state(node);
  EXPECT_FALSE(tree.make_room(15));
  tree.unpin_state(node);
  EXPECT_TRUE(tree.has_state(node));
  tree.unpin_state(node);
  EXPECT_FALSE(tree.has_state(node));
  EXPECT_EQ(pool.used(), 1);
  tree.unlock(node, true);
  tree.check();
}

TEST_F(StatesTest, AQuotaCountsStatesAndAFloorProtectsThem) {
  const NodeId own = tree.add_root(0, 7);
  tree.set_limits(7, 0, 10 * kPageTokens);
  const NodeId node = computed(count_from(0, 64), own);
  tree.unlock(node, true);
  give_state(node, 8);
  EXPECT_EQ(tree.quota_left(7), 0);
  EXPECT_TRUE(tree.make_state_room(1, 7));  // its oldest goes: the state
  EXPECT_FALSE(tree.has_state(node));
  give_state(node, 4);
  EXPECT_FALSE(tree.make_state_room(11, 7));
  tree.set_limits(7, 20 * kPageTokens, 0);
  const NodeId other = cached(count_from(1000, 64));
  give_state(other, 8);
  ASSERT_TRUE(tree.make_room(8));
  tree.check();
}

TEST_F(StatesTest, ExpiredStatesGo) {
  const Tokens tokens = count_from(0, 32);
  const NodeId node = tree.attach(tree.match(root, tokens), tokens, {.expires_ms = 100});
  tree.set_computed(node, 32);
  give_state(node);
  tree.unlock(node, true);
  tree.expire(99);
  EXPECT_TRUE(tree.has_state(node));
  tree.expire(100);
  EXPECT_EQ(tree.state_count(), 0u);
  EXPECT_EQ(tree.token_count(), 0);
  tree.check();
}

TEST_F(StatesTest, RandomOperationsKeepTheInvariants) {
  std::mt19937 random(3);
  const auto below = [&](size_t n) { return static_cast<int32_t>(random() % n); };
  for (const Policy policy : {Policy::kLru, Policy::kGds, Policy::kGdsf, Policy::kFifo,
                              Policy::kPriority, Policy::kMarconi}) {
    PagePool pages(60);
    Tree t(pages, {.policy = policy});
    const NodeId roots[2] = {t.add_root(), t.add_root(0, 1)};
    t.set_limits(1, 64, 800);
    std::vector<NodeId> held;
    std::multiset<NodeId> pins;
    for (int i = 0; i < 40000; ++i) {
      switch (below(8)) {
        case 0:
        case 1: {
          Tokens tokens;
          for (int32_t n = 1 + below(90); n > 0; --n) tokens.push_back(below(2));
          const NodeId at = roots[below(2)];
          try {
            const NodeId node = t.attach(t.match(at, tokens), tokens, {});
            held.push_back(node);
            if (below(5) == 0) break;  // pending
            for (NodeId up = node; t.node(up).length > 0; up = t.node(up).parent) {
              const Node& n = t.node(t.node(up).parent);
              if (n.computed == n.length && t.node(up).computed < t.node(up).length)
                t.set_computed(up, t.node(up).length);
            }
          } catch (const Error&) {
          }
          break;
        }
        case 2:
          if (!held.empty()) {
            const auto which = held.begin() + below(held.size());
            const NodeId node = *which;
            held.erase(which);
            if (std::find(held.begin(), held.end(), node) == held.end())
              for (NodeId up = node; up != kNoNode; up = t.node(up).parent)
                while (pins.contains(up)) {
                  pins.erase(pins.find(up));
                  t.unpin_state(up);
                }
            t.unlock(node, below(4) > 0);
          }
          break;
        case 3:
          if (!held.empty()) {
            const NodeId node = held[static_cast<size_t>(below(held.size()))];
            const Node& n = t.node(node);
            if (n.computed < n.length || t.has_state(node)) break;
            if (!t.make_state_room(3, t.name_space(n))) break;
            const bool keep = below(2) == 0;
            t.add_state(node, t.take_state_pages(3), keep);
            if (below(2) == 0) {
              pins.insert(node);
            } else {
              t.unpin_state(node);
            }
          }
          break;
        case 4:
          if (!held.empty()) {
            const NodeId node = held[static_cast<size_t>(below(held.size()))];
            const NodeId state = t.state_at(node, t.node(node).end());
            if (state == kNoNode) break;
            t.use_state(state);
            t.pin_state(state);
            pins.insert(state);
          }
          break;
        case 5:
          t.make_room(below(30));
          if (below(50) == 0) t.set_policy(below(2) ? Policy::kGdsf : policy, below(3));
          break;
        case 6:
          if (!held.empty()) {
            const NodeId node = held[static_cast<size_t>(below(held.size()))];
            t.end_at(node, 1 + below(static_cast<size_t>(t.node(node).end())));
          }
          break;
        case 7:
          if (!held.empty()) {
            const auto which = static_cast<size_t>(below(held.size()));
            if (pages.available() < 2) break;
            int32_t taken = 0;
            const NodeId node = held[which];
            if (pins.contains(node)) break;
            held[which] = t.advance(node, t.node(node).end(), below(2), {.job = 1}, &taken);
          }
          break;
      }
      if (i % 16 == 0) t.check();
    }
  }
}

}  // namespace
}  // namespace prefix
