// Hollow pages: where a path can be continued, what goes with them, and whose frames they are.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "base/status.h"
#include "tree/tree.h"

namespace prefix {
namespace {

using Tokens = std::vector<int32_t>;

Tokens count_from(int32_t first, int32_t n) {
  Tokens tokens;
  for (int32_t i = 0; i < n; ++i) tokens.push_back(first + i);
  return tokens;
}

Tokens join(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

struct WindowsTest : testing::Test {
  PagePool pool{20};
  Tree tree{pool, {.window = 64}};
  NodeId root = tree.add_root();

  void compute(NodeId node) {
    for (NodeId up = node; tree.node(up).length > 0; up = tree.node(up).parent)
      if (tree.node(up).computed < tree.node(up).length)
        tree.set_computed(up, tree.node(up).length);
  }
  NodeId cached(const Tokens& tokens) {
    const NodeId node = tree.attach(tree.match(root, tokens), tokens, {});
    compute(node);
    tree.unlock(node, true);
    return node;
  }
  // A path that is held, computed, and has the pages behind position `from` alone.
  NodeId slid(const Tokens& tokens, int32_t from) {
    const NodeId node = tree.attach(tree.match(root, tokens), tokens, {.slides = true});
    const auto n = static_cast<int32_t>(tokens.size());
    pool.add_band(pages_between(0, n));
    tree.fill_sliding(node, 0, n);
    compute(node);
    empty_before(node, n, from);
    return node;
  }
  void empty_before(NodeId node, int32_t length, int32_t from) {
    int32_t end = 0;
    tree.for_each_sliding(node, length, [&](const Tree::SlidingPage& page) {
      if (page.end > from) return;
      pool.empty(page.page);
      end = std::max(end, page.end);
    });
    if (end > 0) tree.prune_behind(node, 0, end);
  }
  // It ends as a request does.
  void end(NodeId node, int32_t length, int32_t band) {
    tree.for_each_sliding(node, length,
                          [&](const Tree::SlidingPage& page) { pool.settle(page.page); });
    pool.remove_band(band);
    tree.unlock(node, true);
  }
};

TEST_F(WindowsTest, APathIsContinuedWhereItsWindowIsThere) {
  const NodeId node = slid(count_from(0, 180), 64);
  EXPECT_EQ(tree.resumable(node, 180), 180);
  EXPECT_EQ(tree.resumable(node, 128), 128);
  EXPECT_EQ(tree.resumable(node, 127), 0);
  EXPECT_TRUE(tree.is_whole(node, 64, 180));
  EXPECT_FALSE(tree.is_whole(node, 63, 180));
  EXPECT_EQ(tree.whole_until(node, 180), 0);
  EXPECT_EQ(tree.kept_pages(tree.node(node)), 4);
  tree.check();
}

TEST_F(WindowsTest, WhatIsWholeBeforeTheGapIsFoundToo) {
  cached(count_from(0, 70));
  const NodeId node = slid(count_from(0, 300), 192);
  EXPECT_EQ(tree.resumable(node, 300), 300);
  EXPECT_EQ(tree.resumable(node, 255), 96) << "70 to 95 are in the page of what was there";
  EXPECT_EQ(tree.whole_until(node, 300), 96);
  tree.check();
}

TEST_F(WindowsTest, TurnsOfAConversationShareAPage) {
  for (int32_t turn = 1; turn <= 20; ++turn) cached(count_from(0, 9 * turn));
  EXPECT_EQ(pool.used(), 6) << "180 tokens";
  EXPECT_EQ(tree.match(root, count_from(0, 180)).computed, 180);
  tree.check();
  // What slides has its page alone, and the next one too.
  const NodeId node =
      tree.attach(tree.match(root, count_from(0, 230)), count_from(0, 230), {.slides = true});
  EXPECT_EQ(tree.node(node).first_page, tree.node(tree.node(node).parent).last_page);
  EXPECT_EQ(pool.hollow_pages(), 2);
  pool.add_band(2);
  tree.fill_sliding(node, 180, 230);
  compute(node);
  const Tokens longer = count_from(0, 240);
  EXPECT_EQ(tree.pages_needed(tree.match(root, longer), 240), 1);
  const NodeId next = tree.attach(tree.match(root, longer), longer, {});
  EXPECT_NE(tree.node(next).first_page, tree.node(node).last_page);
  tree.check();
}

TEST_F(WindowsTest, ASequenceThatEndsLeavesAPathThatCanBeContinued) {
  const NodeId node = slid(count_from(0, 180), 64);
  end(node, 180, 6);
  EXPECT_EQ(tree.match(root, count_from(0, 180)).computed, 180);
  EXPECT_EQ(pool.available(), 16);
  tree.check();
  tree.evict_tail(node, 2);
  EXPECT_EQ(tree.match(root, count_from(0, 180)).computed, 128);
  tree.evict_tail(node, 1);  // then it cannot be continued any more, so nothing of it stays
  EXPECT_EQ(tree.token_count(), 0);
  EXPECT_EQ(pool.available(), 20);
  EXPECT_EQ(pool.hollow_pages(), 0);
  tree.check();
}

TEST_F(WindowsTest, ASequenceThatEndsTooEarlyLeavesNothing) {
  const NodeId node = slid(count_from(0, 180), 160);
  end(node, 180, 6);
  EXPECT_EQ(tree.token_count(), 0);
  tree.check();
}

// A leaf beside the path needs pages before the fork.
TEST_F(WindowsTest, ALeafThatLosesItsWindowGoes) {
  const NodeId node = slid(count_from(0, 180), 0);
  const Tokens beside = join(count_from(0, 100), {500, 501});
  const NodeId leaf = tree.attach(tree.match(root, beside), beside, {});
  compute(leaf);
  tree.unlock(leaf, true);
  EXPECT_EQ(tree.match(root, beside).matched, 102);
  empty_before(node, 180, 32);
  EXPECT_EQ(tree.match(root, beside).matched, 102) << "it reads from 38 on";
  tree.check();
  empty_before(node, 180, 64);
  EXPECT_EQ(tree.match(root, beside).matched, 100);
  EXPECT_EQ(tree.resumable(node, 180), 180);
  tree.check();
}

TEST_F(WindowsTest, AnotherSequenceTakesWhatItReadsOutOfTheBand) {
  const NodeId node = slid(count_from(0, 180), 64);
  const Tokens other = join(count_from(0, 150), {500});
  const NodeId branch = tree.attach(tree.match(root, other), other, {.reads_from = 87});
  EXPECT_EQ(pool.sliding_pages(), 1) << "the page of 160";
  empty_before(node, 180, 180);
  EXPECT_TRUE(tree.is_whole(branch, 87, 150));
  tree.check();
}

// A branch has a copy of what is before it in its page;
// what was computed there is read where it was.
TEST_F(WindowsTest, RowsBeforeAForkNeedThePageThatTheyAreIn) {
  const NodeId node = slid(count_from(0, 180), 0);
  const Tokens other = join(count_from(0, 100), {500, 501});
  const NodeId branch = tree.attach(tree.match(root, other), other, {});
  compute(branch);
  EXPECT_TRUE(tree.has_rows(branch, 0, 102));
  empty_before(node, 180, 128);
  EXPECT_TRUE(tree.is_whole(branch, 96, 102)) << "in the copy";
  EXPECT_TRUE(tree.has_rows(branch, 100, 102));
  EXPECT_FALSE(tree.has_rows(branch, 99, 102));
  EXPECT_TRUE(tree.has_rows(branch, 99, 99));
  tree.check();
}

// Pages that are still to be computed get frames, and one that was given back gets none.
TEST_F(WindowsTest, AnotherSequenceGetsFramesForWhatIsPending) {
  const Tokens tokens = count_from(0, 320);
  const NodeId node = tree.attach(tree.match(root, tokens), tokens, {.slides = true});
  pool.add_band(4);
  EXPECT_EQ(pool.used(), 0);
  tree.fill_sliding(node, 0, 128);
  tree.set_computed(node, 128);
  empty_before(node, 320, 64);
  const Match match = tree.match(root, count_from(0, 200));
  EXPECT_EQ(match.computed, 128);
  tree.attach(match, count_from(0, 200), {.reads_from = 65});
  EXPECT_EQ(pool.hollow_pages(), 2 + 3) << "pages 0 and 1, and those of 224, 256, 288";
  EXPECT_EQ(pool.sliding_pages(), 0);
  EXPECT_EQ(pool.available(), 20 - 4 - 5);
  tree.check();
}

TEST_F(WindowsTest, WhoFollowsAnothersTokensTakesTheirPages) {
  const Tokens tokens = count_from(0, 64);
  const NodeId node = tree.attach(tree.match(root, tokens), tokens, {});
  compute(node);
  tree.lock(node);
  pool.add_band(4);
  int32_t taken = -1;
  const NodeId ahead = tree.advance(node, 64, 7, {.slides = true}, &taken);
  EXPECT_EQ(taken, 0);
  EXPECT_EQ(pool.hollow_pages(), 1);
  EXPECT_EQ(tree.advance(node, 64, 7, {}, &taken), ahead);
  EXPECT_EQ(taken, 1);
  EXPECT_EQ(pool.hollow_pages(), 0);
  EXPECT_EQ(tree.advance(ahead, 65, 8, {.slides = true}, &taken), ahead);
  EXPECT_EQ(tree.advance(ahead, 65, 8, {}, &taken), ahead);
  EXPECT_EQ(taken, 0) << "it has the page";
  tree.check();
}

// What was given back cannot be followed: it makes way, unless it is held.
TEST_F(WindowsTest, TokensWhosePageIsGoneMakeWay) {
  NodeId prompt = tree.attach(tree.match(root, count_from(0, 64)), count_from(0, 64), {});
  compute(prompt);
  const NodeId ahead = slid(count_from(0, 250), 160);
  EXPECT_TRUE(tree.make_way(&prompt, 64, 7)) << "another token";
  EXPECT_FALSE(tree.make_way(&prompt, 64, 64));
  end(ahead, 250, 8);
  EXPECT_EQ(tree.match(root, count_from(0, 250)).matched, 250);
  EXPECT_TRUE(tree.make_way(&prompt, 64, 64));
  EXPECT_EQ(tree.match(root, count_from(0, 250)).matched, 64);
  EXPECT_EQ(tree.node(prompt).end(), 64);
  tree.check();
}

TEST_F(WindowsTest, TokensInsideAnEdgeMakeWay) {
  const NodeId ahead = slid(count_from(0, 250), 160);
  tree.lock(ahead);
  NodeId follows = ahead;
  EXPECT_FALSE(tree.make_way(&follows, 128, 128));
  EXPECT_EQ(tree.node(follows).end(), 128);
  end(ahead, 250, 8);
  EXPECT_TRUE(tree.make_way(&follows, 128, 128));
  EXPECT_EQ(tree.match(root, count_from(0, 250)).matched, 128);
  tree.check();
}

TEST_F(WindowsTest, APrivateRootIsNotObserved) {
  int heard = 0;
  tree.set_observer({.evicting = [&](NodeId, int32_t, EvictReason) { ++heard; },
                     .computed = [&](NodeId, int32_t) { ++heard; },
                     .state_kept = {},
                     .taking_state = {}});
  const NodeId own = tree.add_root(0, 0, 0, true);
  const NodeId node = tree.attach(tree.match(own, count_from(0, 5)), count_from(0, 5), {});
  compute(node);
  tree.unlock(node, false);
  EXPECT_EQ(heard, 0);
  cached(count_from(0, 5));
  EXPECT_EQ(heard, 1);
  tree.remove_root(own);
}

TEST_F(WindowsTest, CommonTellsHowFarTwoPathsAreOne) {
  const NodeId a = cached(count_from(0, 50));
  const NodeId b = cached(join(count_from(0, 30), {99}));
  EXPECT_EQ(tree.common(a, b), 30);
  EXPECT_EQ(tree.common(a, a), 50);
  EXPECT_EQ(tree.common(tree.node(a).parent, a), 30);
  EXPECT_EQ(tree.common(a, cached({7})), 0);
}

// A page inside which a path branches is listed once, as what it is to each path.
TEST_F(WindowsTest, PagesOfSplitsAreListedOnce) {
  const NodeId node = slid(count_from(0, 80), 0);
  const NodeId upper = tree.end_at(node, 40);
  const Tokens other = join(count_from(0, 40), {500});
  const NodeId branch =
      tree.attach(tree.match(root, other), other, {.slides = true, .reads_from = 0});
  std::vector<std::vector<int32_t>> seen;
  const auto list = [&](NodeId id, int32_t length) {
    seen.clear();
    tree.for_each_sliding(id, length, [&](const Tree::SlidingPage& page) {
      seen.push_back({page.begin, page.end, page.source});
    });
    return seen;
  };
  using Pages = std::vector<std::vector<int32_t>>;
  EXPECT_EQ(list(node, 80), (Pages{{32, 64, 0}, {64, 96, 0}, {0, 32, 0}}));
  EXPECT_EQ(list(upper, 40), (Pages{{0, 32, 0}, {32, 64, 0}}));
  EXPECT_EQ(list(branch, 41), (Pages{{0, 32, 0}, {32, 40, 1}}));
}

TEST(PagePool, FramesAreAsManyAsThereAre) {
  PagePool pool(3);
  const int32_t a = pool.allocate(-1);
  const int32_t b = pool.allocate_hollow(a);
  EXPECT_EQ(pool.available(), 2);
  pool.add_band(1);
  EXPECT_EQ(pool.available(), 1);
  pool.fill_sliding(b);
  EXPECT_EQ(pool.used(), 2);
  EXPECT_EQ(pool.available(), 1) << "it was set aside";
  EXPECT_THROW(pool.fill_sliding(pool.allocate_hollow(b)), Error) << "the band has no more";
  pool.settle(b);
  EXPECT_EQ(pool.available(), 0) << "the band is as large as before";
  pool.remove_band(1);
  EXPECT_EQ(pool.available(), 1);
  pool.empty(a);
  EXPECT_TRUE(pool.take_dirty().empty());
  const int32_t c = pool.allocate(-1);
  EXPECT_EQ(pool.take_dirty(), std::vector<int32_t>{pool.frame(c)}) << "it has another's bytes";
  EXPECT_EQ(pool.frame(c), 0);
}

TEST(PagePool, AFrameThatWasWrittenIsZeroedWhenAnotherOneGetsIt) {
  PagePool pool(2);
  std::vector<int32_t> pages = {pool.allocate(-1), pool.allocate(-1)};
  const auto hand_out_again = [&](size_t i) {
    pool.release(pages[i]);
    pages[i] = pool.allocate(-1);
  };
  hand_out_again(0);
  hand_out_again(1);
  pool.set_clean(pages[0]);
  EXPECT_EQ(pool.take_dirty(), std::vector<int32_t>{pool.frame(pages[1])});
  hand_out_again(0);
  pool.set_clean(pages[0]);
  hand_out_again(0);
  EXPECT_EQ(pool.take_dirty(), std::vector<int32_t>{pool.frame(pages[0])}) << "once";
  EXPECT_TRUE(pool.take_dirty().empty());
}

}  // namespace
}  // namespace prefix
