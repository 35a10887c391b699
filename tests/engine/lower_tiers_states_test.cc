// States in the tiers, without a model: what is asked for, and what is not used.
#include <algorithm>
#include <limits>

#include "lower_tiers_fixture.h"

namespace prefix {
namespace {

using namespace testing_support;

struct LowerTierStates : LowerTiersTest {
  static constexpr int32_t kPages = 2;  // of a state

  LowerTierStates() { open(1s, 100, 100, kPages); }

  float* state_bytes(int32_t page) {
    return reinterpret_cast<float*>(cache.kv.data() +
                                    static_cast<size_t>(page) * cache.layout.page_bytes());
  }
  // The path, computed, with a state at its end whose every number is `value`; given to the tiers.
  void add_state(const Tokens& tokens, float value) {
    auto& tree = cache.tree;
    const auto length = static_cast<int32_t>(tokens.size());
    const NodeId id = tree.attach(tree.match(cache.root, tokens), tokens, {});
    cache.compute_all(id);
    std::vector<int32_t> pages = tree.take_state_pages(kPages);
    for (const int32_t page : pages) {
      std::fill_n(state_bytes(page), cache.layout.page_bytes() / sizeof(float), value);
      cache.pool.set_clean(page);
    }
    const NodeId node = tree.end_at(id, length);
    tree.add_state(node, std::move(pages), true);
    tree.unpin_state(node);
    tiers->save(id, length);
    tree.unlock(id, true);
    near->answer();
    far->answer();
  }
  // Of the deepest state on the path; 0: there is none.
  int32_t length_of(const Tokens& tokens) const {
    const Match m = cache.tree.match(cache.root, tokens);
    const NodeId state = cache.tree.state_at(m.node, m.computed);
    return state == kNoNode ? 0 : cache.tree.node(state).end();
  }
  float value_of(const Tokens& tokens) {
    const Match m = cache.tree.match(cache.root, tokens);
    const auto& pages = cache.tree.state_pages(cache.tree.state_at(m.node, m.computed));
    const size_t numbers = cache.layout.page_bytes() / sizeof(float);
    for (const int32_t page : pages)
      EXPECT_TRUE(std::all_of(state_bytes(page), state_bytes(page) + numbers,
                              [&](float v) { return v == *state_bytes(pages[0]); }));
    return *state_bytes(pages[0]);
  }
  void forget() {
    cache.tree.trim(0);
    ASSERT_EQ(cache.pool.used(), 0);
  }
};

TEST_F(LowerTierStates, OneThatComesLeavesRoomInTheQuotaForWhatRuns) {
  const Tokens text = prompt(40);
  add_state(text, 1);
  forget();
  cache.tree.set_limits(0, 0, 40 + kPages * kPageTokens + 32);
  reserved = 33;
  finish(lookup(text));
  EXPECT_EQ(length_of(text), 0);
  EXPECT_EQ(computed(text), 40);
  forget();
  reserved = 32;
  finish(lookup(text));
  EXPECT_EQ(length_of(text), 40);
}

TEST_F(LowerTierStates, TheDeepestOneComesWithThePagesBeforeIt) {
  const Tokens text = prompt(150);
  add_state(first_tokens(text, 40), 1);
  add_state(first_tokens(text, 77), 2);
  add_state(text, 3);
  forget();
  Tokens other = first_tokens(text, 100);
  other.push_back(text[100] + 1);
  near->gets.clear();
  finish(lookup(other));
  EXPECT_EQ(length_of(other), 77);
  EXPECT_EQ(value_of(other), 2);
  EXPECT_EQ(computed(other), 77);                       // not 96, although the tier has these keys
  EXPECT_EQ(near->gets.size(), 2u + kPages + 1u + 1u);  // one for the mark that it was asked for
  EXPECT_EQ(tiers->counters().fetched_tokens, 77);
  check();
  // The tree has it now.
  EXPECT_EQ(lookup(other)->stage, Fetch::kFindState);  // a deeper one would help
  EXPECT_FALSE(lookup(first_tokens(text, 77)));
}

TEST_F(LowerTierStates, OneThatIsNotFiniteIsAMiss) {
  const Tokens text = prompt(90);
  add_state(first_tokens(text, 40), 1);
  add_state(text, std::numeric_limits<float>::infinity());
  forget();
  finish(lookup(text));
  EXPECT_EQ(length_of(text), 40);
  EXPECT_EQ(value_of(text), 1);
  check();
}

TEST_F(LowerTierStates, OneThatLacksAPageIsAMiss) {
  const Tokens text = prompt(90);
  add_state(first_tokens(text, 40), 1);
  add_state(text, 2);
  forget();
  const PageKey parent = keys_of(cache.root, text)[1];
  const std::span<const int32_t> tail = std::span(text).subspan(64);
  for (FakeTier* tier : {near, far}) {
    ASSERT_EQ(tier->pages.erase(state_key(parent, tail, 90, 1)), 1u);
    ASSERT_TRUE(tier->pages.contains(page_key(parent, tail)));
  }
  finish(lookup(text));
  EXPECT_EQ(length_of(text), 40);
  check();
}

// The page of the last tokens was given as it was, and is given again when it is full.
TEST_F(LowerTierStates, AFullPageIsSavedAfterAPartOfIt) {
  const Tokens text = prompt(64);
  auto& tree = cache.tree;
  const NodeId id = tree.attach(tree.match(cache.root, text), text, {});
  cache.compute(id, 40);
  add_state(first_tokens(text, 40), 1);
  EXPECT_FALSE(near->pages.contains(keys_of(cache.root, text)[1]));
  cache.compute_all(id);
  tiers->save(id, 64);
  tree.unlock(id, true);
  near->answer();
  EXPECT_TRUE(near->pages.contains(keys_of(cache.root, text)[1]));
  check();
}

TEST_F(LowerTierStates, ItMakesRoom) {
  const Tokens text = prompt(64);
  add_state(text, 5);
  forget();
  for (int i = 0; i < 40; ++i) cache.add(cache.root, prompt(64));
  ASSERT_EQ(cache.pool.available(), 0);
  finish(lookup(text));
  EXPECT_EQ(length_of(text), 64);
  EXPECT_EQ(value_of(text), 5);
  check();
}

TEST_F(LowerTierStates, NoneComesAfterTheTime) {
  const Tokens text = prompt(64);
  add_state(text, 5);
  forget();
  auto fetch = lookup(text);
  near->answer();
  tiers->poll();  // asks for it
  ASSERT_EQ(fetch->stage, Fetch::kReadState);
  now += 2s;
  tiers->poll();
  EXPECT_TRUE(fetch->done);
  EXPECT_EQ(tiers->counters().timeouts, 1);
  near->answer();
  EXPECT_EQ(cache.pool.used(), 0);
  check();
}

TEST_F(LowerTierStates, WhoSharesTheNextPageWaits) {
  const Tokens text = prompt(64);
  add_state(text, 5);
  forget();
  Tokens longer = text;
  for (const int32_t t : prompt(20)) longer.push_back(t);
  const auto fetch = lookup(text);
  bool own = true;
  EXPECT_EQ(lookup(longer, &own), fetch);
  EXPECT_FALSE(own);
  finish(fetch);
  EXPECT_EQ(length_of(longer), 64);
  finish(lookup(longer, &own));
  EXPECT_TRUE(own);
  check();
}

}  // namespace
}  // namespace prefix
