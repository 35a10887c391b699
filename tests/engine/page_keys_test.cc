// The keys of pages, each computed once, are those that a chain by hand gives, whatever has become
// of the tree since: a key that outlives its tokens would hand out the pages of another prompt.
#include "cache/page_keys.h"

#include <gtest/gtest.h>

#include <random>

#include "base/status.h"
#include "engine_support.h"
#include "lower_tiers_support.h"

namespace prefix {
namespace {

using namespace testing_support;

struct PageKeysTest : testing::Test {
  NodeId attach(const Tokens& tokens) {
    return cache.tree.attach(cache.tree.match(cache.root, tokens), tokens, {});
  }
  void expect_keys(NodeId node, const Tokens& tokens) {
    const std::vector<PageKey> expected = keys_of(cache.root, tokens);
    for (size_t i = 0; i < expected.size(); ++i)
      ASSERT_EQ(cache.keys.key(node, static_cast<int32_t>(i)), expected[i]) << "block " << i;
  }
  // Every mark in the tree stands for the right key.
  void check_marks() { check_below(cache.root, {}); }

  SmallCache cache{40};
  std::mt19937 random{3};

 private:
  void check_below(NodeId id, Tokens tokens) {
    const Node& n = cache.tree.node(id);
    for (const int32_t token : cache.tree.tokens(n)) tokens.push_back(token);
    std::vector<PageKey> expected;
    for_each_full_page(cache.tree, n, 0, n.length, [&](int32_t page, int32_t block) {
      if (!cache.pool.keyed(page)) return;
      if (expected.empty()) expected = keys_of(cache.root, tokens);
      ASSERT_EQ(cache.keys.known(page), expected[static_cast<size_t>(block)])
          << "node " << id << ", block " << block;
    });
    // A page that is not full yet has no key to grow old.
    const bool open_end = n.end() % kPageTokens != 0 && n.first_child == kNoNode;
    ASSERT_FALSE(open_end && (cache.pool.keyed(n.last_page) || cache.pool.saved(n.last_page)));
    for (NodeId below = n.first_child; below != kNoNode; below = cache.tree.node(below).next)
      check_below(below, tokens);
  }
};

TEST_F(PageKeysTest, InOrderOrFromTheLastPageAlone) {
  const Tokens tokens = random_tokens(random, 200, 1000);
  const NodeId id = attach(tokens);
  EXPECT_EQ(cache.keys.key(id, 5), keys_of(cache.root, tokens)[5]);
  expect_keys(id, tokens);
  cache.tree.unlock(id, true);
}

TEST_F(PageKeysTest, AcrossASplitInMidPage) {
  Tokens tokens = random_tokens(random, 200, 1000);
  const NodeId first = attach(tokens);
  Tokens other = first_tokens(tokens, 75);
  for (const int32_t t : random_tokens(random, 80, 1000)) other.push_back(t);
  const NodeId second = attach(other);  // splits the first one
  expect_keys(second, other);
  expect_keys(first, tokens);
  check_marks();
  cache.tree.unlock(first, true);
  cache.tree.unlock(second, true);
}

TEST_F(PageKeysTest, OfPathsThatAreNotInTheTree) {
  const Tokens tokens = random_tokens(random, 200, 1000);
  const std::vector<PageKey> expected = keys_of(cache.root, tokens);
  for (const size_t have : {0u, 31u, 32u, 33u, 96u, 140u}) {
    if (have > 0) cache.add(cache.root, first_tokens(tokens, have));
    const Match match = cache.tree.match(cache.root, tokens);
    const int32_t first = match.matched / kPageTokens;
    const std::vector<PageKey> keys = cache.keys.keys_behind(match.node, first, tokens, 6);
    ASSERT_EQ(keys, std::vector<PageKey>(expected.begin() + first, expected.end())) << have;
  }
}

TEST_F(PageKeysTest, ACutPageLosesItsKeyAndGetsThatOfItsNewTokens) {
  Tokens tokens = random_tokens(random, 64, 1000);
  NodeId id = attach(tokens);
  cache.compute_all(id);
  expect_keys(id, tokens);
  cache.tree.unlock(id, true);
  cache.tree.drop_after(cache.tree.match(cache.root, first_tokens(tokens, 40)));
  check_marks();
  tokens.resize(40);
  id = attach(tokens);
  for (int32_t length = 40; length < 64; ++length) {
    int32_t pages;
    tokens.push_back(7);
    id = cache.tree.advance(id, length, 7, {}, &pages);
  }
  expect_keys(id, tokens);
  check_marks();
  cache.tree.unlock(id, false);
}

TEST_F(PageKeysTest, WhateverBecomesOfTheTree) {
  struct Sequence {
    Tokens tokens;
    NodeId node;
  };
  std::vector<Sequence> running;
  std::vector<Tokens> known(1, random_tokens(random, 100, 3));
  const auto at_most = [&](size_t n) { return random() % (n + 1); };
  const auto prefix_of = [&](const Tokens& tokens) {
    return first_tokens(tokens, 1 + at_most(tokens.size() - 1));
  };
  const int operations = cases(20000);
  int64_t checked = 0;
  for (int i = 0; i < operations; ++i) {
    const size_t what = at_most(9);
    if (what < 3 && running.size() < 6) {
      Tokens tokens = prefix_of(known[at_most(known.size() - 1)]);
      for (const int32_t t : random_tokens(random, at_most(60), 3)) tokens.push_back(t);
      if (tokens.size() > 160) tokens.resize(160);
      try {
        running.push_back({tokens, attach(tokens)});
        known.push_back(tokens);
      } catch (const Error&) {  // no room
      }
    } else if (what < 5 && !running.empty()) {
      Sequence& s = running[at_most(running.size() - 1)];
      cache.compute_all(s.node);
      for (size_t n = at_most(40); n > 0 && cache.tree.make_room(1); --n) {
        int32_t pages;
        const int32_t token = random_tokens(random, 1, 3)[0];
        s.node =
            cache.tree.advance(s.node, static_cast<int32_t>(s.tokens.size()), token, {}, &pages);
        s.tokens.push_back(token);
      }
    } else if (what < 7 && !running.empty()) {
      const size_t at = at_most(running.size() - 1);
      if (at_most(1)) cache.compute_all(running[at].node);
      cache.tree.unlock(running[at].node, at_most(4) > 0);
      running.erase(running.begin() + static_cast<ptrdiff_t>(at));
    } else if (what < 8) {
      const Tokens tokens = prefix_of(known[at_most(known.size() - 1)]);
      cache.tree.drop_after(cache.tree.match(cache.root, tokens));
    } else if (what < 9) {
      cache.tree.trim(static_cast<int32_t>(at_most(40)));
    } else if (!running.empty()) {
      const Sequence& s = running[at_most(running.size() - 1)];
      cache.tree.end_at(s.node, 1 + static_cast<int32_t>(at_most(s.tokens.size() - 1)));
    }
    if (!running.empty()) {
      const Sequence& s = running[at_most(running.size() - 1)];
      if (s.tokens.size() >= kPageTokens) {
        const size_t block = at_most(s.tokens.size() / kPageTokens - 1);
        ASSERT_EQ(cache.keys.key(s.node, static_cast<int32_t>(block)),
                  keys_of(cache.root, s.tokens)[block])
            << "operation " << i << ", block " << block;
        ++checked;
      }
    }
    check_marks();
    if (HasFatalFailure()) FAIL() << "operation " << i;
  }
  EXPECT_GT(checked, operations / 4);
  for (const Sequence& s : running) cache.tree.unlock(s.node, true);
}

}  // namespace
}  // namespace prefix
