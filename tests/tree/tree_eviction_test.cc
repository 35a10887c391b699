// What goes and when, by hand: victims of each policy, pages from the tail, and dropping.
#include <gtest/gtest.h>

#include <string>

#include "cached_tree.h"

namespace prefix {
namespace {

// --- policies ------------------------------------------------------------------------------------

// A request that read the first page of a long text kept all of it.
TEST(TreePolicies, AUseInsideAnEdgeIsNoUseOfTheRest) {
  for (const Policy policy : {Policy::kLru, Policy::kPriority, Policy::kLfu, Policy::kSlru}) {
    SCOPED_TRACE(static_cast<int>(policy));
    CachedTree cache(64, policy);
    const NodeId text = cache.use(run_of(1, 128));
    const NodeId other = cache.use(run_of(2, 40), {.priority = 1});
    if (policy == Policy::kSlru || policy == Policy::kLfu) cache.use(run_of(2, 40));
    const NodeId begin = cache.attach(run_of(1, 40), {.priority = 5});
    EXPECT_EQ(cache.tree.node(begin).end(), 40);
    EXPECT_EQ(cache.tree.node(begin).priority, 5);
    EXPECT_EQ(cache.tree.node(begin).uses, 2u);
    EXPECT_EQ(cache.tree.node(text).priority, 0);
    EXPECT_EQ(cache.tree.node(text).uses, 1u);
    EXPECT_EQ(cache.tree.held_tokens(), 40);
    EXPECT_EQ(cache.pool.used(), 6) << "the page in which it ends is there once";
    EXPECT_EQ(cache.tree.victim(), text);
    cache.tree.unlock(begin, true);
    cache.tree.check();
    EXPECT_EQ(cache.tree.victim(), text);
    cache.tree.evict(text);
    EXPECT_EQ(cache.tree.victim(), other);
    EXPECT_EQ(cache.matched(run_of(1, 128)), 40);
  }
}

// A page is lent to the answer, so that it takes no more than one that grows.
TEST(TreePolicies, AnAnswerHasThePriorityOfItsOwnRequest) {
  CachedTree cache;
  const NodeId prompt = cache.use(run_of(1, 40), {.priority = 5});
  int32_t pages = 0;
  NodeId at = cache.attach(run_of(1, 40));
  EXPECT_EQ(at, prompt);
  at = cache.tree.advance(at, 40, 7, {}, &pages);
  EXPECT_NE(at, prompt);
  EXPECT_EQ(pages, 0);
  EXPECT_EQ(cache.tree.node(at).priority, 0);
  EXPECT_EQ(cache.tree.advance(at, 41, 8, {}, &pages), at) << "now it grows";
  cache.tree.unlock(at, true);
  cache.tree.check();
  // Of a request that ranks as high as its prompt, or higher: one node.
  at = cache.attach(run_of(2, 40), {.priority = 5});
  EXPECT_EQ(cache.tree.advance(at, 40, 7, {.priority = 5}, &pages), at);
  cache.tree.unlock(at, false);
  cache.tree.check();
}

// Four leaves, in this order of creation: A B C D. The table says what sets them apart.
//            A  B  C  D
//   used     2  3  2  1 times
//   last     3. 1. 4. 2.
//   priority 2  1  0  1
std::string order_of_eviction(Policy policy) {
  CachedTree cache(64, policy);
  const auto use = [&](char leaf) {
    const int16_t priority[] = {2, 1, 0, 1};
    return cache.use({leaf, 1, 2}, {.priority = priority[leaf - 'A']});
  };
  for (const char leaf : {'A', 'B', 'B', 'B', 'C', 'D', 'A', 'C'}) use(leaf);
  std::string order;
  while (cache.tree.victim() != kNoNode) {
    const NodeId id = cache.tree.victim();
    order += static_cast<char>(cache.tree.token(cache.tree.node(id), 0));
    cache.tree.evict(id);
    cache.tree.check();
  }
  return order;
}

TEST(TreeEviction, EachPolicyHasItsOwnOrder) {
  EXPECT_EQ(order_of_eviction(Policy::kLru), "BDAC");
  EXPECT_EQ(order_of_eviction(Policy::kMru), "CADB");
  EXPECT_EQ(order_of_eviction(Policy::kFifo), "ABCD");
  EXPECT_EQ(order_of_eviction(Policy::kFilo), "DCBA");
  EXPECT_EQ(order_of_eviction(Policy::kLfu), "DACB") << "fewest uses, then the oldest";
  EXPECT_EQ(order_of_eviction(Policy::kSlru), "DBAC") << "used once goes first";
  EXPECT_EQ(order_of_eviction(Policy::kPriority), "CBDA") << "lowest priority, then the oldest";
  const std::string gdsf = order_of_eviction(Policy::kGdsf);
  EXPECT_EQ(gdsf.front(), 'D') << "least used, all of one size";
  EXPECT_EQ(gdsf.back(), 'B') << "most used";
}

TEST(TreeEviction, GdsfKeepsWhatCostsMoreToCompute) {
  PagePool pool(64);
  Tree tree(pool, {.policy = Policy::kGdsf, .token_cost = 1, .position_cost = 0.1});
  const NodeId root = tree.add_root();
  const auto use = [&](const Tokens& tokens) {
    const Match match = tree.match(root, tokens);
    const NodeId id = tree.attach(match, tokens, {.count_as_use = false});
    for (NodeId up = id; tree.node(up).length > 0; up = tree.node(up).parent)
      tree.set_computed(up, tree.node(up).length);
    tree.unlock(id, true);
    return id;
  };
  use(run_of(1, 200));
  const NodeId deep = use(joined(run_of(1, 200), {1, 2, 3}));
  const NodeId shallow = use({4, 5, 6});  // newer, as often used, but cheap
  EXPECT_EQ(tree.victim(), shallow);
  tree.evict(shallow);
  EXPECT_EQ(tree.victim(), deep);
}

// The age that every eviction raises: leaves of one use each outlive one that had three long ago.
TEST(TreeEviction, GdsfForgetsWhatWasUsefulLongAgo) {
  CachedTree cache(64, Policy::kGdsf);
  const Tokens old = {1, 2, 3};
  for (int i = 0; i < 3; ++i) cache.use(old);
  int evicted = 0;
  for (; cache.matched(old) > 0 && evicted < 20; ++evicted) {
    cache.use({10 + evicted, 1, 2});
    cache.tree.evict(cache.tree.victim());
  }
  EXPECT_GE(evicted, 3) << "it was worth three of them";
  EXPECT_LE(evicted, 5);
}

TEST(TreeEviction, AParentGoesInItsOwnTurnAfterItsLastChild) {
  CachedTree cache;
  const NodeId parent = cache.use({1, 2, 3});
  const NodeId child = cache.use({1, 2, 3, 4});
  const NodeId other = cache.use({9});
  EXPECT_EQ(cache.tree.victim(), child);
  cache.tree.evict(child);
  EXPECT_EQ(cache.tree.victim(), parent) << "as old as its last use, not as its last child's end";
  cache.tree.evict(parent);
  EXPECT_EQ(cache.tree.victim(), other);
}

// --- pages ---------------------------------------------------------------------------------------

TEST(TreeEviction, PagesGoFromTheTailAndTheLeafStaysWithFewerTokens) {
  CachedTree cache(4);
  const Tokens tokens = run_of(1, 100);  // 32 + 32 + 32 + 4
  const NodeId leaf = cache.use(tokens);
  EXPECT_EQ(cache.pool.available(), 0);
  std::vector<int32_t> cuts;
  cache.tree.set_observer(
      {.evicting = [&](NodeId, int32_t from, EvictReason) { cuts.push_back(from); }});
  EXPECT_TRUE(cache.tree.make_room(1));
  cache.tree.check();
  EXPECT_EQ(cache.pool.available(), 1) << "not a page more than needed";
  EXPECT_EQ(cache.tree.node(leaf).length, 96);
  EXPECT_EQ(cache.matched(tokens), 96);
  EXPECT_TRUE(cache.tree.make_room(3));
  cache.tree.check();
  EXPECT_EQ(cache.pool.available(), 3);
  EXPECT_EQ(cache.matched(tokens), 32);
  EXPECT_EQ(cache.tree.evictions(), 0) << "the leaf is still here";
  EXPECT_EQ(cache.tree.evicted_tokens(), 68);
  EXPECT_TRUE(cache.tree.make_room(4));
  cache.tree.check();
  EXPECT_EQ(cache.matched(tokens), 0);
  EXPECT_EQ(cuts, (std::vector<int32_t>{96, 32, 0}));
  EXPECT_FALSE(cache.tree.make_room(5));
}

TEST(TreeEviction, WhatIsNeededComesFromOldLeavesOneAfterTheOther) {
  CachedTree cache(6);
  const Tokens old = run_of(1, 64);
  const Tokens young = run_of(2, 128);
  cache.use(old);
  cache.use(young);
  EXPECT_TRUE(cache.tree.make_room(3));
  cache.tree.check();
  EXPECT_EQ(cache.matched(old), 0);
  EXPECT_EQ(cache.matched(young), 96);
  EXPECT_EQ(cache.tree.trim(1), 64);
  EXPECT_EQ(cache.matched(young), 32);
}

TEST(TreeEviction, APageThatIsSharedAfterASplitIsNotFreedByTheLowerHalf) {
  CachedTree cache(16);
  const Tokens tokens = run_of(1, 100);
  const NodeId lower = cache.use(tokens);
  const NodeId upper = cache.tree.end_at(lower, 40);  // page 1 holds 32..63, of both halves
  EXPECT_EQ(cache.pool.used(), 4);
  cache.tree.evict_tail(lower, 1);
  cache.tree.check();
  EXPECT_EQ(cache.matched(tokens), 96);
  EXPECT_EQ(cache.pool.used(), 3);
  cache.tree.evict_tail(lower, 1);  // its own pages are gone: it goes, the joint's page stays
  cache.tree.check();
  EXPECT_EQ(cache.matched(tokens), 40);
  EXPECT_EQ(cache.pool.used(), 2);
  EXPECT_EQ(cache.tree.victim(), upper);
}

// --- dropping ------------------------------------------------------------------------------------

TEST(TreeDrop, TakesASubtreeButNotWhatIsHeld) {
  CachedTree cache;
  const Tokens top = run_of(1, 40);
  const NodeId above = cache.use(top);
  cache.use(joined(top, {1, 2, 3}));
  cache.use(joined(top, {1, 2, 3, 4}));
  cache.use(joined(top, {5}));
  const NodeId held = cache.attach(joined(top, {6, 7}));
  cache.use(joined(top, {6, 7, 8, 9}));
  cache.use({77});
  EXPECT_EQ(cache.tree.drop(above), 3 + 1 + 1 + 2);
  cache.tree.check();
  EXPECT_EQ(cache.matched(joined(top, {1})), 40);
  EXPECT_EQ(cache.matched(joined(top, {6, 7, 8})), 42);
  EXPECT_EQ(cache.matched({77}), 1);
  cache.tree.unlock(held, true);
  EXPECT_EQ(cache.tree.drop(above), 2);
  EXPECT_EQ(cache.tree.drop(cache.root), 41);
  EXPECT_EQ(cache.pool.used(), 0);
}

TEST(TreeDrop, AfterAMatchInsideAnEdgeCutsIt) {
  CachedTree cache;
  const Tokens tokens = run_of(1, 100);
  cache.use(tokens);
  EXPECT_EQ(cache.tree.drop_after(cache.tree.match(cache.root, run_of(1, 70))), 30);
  cache.tree.check();
  EXPECT_EQ(cache.matched(tokens), 70);
  EXPECT_EQ(cache.pool.used(), 3);
}

}  // namespace
}  // namespace prefix
