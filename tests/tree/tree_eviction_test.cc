// What goes and when, by hand: victims of each policy, pages from the tail, expiry, quotas, floors
// and dropping.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/status.h"
#include "ops/attention_plan.h"
#include "tree/tree.h"

namespace prefix {
namespace {

using Tokens = std::vector<int32_t>;

// n tokens that no other `first` begins with.
Tokens run_of(int32_t first, int32_t n) {
  Tokens tokens(static_cast<size_t>(n));
  for (int32_t i = 0; i < n; ++i) tokens[static_cast<size_t>(i)] = 1000 * first + i;
  return tokens;
}

Tokens joined(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

struct Cache {
  explicit Cache(int32_t pages = 64, Policy policy = Policy::kLru)
      : pool(pages), tree(pool, {.policy = policy}), root(tree.add_root()) {}

  NodeId attach(const Tokens& tokens, const AttachOptions& use = {}, NodeId where = kNoNode) {
    const NodeId top = where == kNoNode ? root : where;
    const NodeId id = tree.attach(tree.match(top, tokens), tokens, use);
    for (NodeId up = id; tree.node(up).length > 0; up = tree.node(up).parent)
      tree.set_computed(up, tree.node(up).length);
    return id;
  }
  // A sequence that comes, is computed and goes.
  NodeId use(const Tokens& tokens, const AttachOptions& use = {}, NodeId where = kNoNode) {
    const NodeId id = attach(tokens, use, where);
    tree.unlock(id, true);
    tree.check();
    return id;
  }
  int32_t matched(const Tokens& tokens, NodeId where = kNoNode) const {
    return tree.match(where == kNoNode ? root : where, tokens).matched;
  }

  PagePool pool;
  Tree tree;
  NodeId root;
};

// --- policies ------------------------------------------------------------------------------------

// A request that read the first page of a long text kept all of it.
TEST(TreePolicies, AUseInsideAnEdgeIsNoUseOfTheRest) {
  for (const Policy policy : {Policy::kLru, Policy::kPriority, Policy::kLfu, Policy::kSlru}) {
    SCOPED_TRACE(static_cast<int>(policy));
    Cache cache(64, policy);
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
  Cache cache;
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
  Cache cache(64, policy);
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
  Cache cache(64, Policy::kGdsf);
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
  Cache cache;
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
  Cache cache(4);
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
  Cache cache(6);
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
  Cache cache(16);
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

// --- expiry --------------------------------------------------------------------------------------

TEST(TreeExpiry, GoesAtItsTimeAndAUseMakesItLater) {
  Cache cache;
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
  Cache cache;
  cache.use({1, 2}, {.expires_ms = 100});
  cache.use({1, 2});
  EXPECT_EQ(cache.tree.expire(1000), 0);
  EXPECT_EQ(cache.matched({1, 2}), 2);
}

TEST(TreeExpiry, WhatIsHeldGoesLaterAndThenFirst) {
  Cache cache;
  cache.use({8, 8});
  const NodeId held = cache.attach({1, 2}, {.expires_ms = 100});
  EXPECT_EQ(cache.tree.expire(500), 0);
  cache.tree.unlock(held, true);
  EXPECT_EQ(cache.tree.victim(), held) << "though {8, 8} is older";
  EXPECT_EQ(cache.tree.expire(500), 2);
  EXPECT_EQ(cache.matched({8, 8}), 2);
}

TEST(TreeExpiry, AParentLivesAsLongAsItsChildren) {
  Cache cache;
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
  Cache cache;
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
  Cache cache;
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
  Cache cache;
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
    Cache cache;
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
  Cache cache;
  const NodeId edge = cache.attach(run_of(1, 100), {.expires_ms = 100});
  EXPECT_EQ(cache.tree.expire(100), 0);
  cache.use(run_of(1, 40), {.expires_ms = 300});
  cache.tree.unlock(edge, true);
  EXPECT_EQ(cache.tree.expire(100), 60);
  EXPECT_EQ(cache.tree.expire(300), 40);
}

// A page is lent to the answer, so that it takes no more than one that grows.
TEST(TreeExpiry, WhatASequenceAddsEndsAsItsOwnUse) {
  Cache cache;
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
  Cache cache;
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
  Cache cache;
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

// --- quotas and floors ---------------------------------------------------------------------------

TEST(TreeLimits, ANamespaceThatGoesLeavesNothing) {
  Cache cache;
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
  Cache cache;
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
  Cache cache;
  cache.tree.set_limits(0, 40, 0);
  const NodeId text = cache.use(run_of(1, 64));
  EXPECT_EQ(cache.tree.victim(), kNoNode) << "32 tokens would be left";
  cache.tree.end_at(text, 60);
  EXPECT_EQ(cache.tree.victim(), text);
  cache.tree.check();
}

TEST(TreeLimits, OthersDoNotEvictASpaceAtItsFloor) {
  Cache cache(8);
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
  Cache cache(8);
  const NodeId tenant = cache.tree.add_root(0, 1);
  cache.tree.set_limits(1, 70, 0);
  cache.use(run_of(1, 128), {}, tenant);
  EXPECT_FALSE(cache.tree.make_room(8));
  cache.tree.check();
  EXPECT_EQ(cache.tree.tokens_of(1), 96) << "another page would leave 64 tokens";
  EXPECT_EQ(cache.tree.victim(), kNoNode);
  EXPECT_EQ(cache.tree.trim(0), 0);
}

// --- dropping ------------------------------------------------------------------------------------

TEST(TreeDrop, TakesASubtreeButNotWhatIsHeld) {
  Cache cache;
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
  Cache cache;
  const Tokens tokens = run_of(1, 100);
  cache.use(tokens);
  EXPECT_EQ(cache.tree.drop_after(cache.tree.match(cache.root, run_of(1, 70))), 30);
  cache.tree.check();
  EXPECT_EQ(cache.matched(tokens), 70);
  EXPECT_EQ(cache.pool.used(), 3);
}

}  // namespace
}  // namespace prefix
