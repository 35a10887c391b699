#include "tree/tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include "base/status.h"
#include "ops/attention_plan.h"

namespace prefix {
namespace {

using Tokens = std::vector<int32_t>;

// Marks the whole path as computed, as a step would.
void compute(Tree& tree, NodeId node) {
  for (; tree.node(node).length > 0; node = tree.node(node).parent)
    tree.set_computed(node, tree.node(node).length);
}

Tokens path_of(const Tree& tree, NodeId node) {
  Tokens tokens;
  for (; tree.node(node).length > 0; node = tree.node(node).parent) {
    const Tokens own = tree.tokens(tree.node(node));
    tokens.insert(tokens.begin(), own.begin(), own.end());
  }
  return tokens;
}

Tokens random_tokens(std::mt19937& random, size_t n, int vocabulary) {
  Tokens tokens(n);
  for (int32_t& t : tokens) t = static_cast<int32_t>(random() % static_cast<unsigned>(vocabulary));
  return tokens;
}

struct TreeTest : testing::Test {
  PagePool pool{64};
  Tree tree{pool};
  NodeId root = tree.add_root();

  NodeId attach(const Tokens& tokens, const AttachOptions& use = {}) {
    return tree.attach(tree.match(root, tokens), tokens, use);
  }
};

TEST_F(TreeTest, MatchFindsTheLongestPathAndChangesNothing) {
  compute(tree, attach({5, 9, 12, 7, 3, 3}));
  const size_t nodes = tree.node_count();
  const Match m = tree.match(root, Tokens{5, 9, 12, 8});
  EXPECT_EQ(m.matched, 3);
  EXPECT_EQ(m.computed, 3);
  EXPECT_EQ(m.offset, 3);
  EXPECT_EQ(tree.node_count(), nodes);
  EXPECT_EQ(tree.match(root, Tokens{1}).matched, 0);
  EXPECT_EQ(tree.match(root, Tokens{}).matched, 0);
}

// What a path has computed ends with the first token that has not been, whatever comes behind it.
TEST_F(TreeTest, MatchTellsWhatIsComputedFromWhatIsPending) {
  const Tokens all = [] {
    Tokens tokens(80);
    std::iota(tokens.begin(), tokens.end(), 1);
    return tokens;
  }();
  const auto first = [&](size_t n) { return Tokens(all.begin(), all.begin() + n); };
  const auto computed = [&](size_t n) { return tree.match(root, first(n)).computed; };
  const NodeId upper = attach(first(50));
  tree.set_computed(upper, 40);
  EXPECT_EQ(tree.match(root, first(50)).matched, 50);
  EXPECT_EQ(computed(50), 40);
  EXPECT_EQ(computed(41), 40);
  EXPECT_EQ(computed(40), 40);
  EXPECT_EQ(computed(30), 30);
  const NodeId lower = attach(all);
  tree.set_computed(lower, 20);
  EXPECT_EQ(tree.match(root, all).matched, 80);
  EXPECT_EQ(computed(80), 40) << "there is a gap before the rest";
  tree.set_computed(upper, 50);
  EXPECT_EQ(computed(80), 70);
}

TEST_F(TreeTest, SplitKeepsTheLowerIdTokensLocksAndPages) {
  const Tokens first{5, 9, 12, 7, 3, 3};
  const NodeId a = attach(first);
  compute(tree, a);
  const NodeId b = attach({5, 9, 12, 1});
  tree.check();
  EXPECT_EQ(path_of(tree, a), first);
  EXPECT_EQ(path_of(tree, b), (Tokens{5, 9, 12, 1}));
  EXPECT_EQ(tree.node(a).start, 3);
  const Node& upper = tree.node(tree.node(a).parent);
  EXPECT_EQ(upper.computed, 3);
  EXPECT_EQ(upper.first_page, tree.node(a).first_page) << "both halves use the page of the split";
  EXPECT_NE(upper.first_page, tree.node(b).first_page) << "a branch in mid-page has its own page";
  EXPECT_EQ(pool.references(upper.first_page), 2);
}

TEST_F(TreeTest, ALeafLendsTheRestOfItsPageToTheFirstBranch) {
  Tokens longer(70);
  std::iota(longer.begin(), longer.end(), 0);
  Tokens other(longer.begin(), longer.begin() + 40);
  const NodeId turn = attach(other);
  compute(tree, turn);
  other.push_back(500);
  const Match match = tree.match(root, longer);
  EXPECT_EQ(tree.pages_needed(match, 64), 0) << "positions 40 to 63 have their place";
  EXPECT_EQ(tree.pages_needed(match, 70), 1);
  EXPECT_EQ(tree.reach(match, 1), 96);
  const NodeId next = attach(longer);
  EXPECT_EQ(pool.used(), 3);
  EXPECT_EQ(tree.node(next).first_page, tree.node(turn).last_page);
  EXPECT_EQ(pool.references(tree.node(next).first_page), 2);
  EXPECT_EQ(path_of(tree, next), longer);
  const Match taken = tree.match(root, other);
  EXPECT_EQ(tree.pages_needed(taken, 41), 1) << "the page is lent";
  EXPECT_EQ(tree.reach(taken, 1), 64);
  const NodeId second = attach(other);
  EXPECT_NE(tree.node(second).first_page, tree.node(turn).last_page);
  tree.check();
  tree.unlock(second, true);
  tree.unlock(next, true);
  EXPECT_EQ(pool.used(), 2) << "what was pending is gone, and the page is the leaf's again";
  const NodeId again = attach(other);
  EXPECT_EQ(tree.node(again).first_page, tree.node(turn).last_page);
  EXPECT_EQ(pool.used(), 2);
  tree.check();
}

TEST_F(TreeTest, APathThatEndsInsideAnEdgeHasANode) {
  const NodeId a = attach({1, 2, 3, 4});
  const NodeId begin = attach({1, 2});
  EXPECT_EQ(tree.node(begin).length, 2);
  EXPECT_EQ(tree.node(a).parent, begin);
  EXPECT_EQ(attach({1, 2}), begin);
  EXPECT_EQ(tree.node_count(), 3u) << "one for all that end there";
  EXPECT_EQ(pool.used(), 1);
  tree.unlock(a, true);
  tree.unlock(begin, true);
  tree.unlock(begin, true);
  EXPECT_EQ(tree.node_count(), 1u) << "nothing was computed, so nothing stays";
  EXPECT_EQ(pool.used(), 0);
}

TEST_F(TreeTest, RollbackLeavesWhatWasComputed) {
  Tokens long_path(70);
  for (size_t i = 0; i < 70; ++i) long_path[i] = static_cast<int32_t>(i);
  const NodeId a = attach(long_path);
  EXPECT_EQ(pool.used(), 3);
  tree.set_computed(a, 40);
  tree.unlock(a, true);
  tree.check();
  EXPECT_EQ(tree.match(root, long_path).matched, 40);
  EXPECT_EQ(pool.used(), 2);
}

TEST_F(TreeTest, CacheOffRemovesPathsWhenTheLastUserLeaves) {
  const NodeId a = attach({1, 2, 3, 4});
  const NodeId b = attach({1, 2, 9});
  compute(tree, a);
  compute(tree, b);
  tree.unlock(a, false);
  tree.check();
  EXPECT_EQ(tree.match(root, Tokens{1, 2, 3, 4}).matched, 2);
  tree.unlock(b, false);
  tree.check();
  EXPECT_EQ(tree.node_count(), 1u);
  EXPECT_EQ(pool.used(), 0);
}

TEST_F(TreeTest, EvictsLeastRecentlyUsedLeavesButNotLockedOnes) {
  std::vector<NodeId> nodes;
  for (int32_t i = 0; i < 64; ++i) {
    nodes.push_back(attach({i, i, i}));
    compute(tree, nodes.back());
  }
  for (NodeId id : nodes)
    if (id != nodes[0]) tree.unlock(id, true);
  attach({100, 1});
  tree.check();
  EXPECT_EQ(tree.match(root, Tokens{1, 1, 1}).matched, 0) << "the oldest unlocked leaf went";
  EXPECT_EQ(tree.match(root, Tokens{0, 0, 0}).matched, 3) << "the locked one stayed";
  EXPECT_EQ(tree.match(root, Tokens{2, 2, 2}).matched, 3);
}

TEST_F(TreeTest, FullOfLockedPathsIsAClearErrorAndChangesNothing) {
  for (int32_t i = 0; i < 64; ++i) attach({i, 1});
  try {
    attach({200});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kCacheFull);
    EXPECT_NE(e.message().find("64"), std::string::npos) << e.message();
  }
  tree.check();
  EXPECT_EQ(tree.node_count(), 65u);
}

TEST_F(TreeTest, WhatNeverFitsEvictsNothing) {
  const NodeId a = attach({1, 2, 3});
  compute(tree, a);
  tree.unlock(a, true);
  EXPECT_THROW(attach(Tokens(65 * kPageTokens, 4)), Error);
  EXPECT_EQ(tree.match(root, Tokens{1, 2, 3}).computed, 3);
  tree.check();
}

TEST_F(TreeTest, AdvanceGrowsALeafFollowsAnEdgeOrBranches) {
  const NodeId a = attach({1, 2});
  const Tokens prompt{1, 2};  // of a second sequence of the same request
  const NodeId b = tree.attach(tree.match(root, prompt), prompt, {.count_as_use = false});
  EXPECT_EQ(a, b);
  int32_t pages = 0;
  NodeId x = tree.advance(a, 2, 7, {.job = 1}, &pages);
  EXPECT_EQ(x, a) << "a leaf grows in place";
  EXPECT_EQ(tree.advance(b, 2, 7, {.job = 1}, &pages), a) << "the same token follows";
  tree.check();
  x = tree.advance(x, 3, 8, {.job = 1}, &pages);
  EXPECT_EQ(x, a);
  const NodeId y = tree.advance(b, 3, 9, {.job = 1}, &pages);  // the edge goes on with 8: branch
  EXPECT_NE(y, a);
  EXPECT_EQ(pages, 1);
  tree.check();
  EXPECT_EQ(path_of(tree, x), (Tokens{1, 2, 7, 8}));
  EXPECT_EQ(path_of(tree, y), (Tokens{1, 2, 7, 9}));
  EXPECT_EQ(tree.node(x).locks, 1);
  EXPECT_EQ(tree.node(y).locks, 1);
}

TEST_F(TreeTest, AnAnswerInheritsNoUsesOfItsPrompt) {
  const NodeId prompt = attach({1, 2});
  EXPECT_EQ(attach({1, 2}), prompt);
  int32_t pages = 0;
  const NodeId answer = tree.advance(prompt, 2, 7, {.job = 1}, &pages);
  EXPECT_NE(answer, prompt);
  EXPECT_EQ(pages, 0) << "it is lent the rest of the page";
  EXPECT_EQ(tree.node(prompt).uses, 2u);
  EXPECT_EQ(tree.node(answer).uses, 1u);
  EXPECT_EQ(tree.advance(answer, 3, 8, {.job = 1}, &pages), answer) << "and grows in place";
  EXPECT_EQ(path_of(tree, answer), (Tokens{1, 2, 7, 8}));
  tree.check();
}

TEST_F(TreeTest, NamespacesShareNothing) {
  const NodeId other = tree.add_root();
  compute(tree, attach({1, 2, 3}));
  EXPECT_EQ(tree.match(other, Tokens{1, 2, 3}).matched, 0);
}

TEST_F(TreeTest, DropEmptiesOneNamespaceOnly) {
  const NodeId other = tree.add_root();
  const Tokens tokens{1, 2, 3};
  NodeId a = attach(tokens);
  compute(tree, a);
  tree.unlock(a, true);
  a = attach({1, 2, 4});
  compute(tree, a);
  tree.unlock(a, true);
  const NodeId b = tree.attach(tree.match(other, tokens), tokens, {});
  compute(tree, b);
  tree.unlock(b, true);
  EXPECT_EQ(tree.drop(root), 4);
  tree.check();
  EXPECT_EQ(tree.match(root, tokens).matched, 0);
  EXPECT_EQ(tree.match(other, tokens).matched, 3);
}

TEST(TreeMemory, ANodeCostsAtMost96BytesAndASlotFour) {
  constexpr size_t kNodes = 100'000;
  PagePool pool(kNodes);
  Tree tree(pool);
  const NodeId root = tree.add_root();
  for (size_t i = 0; i < kNodes; ++i) {
    Tokens tokens(kPageTokens, static_cast<int32_t>(i % 7));
    tokens[0] = static_cast<int32_t>(i);
    const NodeId id = tree.attach(tree.match(root, tokens), tokens, {});
    compute(tree, id);
    tree.unlock(id, true);
  }
  ASSERT_EQ(tree.node_count(), kNodes + 1);
  EXPECT_LE(tree.metadata_bytes(), kNodes * 96);
  // The tokens, 8 bytes that link a page to its neighbours,
  // the number of its frame and a place for a free one; pages come 1024 at a time.
  EXPECT_LE(pool.metadata_bytes(), (kNodes + 1024) * (4 * size_t{kPageTokens} + 8 + 4 + 4));
}

// Random attach, compute, advance and release against the set of live paths.
TEST(TreeProperty, InvariantsHoldUnderRandomOperations) {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    std::mt19937 random(seed);
    PagePool pool(40);
    Tree tree(pool);
    const NodeId roots[] = {tree.add_root(), tree.add_root()};
    struct Live {
      NodeId node;
      Tokens tokens;
    };
    std::vector<Live> live;
    for (int step = 0; step < 400; ++step) {
      const unsigned what = random() % 10;
      if (what < 5) {
        const Tokens tokens = random_tokens(random, 1 + random() % 80, 2);
        const NodeId root = roots[random() % 2];
        try {
          live.push_back({tree.attach(tree.match(root, tokens), tokens, {}), tokens});
        } catch (const Error& e) {
          ASSERT_EQ(e.code(), Code::kCacheFull);
        }
      } else if (what < 6 && !live.empty()) {
        const size_t i = random() % live.size();
        tree.unlock(live[i].node, random() % 4 != 0);
        live.erase(live.begin() + static_cast<ptrdiff_t>(i));
      } else if (what < 8 && !live.empty()) {
        compute(tree, live[random() % live.size()].node);
      } else if (!live.empty() && pool.available() > 2) {
        Live& l = live[random() % live.size()];
        const auto token = static_cast<int32_t>(random() % 2);
        int32_t pages = 0;
        compute(tree, l.node);
        l.node =
            tree.advance(l.node, static_cast<int32_t>(l.tokens.size()), token, {.job = 1}, &pages);
        l.tokens.push_back(token);
      }
      ASSERT_NO_THROW(tree.check()) << "seed " << seed << " step " << step;
      for (const Live& l : live) {
        Tokens path = path_of(tree, l.node);
        ASSERT_GE(path.size(), l.tokens.size());
        path.resize(l.tokens.size());
        ASSERT_EQ(path, l.tokens) << "seed " << seed << " step " << step;
      }
    }
    for (const Live& l : live) tree.unlock(l.node, false);
    for (NodeId root : roots) tree.drop(root);
    tree.check();
    EXPECT_EQ(pool.used(), 0);
  }
}

}  // namespace
}  // namespace prefix
