// Trees in which only whole texts are found again: each by all of its tokens, as long as its state
// is there, and no page but those of states.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "states_fixture.h"
#include "support/cases.h"
#include "support/expect_error.h"

namespace prefix {
namespace {

using namespace testing_support;

struct WholeTexts : testing::Test {
  PagePool pool{8};
  Tree tree{pool, {.whole = true}};
  NodeId root = tree.add_root();

  // A text that is kept, whose state takes so many pages.
  NodeId keep(const Tokens& text, int32_t pages = 1, const AttachOptions& use = {}) {
    const NodeId node = tree.attach_whole(root, text, use);
    EXPECT_EQ(tree.node(node).end(), static_cast<int32_t>(text.size()));
    if (tree.has_state(node)) {
      tree.use_state(node);
    } else if (tree.make_state_room(pages, 0)) {
      tree.add_state(node, tree.take_state_pages(pages), true);
      tree.unpin_state(node);
    }
    tree.unlock(node, true);
    tree.check();
    return node;
  }
  bool has(const Tokens& text) const { return tree.state_of(root, text) != kNoNode; }
};

TEST_F(WholeTexts, AreFoundByAllTheirTokensAndNoOther) {
  const Tokens text = count_from(0, 70);
  keep(text);
  EXPECT_TRUE(has(text));
  for (const int32_t n : {1, 32, 69, 71}) EXPECT_FALSE(has(count_from(0, n))) << n;
  EXPECT_EQ(pool.used(), 1) << "the tokens take no frame";
  EXPECT_EQ(tree.token_count(), 70);
}

TEST_F(WholeTexts, OneThatBeginsLikeAnotherIsKeptBeside) {
  for (const std::vector<int32_t>& order :
       {std::vector{70, 40, 33}, std::vector{33, 40, 70}, std::vector{40, 70, 33}}) {
    for (const int32_t n : order) keep(count_from(0, n));
    for (const int32_t n : order) EXPECT_TRUE(has(count_from(0, n)));
    EXPECT_FALSE(has(count_from(0, 32)));
    EXPECT_EQ(tree.token_count(), 70) << "tokens that they have in common are there once";
    tree.drop(root);
    tree.check();
    EXPECT_EQ(tree.node_count(), 1u);
    EXPECT_EQ(pool.used() + pool.hollow_pages(), 0);
  }
}

TEST_F(WholeTexts, WithoutAStateNothingStays) {
  const NodeId node = tree.attach_whole(root, count_from(0, 40), {});
  tree.unlock(node, true);
  EXPECT_EQ(tree.token_count(), 0);
  // Nor where longer texts were kept below it.
  keep(count_from(0, 50));
  tree.drop_state(tree.attach_whole(root, count_from(0, 50), {}));
  tree.unlock(tree.match(root, count_from(0, 50)).node, true);
  EXPECT_EQ(tree.node_count(), 1u);
  tree.check();
}

TEST_F(WholeTexts, TheOneThatWasUsedLongestAgoMakesRoom) {
  for (int32_t i = 0; i < 8; ++i) keep(count_from(100 * i, 40));
  keep(count_from(0, 40));
  keep(count_from(900, 40));
  EXPECT_TRUE(has(count_from(0, 40)));
  EXPECT_FALSE(has(count_from(100, 40)));
  EXPECT_EQ(tree.evictions(), 1);
  EXPECT_EQ(tree.evicted_tokens(), 40);
  EXPECT_EQ(pool.used(), 8);
}

// Texts that continue it have no need of it, so a fork keeps nobody.
TEST_F(WholeTexts, OneBelowWhichOthersPartGoesInItsTurn) {
  std::vector<std::pair<int32_t, EvictReason>> told;  // end of the text
  tree.set_observer({.evicting = [&](NodeId id, int32_t, EvictReason why) {
    told.emplace_back(tree.node(id).end(), why);
  }});
  keep(count_from(0, 40));
  Tokens a = count_from(0, 40), b = a;
  a.push_back(1);
  b.push_back(2);
  keep(a);
  keep(b);
  ASSERT_TRUE(tree.make_room(6));
  EXPECT_FALSE(has(count_from(0, 40)));
  EXPECT_TRUE(has(a));
  EXPECT_TRUE(has(b));
  EXPECT_EQ(told, (std::vector{std::pair{40, EvictReason::kCapacity}}));
  tree.check();
  tree.trim(0);
  EXPECT_EQ(tree.node_count(), 1u);
  EXPECT_EQ(pool.hollow_pages(), 0);
}

TEST_F(WholeTexts, OneThatIsPinnedOrInUseStays) {
  const NodeId pinned = keep(count_from(0, 40));
  tree.lock(pinned);
  tree.pin_state(pinned);
  const NodeId used = tree.attach_whole(root, count_from(100, 40), {});
  for (int32_t i = 2; i < 12; ++i) keep(count_from(100 * i, 40));
  EXPECT_TRUE(has(count_from(0, 40)));
  EXPECT_EQ(tree.match(root, count_from(100, 40)).matched, 40);
  tree.trim(0);
  EXPECT_EQ(pool.used(), 1);
  tree.unpin_state(pinned);
  tree.unlock(pinned, true);
  tree.unlock(used, true);
  EXPECT_TRUE(has(count_from(0, 40)));
  EXPECT_FALSE(has(count_from(100, 40))) << "it never had a state";
  tree.check();
}

TEST_F(WholeTexts, ExpireAndCountForTheQuota) {
  keep(count_from(0, 40), 1, {.expires_ms = 100});
  keep(count_from(0, 64), 1, {.expires_ms = 900});
  EXPECT_EQ(tree.expire(100), 0) << "the tokens of a longer text stay";
  EXPECT_FALSE(has(count_from(0, 40)));
  EXPECT_EQ(tree.expire(900), 64);
  EXPECT_EQ(tree.node_count(), 1u);
  tree.set_limits(0, 0, 200);  // a text of 40 tokens and its state take 72
  for (int32_t i = 0; i < 5; ++i) keep(count_from(100 * i, 40));
  EXPECT_EQ(tree.tokens_of(0), 80);
  expect_error(Code::kCacheFull, {"201 more tokens", "quota is 200"},
               [&] { tree.attach_whole(root, count_from(0, 201), {}); });
  tree.check();
}

// Longer texts are no use of it, nor is it one of theirs.
TEST_F(WholeTexts, HaveTimesAndPrioritiesOfTheirOwn) {
  keep(count_from(0, 64), 1, {.priority = 7, .expires_ms = 100});
  const NodeId inside = keep(count_from(0, 40), 1, {.job = 5, .priority = 2, .expires_ms = 300});
  EXPECT_EQ(tree.node(inside).priority, 2);
  EXPECT_EQ(tree.node(inside).uses, 1u);
  EXPECT_EQ(tree.node(inside).job, 5u);
  keep(count_from(0, 70), 1, {.priority = 9});
  EXPECT_EQ(tree.node(inside).priority, 2);
  EXPECT_EQ(tree.node(inside).uses, 1u);
  tree.expire(100);
  EXPECT_FALSE(has(count_from(0, 64)));
  EXPECT_TRUE(has(count_from(0, 40)));
  keep(count_from(0, 40), 1, {.priority = 3, .expires_ms = 500});
  EXPECT_EQ(tree.node(inside).priority, 3);
  tree.expire(300);
  EXPECT_TRUE(has(count_from(0, 40)));
  tree.expire(500);
  EXPECT_FALSE(has(count_from(0, 40)));
  EXPECT_TRUE(has(count_from(0, 70)));
  tree.check();
}

TEST(WholeTextNumbers, PagesAreCountedBeforeThereAreTooMany) {
  PagePool pool(PagePool::kMaxPages - 2);
  Tree tree(pool, {.whole = true});
  const NodeId root = tree.add_root();
  expect_error(Code::kCacheFull, {"a text of 65 tokens", std::to_string(PagePool::kMaxPages)},
               [&] { tree.attach_whole(root, count_from(0, 65), {}); });
  tree.unlock(tree.attach_whole(root, count_from(0, 64), {}), true);
  tree.check();
}

// Against a table of texts: those whose state is there, and no others, are found.
TEST_F(WholeTexts, RandomTextsAreFoundAsLongAsTheirStatesAre) {
  for (unsigned seed = 0; seed < static_cast<unsigned>(cases(60)); ++seed) {
    std::mt19937 random(seed);
    PagePool pages(6);
    const Policy policies[] = {Policy::kLru, Policy::kGdsf, Policy::kFifo, Policy::kMarconi};
    Tree texts(pages, {.policy = policies[seed % 4], .whole = true});
    const NodeId top = texts.add_root();
    std::map<Tokens, bool> kept;
    for (int i = 0; i < 200; ++i) {
      Tokens text = count_from(static_cast<int32_t>(random() % 2), 1 + random() % 3 * 31);
      if (random() % 2) text.back() = static_cast<int32_t>(random() % 3);
      const NodeId node = texts.attach_whole(top, text, {});
      const auto count = static_cast<int32_t>(1 + random() % 2);
      if (!texts.has_state(node) && texts.make_state_room(count, 0)) {
        texts.add_state(node, texts.take_state_pages(count), true);
        texts.unpin_state(node);
      }
      texts.unlock(node, true);
      kept[text] = true;
      if (random() % 16 == 0) texts.trim(static_cast<int32_t>(random() % 6));
      texts.check();
      int32_t used = 0;
      for (auto& [tokens, is_kept] : kept) {
        const NodeId at = texts.state_of(top, tokens);
        ASSERT_TRUE(is_kept || at == kNoNode) << "seed " << seed;
        is_kept = at != kNoNode;
        if (is_kept) used += static_cast<int32_t>(texts.state_pages(at).size());
      }
      ASSERT_EQ(used, pages.used());
    }
    texts.drop(top);
    EXPECT_EQ(texts.node_count(), 1u);
  }
}

}  // namespace
}  // namespace prefix
