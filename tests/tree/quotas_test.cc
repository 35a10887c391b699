// How much each namespace may hold, and keeps from others, by hand.
#include <gtest/gtest.h>

#include <string>

#include "base/status.h"
#include "cached_tree.h"

namespace prefix {
namespace {

TEST(TreeLimits, ANamespaceThatGoesLeavesNothing) {
  CachedTree cache;
  const auto live = [&](int32_t number) {
    const NodeId tenant = cache.tree.add_root(0, number);
    cache.tree.set_limits(number, 32, 100);
    cache.use(run_of(1, 64), {}, tenant);
    EXPECT_THROW(cache.tree.remove_namespace(number), Error) << "it has a root";
    cache.tree.drop(tenant);
    cache.tree.remove_root(tenant);
    cache.tree.remove_namespace(number);
    cache.tree.remove_namespace(number);  // unknown
    cache.tree.check();
    EXPECT_EQ(cache.tree.tokens_of(number), 0);
  };
  live(1);
  const size_t bytes = cache.tree.metadata_bytes();
  for (int32_t number = 2; number < 1000; ++number) live(number);
  EXPECT_EQ(cache.tree.metadata_bytes(), bytes);
  // Of one that is new under an old number nothing is known.
  const NodeId tenant = cache.tree.add_root(0, 1);
  cache.use(run_of(1, 200), {}, tenant);
  EXPECT_EQ(cache.tree.tokens_of(1), 200);
  EXPECT_EQ(cache.tree.victim(), cache.tree.match(tenant, run_of(1, 200)).node);
  EXPECT_THROW(cache.tree.remove_namespace(0), Error);
}

TEST(TreeLimits, AQuotaIsKeptByEvictingOnesOwn) {
  CachedTree cache;
  const NodeId tenant = cache.tree.add_root(0, 1);
  cache.tree.set_limits(1, 0, 100);
  cache.use(run_of(9, 50));
  cache.use(run_of(1, 64), {}, tenant);
  cache.use(run_of(2, 36), {}, tenant);
  EXPECT_EQ(cache.tree.tokens_of(1), 100);
  const NodeId held = cache.attach(run_of(3, 20), {}, tenant);
  cache.tree.check();
  EXPECT_EQ(cache.tree.tokens_of(1), 88) << "one page of the oldest went";
  EXPECT_EQ(cache.matched(run_of(1, 64), tenant), 32);
  EXPECT_EQ(cache.matched(run_of(9, 50)), 50) << "nobody else's";
  try {
    cache.attach(run_of(4, 60), {.reserve_tokens = 21}, tenant);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kCacheFull);
    EXPECT_NE(e.message().find("quota is 100"), std::string::npos) << e.message();
  }
  cache.tree.check();
  EXPECT_EQ(cache.tree.tokens_of(1), 20) << "what is in use";
  cache.tree.unlock(held, true);
  cache.tree.set_limits(1, 0, 0);
  cache.use(run_of(5, 200), {}, tenant);
  EXPECT_EQ(cache.tree.tokens_of(1), 220);
}

// What is cut off by a split is less than what would have gone.
TEST(TreeLimits, ASplitLeafMayGoAboveAFloor) {
  CachedTree cache;
  cache.tree.set_limits(0, 40, 0);
  const NodeId text = cache.use(run_of(1, 64));
  EXPECT_EQ(cache.tree.victim(), kNoNode) << "32 tokens would be left";
  cache.tree.end_at(text, 60);
  EXPECT_EQ(cache.tree.victim(), text);
  cache.tree.check();
}

TEST(TreeLimits, OthersDoNotEvictASpaceAtItsFloor) {
  CachedTree cache(8);
  const NodeId tenant = cache.tree.add_root(0, 1);
  cache.tree.set_limits(1, 64, 0);
  cache.use(run_of(1, 128), {}, tenant);  // the oldest of all
  cache.use(run_of(2, 128));
  EXPECT_TRUE(cache.tree.make_room(2));
  cache.tree.check();
  EXPECT_EQ(cache.matched(run_of(1, 128), tenant), 64);
  EXPECT_EQ(cache.matched(run_of(2, 128)), 128);
  EXPECT_TRUE(cache.tree.make_room(6)) << "then the younger ones of others go";
  EXPECT_EQ(cache.matched(run_of(1, 128), tenant), 64);
  EXPECT_EQ(cache.matched(run_of(2, 128)), 0);
  EXPECT_FALSE(cache.tree.make_room(7));
  cache.tree.set_limits(1, 0, 0);
  EXPECT_TRUE(cache.tree.make_room(7));
  EXPECT_EQ(cache.matched(run_of(1, 128), tenant), 32);
}

// The floor protects a space from others, not from itself.
TEST(TreeLimits, ASpaceGoesBelowItsOwnFloorWhenNothingElseIsLeft) {
  PagePool pool(4);
  Tree tree(pool);
  const NodeId others = tree.add_root(0, 0);
  const NodeId own = tree.add_root(0, 1);
  tree.set_limits(1, 4 * kPageTokens, 0);
  const auto keep = [&](NodeId root, int32_t first) {
    const std::vector<int32_t> tokens(2 * kPageTokens, first);
    const NodeId id = tree.attach(tree.match(root, tokens), tokens, {});
    tree.set_computed(id, tree.node(id).length);
    return id;
  };
  tree.unlock(keep(own, 1), true);
  keep(others, 2);  // in use
  EXPECT_FALSE(tree.make_room(1));
  tree.unlock(keep(own, 3), true);
  EXPECT_EQ(tree.tokens_of(1), 2 * kPageTokens);
  EXPECT_EQ(tree.match(own, std::vector<int32_t>{3}).computed, 1);
  tree.check();
}

// A long leaf does not go as a whole because its space is a little above its floor.
TEST(TreeLimits, AnEvictionStopsAtTheFloor) {
  CachedTree cache(8);
  const NodeId tenant = cache.tree.add_root(0, 1);
  cache.tree.set_limits(1, 70, 0);
  cache.use(run_of(1, 128), {}, tenant);
  EXPECT_FALSE(cache.tree.make_room(8));
  cache.tree.check();
  EXPECT_EQ(cache.tree.tokens_of(1), 96) << "another page would leave 64 tokens";
  EXPECT_EQ(cache.tree.victim(), kNoNode);
  EXPECT_EQ(cache.tree.trim(0), 0);
}

}  // namespace
}  // namespace prefix
