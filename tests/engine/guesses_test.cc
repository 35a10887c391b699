// What a generation guesses that comes next: from its own text, against a plain search, and from
// what the cache has behind its path.
#include "engine/schedule/guesses.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "engine/schedule/draft_length.h"

namespace prefix {
namespace {

using Tokens = std::vector<int32_t>;

// As the header says it: the longest end of 2 to 16 tokens that occurred before, in its last place.
Tokens plain_guess(const Tokens& text, size_t limit) {
  for (size_t n = 16; n >= 2; --n) {
    for (size_t at = text.size(); at-- > n;) {
      const auto there = text.begin() + static_cast<ptrdiff_t>(at - n);
      if (!std::equal(there, there + static_cast<ptrdiff_t>(n),
                      text.end() - static_cast<ptrdiff_t>(n)))
        continue;
      Tokens all = text;
      for (size_t i = 0; i < limit; ++i) all.push_back(all[at + i]);
      return {all.end() - static_cast<ptrdiff_t>(limit), all.end()};
    }
  }
  return {};
}

TEST(Guesses, ComeFromTheLastPlaceOfTheLongestEndThatOccurredBefore) {
  const Tokens text = {1, 7, 4, 9, 2, 5, 8, 3, 4, 9, 6, 6, 1, 7, 4, 9};
  EXPECT_EQ(guess_from_text(text, 3), (Tokens{2, 5, 8})) << "1 7 4 9 is longer than 4 9";
  EXPECT_EQ(guess_from_text(Tokens{4, 9, 1, 4, 9, 2, 4, 9}, 2), (Tokens{2, 4}));
  EXPECT_EQ(guess_from_text(Tokens{9, 1, 2, 9}, 4), Tokens{}) << "one token alone tells nothing";
  EXPECT_EQ(guess_from_text(Tokens{1, 2, 3}, 4), Tokens{});
  EXPECT_EQ(guess_from_text(Tokens{}, 4), Tokens{});
  EXPECT_EQ(guess_from_text(text, 0), Tokens{});
}

TEST(Guesses, OfATextThatRepeatsItselfGoOn) {
  EXPECT_EQ(guess_from_text(Tokens{8, 1, 2, 1, 2, 1, 2}, 5), (Tokens{1, 2, 1, 2, 1}));
  EXPECT_EQ(guess_from_text(Tokens(40, 7), 3), (Tokens{7, 7, 7}));
}

TEST(Guesses, AreThoseOfAPlainSearch) {
  std::mt19937 random(5);
  size_t found = 0;
  for (int i = 0; i < 4000; ++i) {
    Tokens text(random() % 60);
    const unsigned vocab = 1 + random() % 5;
    for (int32_t& t : text) t = static_cast<int32_t>(random() % vocab);
    const size_t limit = random() % 9;
    const Tokens guess = guess_from_text(text, limit);
    ASSERT_EQ(guess, plain_guess(text, limit)) << "text " << i;
    found += !guess.empty();
  }
  EXPECT_GT(found, 1000u);
}

TEST(DraftLength, DoublesWhileAllIsRightUpToTheLimit) {
  DraftLength length;
  for (const int32_t expected : {4, 8, 16, 20, 20}) {
    ASSERT_EQ(length.next(), expected);
    length.settle(expected, expected, 20);
  }
  length.settle(7, 7, 20);
  EXPECT_EQ(length.next(), 20) << "seven were guessed, and all that could be were right";
  length.settle(20, 5, 20);
  EXPECT_EQ(length.next(), 12);
  length.settle(4, 4, 20);
  EXPECT_EQ(length.next(), 12) << "fewer than it may be tell nothing of more";
}

TEST(DraftLength, ShrinksAndThenPausesWhereNothingIsRight) {
  DraftLength length;
  std::vector<int32_t> guessed;
  for (int i = 0; i < 60; ++i) {
    guessed.push_back(length.next());
    if (guessed.back() > 0) length.settle(guessed.back(), 0, 32);
  }
  std::vector<int32_t> expected = {4, 2, 1};
  for (const size_t pause : {1u, 3u, 7u, 15u, 15u}) {
    expected.insert(expected.end(), pause, 0);
    expected.push_back(1);
  }
  expected.resize(60);
  guessed.resize(expected.size());
  EXPECT_EQ(guessed, expected);
  while (length.next() == 0) continue;
  length.settle(1, 1, 32);
  EXPECT_EQ(length.next(), 2) << "right again";
  length.settle(2, 0, 32);
  EXPECT_EQ(length.next(), 1);
  length.settle(1, 0, 32);
  EXPECT_EQ(length.next(), 0);
  EXPECT_EQ(length.next(), 1) << "the shortest pause";
}

struct CachedGuesses : testing::Test {
  // Computed but for its last `pending` tokens, and held.
  NodeId add(const Tokens& tokens, int32_t pending = 0) {
    const NodeId node = tree.attach(tree.match(root, tokens), tokens, {});
    for (NodeId id = node; tree.node(id).length > 0; id = tree.node(id).parent)
      tree.set_computed(id, tree.node(id).length - (id == node ? pending : 0));
    return node;
  }
  Tokens guess(NodeId node, int32_t length, size_t limit, NodeId* last = nullptr) {
    const CachedGuess g = guess_from_cache(tree, node, length, limit);
    if (last) *last = g.node;
    if (!g.tokens.empty()) {
      const auto end = length + static_cast<int32_t>(g.tokens.size()) - 1;
      EXPECT_EQ(tree.node_at(g.node, end), g.node) << "it holds the last one";
    }
    return g.tokens;
  }

  PagePool pages{100};
  Tree tree{pages, {}};
  NodeId root = tree.add_root();
};

TEST_F(CachedGuesses, FollowTheEdgeAndThenTheBranchThatWasUsedLast) {
  const NodeId text = add({1, 2, 3, 4, 5});
  const NodeId first = add({1, 2, 3, 4, 5, 6, 7, 8});
  const NodeId second = add({1, 2, 3, 4, 5, 9, 9, 9, 9});
  EXPECT_EQ(guess(text, 2, 2), (Tokens{3, 4}));
  EXPECT_EQ(guess(text, 3, 9), (Tokens{4, 5, 9, 9, 9, 9}));
  NodeId last = kNoNode;
  EXPECT_EQ(guess(text, 5, 3, &last), (Tokens{9, 9, 9}));
  EXPECT_EQ(last, second);
  tree.unlock(first, true);  // which is a use of it
  EXPECT_EQ(guess(text, 5, 3, &last), (Tokens{6, 7, 8}));
  EXPECT_EQ(last, first);
  EXPECT_EQ(guess(first, 8, 3), Tokens{});
  EXPECT_EQ(guess(text, 5, 0), Tokens{});
}

TEST_F(CachedGuesses, EndWhereTokensArePending) {
  const NodeId text = add({1, 2});
  add({1, 2, 3, 4, 5, 6}, 2);
  EXPECT_EQ(guess(text, 2, 9), (Tokens{3, 4}));
  EXPECT_EQ(guess(text, 1, 9), (Tokens{2, 3, 4}));
}

}  // namespace
}  // namespace prefix
