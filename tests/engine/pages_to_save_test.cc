// A page that a snapshot will copy later still holds what it was noted for, or is known to be gone,
// whatever becomes of the tree meanwhile.
#include "cache/pages_to_save.h"

#include <gtest/gtest.h>

#include <vector>

#include "random_tree.h"

namespace prefix {
namespace {

using namespace testing_support;

struct PagesToSaveTest : testing::Test {
  PagesToSaveTest() {
    TreeObserver observer;
    observer.evicting = [this](NodeId id, int32_t from, EvictReason) {
      pages.evicting(cache.tree, id, from);
    };
    cache.tree.set_observer(std::move(observer));
  }
  // Notes all that is computed.
  void note() {
    pages = {};
    words.clear();
    for (NodeId id = 0; id < cache.tree.node_limit(); ++id) {
      const Node& n = cache.tree.node(id);
      if (n.root < 0 || n.computed == 0) continue;
      int32_t position = n.start;
      cache.tree.for_each_piece(n, 0, n.computed, [&](int32_t page, int32_t, int32_t count) {
        pages.add({page, static_cast<int32_t>(words.size()), position, position + count});
        position += count;
      });
      words.push_back(words_of(cache.tree.root(n), path_to(cache.tree, id)));
    }
  }
  void check() {
    for (const PagesToSave::Entry& e : pages.entries()) {
      ++(e.page >= 0 ? kept : lost);
      for (int32_t p = e.begin; e.page >= 0 && p < e.end; ++p) {
        uint64_t word;
        std::memcpy(&word,
                    cache.kv.data() + static_cast<size_t>(e.page) * cache.layout.page_bytes() +
                        static_cast<size_t>(p % kPageTokens) * SmallCache::kSlotBytes,
                    sizeof(word));
        ASSERT_EQ(word, words[static_cast<size_t>(e.node)][static_cast<size_t>(p)])
            << "position " << p;
      }
    }
  }

  SmallCache cache{40};
  PagesToSave pages;
  std::vector<std::vector<uint64_t>> words;  // by node of the snapshot
  int64_t kept = 0, lost = 0;
};

TEST_F(PagesToSaveTest, ALostHalfOfAPageIsNotItsOtherHalf) {
  Tokens one(60, 1), two(60, 1);
  two[40] = 2;
  cache.add(cache.root, one);
  cache.add(cache.root, two);
  note();
  ASSERT_EQ(pages.entries().size(), 4u);
  cache.tree.drop_after(cache.tree.match(cache.root, first_tokens(one, 50)));
  check();
  EXPECT_EQ(lost, 1);
  cache.tree.drop_after(cache.tree.match(cache.root, first_tokens(one, 40)));
  check();
  EXPECT_EQ(lost, 1 + 2);
  // Others write where the lost ones were; the upper half is still there.
  cache.add(cache.root, Tokens(40, 1));
  Tokens three(60, 1);
  three[40] = 3;
  cache.add(cache.root, three);
  check();
  EXPECT_EQ(lost, 1 + 2 + 2);
}

TEST_F(PagesToSaveTest, WhateverBecomesOfTheTree) {
  RandomTree tree(cache, 9);
  const int operations = cases(30000);
  for (int i = 0; i < operations; ++i) {
    tree.step();
    if (tree.random()() % 20 == 0) note();
    check();
    if (HasFatalFailure()) FAIL() << "operation " << i;
  }
  EXPECT_GT(kept, operations);
  EXPECT_GT(lost, operations);
}

}  // namespace
}  // namespace prefix
