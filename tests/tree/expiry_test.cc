// When what has a time to live goes, by hand.
#include <gtest/gtest.h>

#include "cached_tree.h"

namespace prefix {
namespace {

TEST(TreeExpiry, GoesAtItsTimeAndAUseMakesItLater) {
  CachedTree cache;
  cache.use({1, 1, 1}, {.expires_ms = 100});
  cache.use({2, 2, 2}, {.expires_ms = 100});
  cache.use({3, 3, 3});
  cache.use({2, 2, 2}, {.expires_ms = 200});
  cache.use({3, 3, 3}, {.expires_ms = 150});
  EXPECT_EQ(cache.tree.expire(99), 0);
  EXPECT_EQ(cache.tree.expire(100), 3);
  cache.tree.check();
  EXPECT_EQ(cache.matched({1, 1, 1}), 0);
  EXPECT_EQ(cache.matched({2, 2, 2}), 3);
  EXPECT_EQ(cache.tree.expire(199), 0);
  EXPECT_EQ(cache.tree.expire(200), 3);
  EXPECT_EQ(cache.tree.expire(1'000'000), 0);
  EXPECT_EQ(cache.matched({3, 3, 3}), 3) << "what never expires is not made to by a use";
}

TEST(TreeExpiry, AUseWithoutATimeKeepsForever) {
  CachedTree cache;
  cache.use({1, 2}, {.expires_ms = 100});
  cache.use({1, 2});
  EXPECT_EQ(cache.tree.expire(1000), 0);
  EXPECT_EQ(cache.matched({1, 2}), 2);
}

TEST(TreeExpiry, WhatIsHeldGoesLaterAndThenFirst) {
  CachedTree cache;
  cache.use({8, 8});
  const NodeId held = cache.attach({1, 2}, {.expires_ms = 100});
  EXPECT_EQ(cache.tree.expire(500), 0);
  cache.tree.unlock(held, true);
  EXPECT_EQ(cache.tree.victim(), held) << "though {8, 8} is older";
  EXPECT_EQ(cache.tree.expire(500), 2);
  EXPECT_EQ(cache.matched({8, 8}), 2);
}

TEST(TreeExpiry, AParentLivesAsLongAsItsChildren) {
  CachedTree cache;
  cache.use({1, 2, 3}, {.expires_ms = 100});
  cache.use({1, 2, 3, 4, 5}, {.expires_ms = 300});
  cache.use({1, 2, 3, 6}, {.expires_ms = 200});
  EXPECT_EQ(cache.tree.expire(199), 0);
  EXPECT_EQ(cache.tree.expire(200), 1);
  EXPECT_EQ(cache.matched({1, 2, 3, 4, 5}), 5);
  EXPECT_EQ(cache.tree.expire(300), 5) << "the child, and then its parent";
  EXPECT_EQ(cache.pool.used(), 0);
}

// An expired parent whose child is in use stays, and goes with it.
TEST(TreeExpiry, AnExpiredParentWaitsForItsChild) {
  CachedTree cache;
  const NodeId parent = cache.use({1, 2, 3}, {.expires_ms = 100});
  const NodeId child = cache.attach({1, 2, 3, 4, 5}, {.expires_ms = 100});
  EXPECT_EQ(cache.tree.expire(100), 0);
  cache.tree.unlock(child, true);
  EXPECT_TRUE(cache.tree.node(parent).expired);
  EXPECT_EQ(cache.matched({1, 2, 3, 4, 5}), 5);
  EXPECT_EQ(cache.tree.expire(100), 5);
}

// Expired while in use, then used again: it must not go by the old time. It did when nothing else
// in the tree had a time to live, and with one of its own it never went at all.
TEST(TreeExpiry, AUseAfterTheTimeStartsAgain) {
  CachedTree cache;
  const NodeId a = cache.attach({1, 2}, {.expires_ms = 100});
  EXPECT_EQ(cache.tree.expire(200), 0);
  cache.use({1, 2});
  cache.tree.unlock(a, true);
  EXPECT_EQ(cache.tree.expire(300), 0);
  EXPECT_EQ(cache.matched({1, 2}), 2);

  const NodeId b = cache.attach({5, 6}, {.expires_ms = 400});
  EXPECT_EQ(cache.tree.expire(400), 0);
  cache.use({5, 6}, {.expires_ms = 500});
  cache.tree.unlock(b, true);
  EXPECT_EQ(cache.tree.expire(499), 0);
  EXPECT_EQ(cache.tree.expire(500), 2);
}

// Both halves of what expired in use go, and what a sequence decodes after its time does too.
TEST(TreeExpiry, ASplitOrABranchOfAnExpiredEdgeIsExpired) {
  CachedTree cache;
  const NodeId a = cache.attach({1, 2, 3, 4}, {.expires_ms = 100});
  EXPECT_EQ(cache.tree.expire(100), 0);
  cache.tree.end_at(a, 2);
  cache.tree.unlock(a, true);
  EXPECT_EQ(cache.tree.expire(100), 4);

  const NodeId b = cache.attach({5, 6}, {.expires_ms = 200});
  const NodeId c = cache.attach({5, 6}, {.expires_ms = 200});
  EXPECT_EQ(cache.tree.expire(200), 0);
  int32_t pages = 0;
  const NodeId longer = cache.tree.advance(b, 2, 7, {.expires_ms = 200}, &pages);
  const NodeId branch = cache.tree.advance(c, 2, 8, {.expires_ms = 200}, &pages);
  EXPECT_NE(longer, branch);
  for (const NodeId id : {longer, branch}) {
    for (NodeId up = id; cache.tree.node(up).length > 0; up = cache.tree.node(up).parent)
      cache.tree.set_computed(up, cache.tree.node(up).length);
  }
  cache.tree.unlock(longer, true);
  cache.tree.unlock(branch, true);
  cache.tree.check();
  EXPECT_EQ(cache.tree.expire(200), 4);
  EXPECT_EQ(cache.pool.used(), 0);
}

// It was said to stay for all of the edge, so that what others had left behind it never went.
TEST(TreeExpiry, AUseInsideAnEdgeLeavesTheRestItsEnd) {
  for (const int64_t until : {0, 200}) {
    SCOPED_TRACE(until);
    CachedTree cache;
    const NodeId edge = cache.use(run_of(1, 100), {.expires_ms = 100});
    const Tokens begin = run_of(1, 40);
    const NodeId used = cache.attach(begin, {.expires_ms = until});
    EXPECT_NE(used, edge);
    EXPECT_EQ(cache.tree.node(used).end(), 40);
    EXPECT_EQ(cache.tree.node(edge).subtree_locks, 0);
    EXPECT_EQ(cache.tree.held_tokens(), 40);
    EXPECT_EQ(cache.pool.used(), 4);
    EXPECT_EQ(cache.tree.expire(100), 60);
    EXPECT_EQ(cache.pool.used(), 2);
    cache.tree.unlock(used, true);
    cache.tree.check();
    EXPECT_EQ(cache.tree.expire(200), until == 0 ? 0 : 40);
    // An end that comes sooner changes nothing.
    cache.use(run_of(2, 100), {.expires_ms = 900});
    cache.use(run_of(2, 40), {.expires_ms = 800});
    EXPECT_EQ(cache.tree.expire(899), 0);
    EXPECT_EQ(cache.tree.expire(900), 100);
  }
}

TEST(TreeExpiry, AUseInsideAnEdgeThatIsOverLeavesTheRestOver) {
  CachedTree cache;
  const NodeId edge = cache.attach(run_of(1, 100), {.expires_ms = 100});
  EXPECT_EQ(cache.tree.expire(100), 0);
  cache.use(run_of(1, 40), {.expires_ms = 300});
  cache.tree.unlock(edge, true);
  EXPECT_EQ(cache.tree.expire(100), 60);
  EXPECT_EQ(cache.tree.expire(300), 40);
}

// A page is lent to the answer, so that it takes no more than one that grows.
TEST(TreeExpiry, WhatASequenceAddsEndsAsItsOwnUse) {
  CachedTree cache;
  const NodeId prompt = cache.use(run_of(1, 40));
  const AttachOptions use = {.job = 9, .priority = 3, .expires_ms = 100};
  NodeId at = cache.attach(run_of(1, 40), use);
  EXPECT_EQ(at, prompt);
  int32_t pages = 0;
  at = cache.tree.advance(at, 40, 7, use, &pages);
  EXPECT_NE(at, prompt);
  EXPECT_EQ(pages, 0);
  EXPECT_EQ(cache.tree.node(at).job, 9u);
  EXPECT_EQ(cache.tree.node(at).priority, 3);
  EXPECT_EQ(cache.tree.advance(at, 41, 8, use, &pages), at) << "now it grows";
  EXPECT_EQ(cache.pool.used(), 2);
  cache.tree.set_computed(at, 2);
  cache.tree.unlock(at, true);
  cache.tree.check();
  EXPECT_EQ(cache.tree.expire(100), 2);
  EXPECT_EQ(cache.matched(run_of(1, 40)), 40);

  // Where the prompt ends sooner, a further sequence of its request prolongs it: one node.
  const NodeId brief = cache.use(run_of(2, 40), {.expires_ms = 200});
  const NodeId held = cache.attach(run_of(2, 40), {.expires_ms = 300, .count_as_use = false});
  EXPECT_EQ(held, brief);
  EXPECT_EQ(cache.tree.advance(held, 40, 7, {.expires_ms = 310}, &pages), brief);
}

TEST(TreeExpiry, WhatASequenceFollowsIsUsedAsFarAsItGoes) {
  CachedTree cache;
  const NodeId prompt = cache.use(run_of(1, 40));
  const NodeId answer = cache.use(joined(run_of(1, 40), {7, 8, 9}), {.expires_ms = 100});
  EXPECT_EQ(cache.tree.node(answer).uses, 1u);
  NodeId at = cache.attach(run_of(1, 40), {.priority = 5});
  EXPECT_EQ(at, prompt);
  int32_t pages = 0;
  at = cache.tree.advance(at, 40, 7, {.priority = 5}, &pages);
  EXPECT_EQ(at, answer);
  EXPECT_EQ(cache.tree.node(answer).uses, 2u);
  EXPECT_EQ(cache.tree.node(answer).priority, 5);
  at = cache.tree.advance(at, 41, 8, {.priority = 5}, &pages);
  EXPECT_EQ(cache.tree.node(answer).uses, 2u) << "one sequence, one use";
  cache.tree.prolong(at, 42, 0);
  cache.tree.unlock(at, true);
  cache.tree.check();
  EXPECT_EQ(cache.tree.expire(100), 1);
  EXPECT_EQ(cache.matched(joined(run_of(1, 40), {7, 8, 9})), 42);
}

// What is pending goes with the sequence, so only what is computed is prolonged.
TEST(TreeExpiry, ProlongsWhatIsComputed) {
  CachedTree cache;
  const Tokens tokens = run_of(1, 100);
  const NodeId a =
      cache.tree.attach(cache.tree.match(cache.root, tokens), tokens, {.expires_ms = 100});
  cache.tree.prolong(a, 100, 0);
  EXPECT_EQ(cache.tree.node_count(), 2u);
  EXPECT_TRUE(cache.tree.has_expiry(a));
  cache.tree.set_computed(a, 70);
  cache.tree.prolong(a, 90, 200);
  EXPECT_EQ(cache.tree.node(a).start, 70);
  cache.tree.unlock(a, true);
  cache.tree.check();
  EXPECT_EQ(cache.tree.expire(199), 0);
  EXPECT_EQ(cache.tree.expire(200), 70);
}

}  // namespace
}  // namespace prefix
