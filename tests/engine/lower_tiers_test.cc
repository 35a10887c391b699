// One fetch or save at a time: what is asked of the tiers, what comes of every kind of answer, and
// the bounds on time and memory. The clock is the test's.
#include "engine/lower_tiers.h"

#include <gtest/gtest.h>

#include "engine_support.h"
#include "lower_tiers_support.h"

namespace prefix {
namespace {

using namespace testing_support;
using namespace std::chrono_literals;

using Kind = FakeTier::Kind;

struct LowerTiersTest : testing::Test {
  LowerTiersTest() { open(1s); }

  void open(std::chrono::milliseconds timeout, size_t read_pages = 100, size_t write_pages = 100) {
    LowerTierLimits limits;
    limits.read_bytes = read_pages * cache.layout.page_bytes();
    limits.write_bytes = write_pages * cache.layout.page_bytes();
    limits.now = [this] { return now; };
    auto first = std::make_unique<FakeTier>();
    auto second = std::make_unique<FakeTier>();
    near = first.get();
    far = second.get();
    std::vector<LowerTier> list;
    list.push_back({"near", std::move(first)});
    list.push_back({"far", std::move(second)});
    tiers = std::make_unique<LowerTiers>(std::move(list), cache.tree, cache.pool, cache.kv,
                                         cache.keys, timeout, limits);
  }

  Tokens prompt(size_t n) { return random_tokens(random, n, 1000); }
  std::shared_ptr<const Fetch> look(const Tokens& tokens, bool* own = nullptr) {
    bool mine;
    auto fetch = tiers->look(cache.root, tokens, cache.tree.match(cache.root, tokens), &mine);
    if (own) *own = mine;
    return fetch;
  }
  // Everybody answers all at once until the fetch is done.
  void finish(const std::shared_ptr<const Fetch>& fetch) {
    for (int round = 0; fetch && !fetch->done; ++round) {
      ASSERT_LT(round, 100);
      near->answer();
      far->answer();
      tiers->poll();
    }
  }
  int32_t computed(const Tokens& tokens) const {
    return cache.tree.match(cache.root, tokens).computed;
  }
  void check() const {
    cache.tree.check();
    cache.check_content();
    EXPECT_EQ(cache.tree.held_tokens(), 0);
  }
  // Adds the path, gives its pages to the tiers and lets go of it.
  void add_and_save(const Tokens& tokens) {
    const NodeId id = cache.tree.attach(cache.tree.match(cache.root, tokens), tokens, {});
    cache.compute_all(id);
    tiers->save(id, static_cast<int32_t>(tokens.size()));
    cache.tree.unlock(id, true);
  }

  Fetch::Clock::time_point now{};
  SmallCache cache{64};
  FakeTier* near = nullptr;
  FakeTier* far = nullptr;
  std::unique_ptr<LowerTiers> tiers;
  std::mt19937 random{5};
};

// --- fetching ------------------------------------------------------------------------------------

TEST_F(LowerTiersTest, WhatATierHasGoesIntoTheTree) {
  const Tokens tokens = prompt(170);
  cache.give_to(*near, cache.root, tokens);
  const auto fetch = look(tokens);
  ASSERT_TRUE(fetch);
  EXPECT_EQ(near->calls[Kind::kExists], 1);
  tiers->poll();
  EXPECT_FALSE(fetch->done);
  near->answer();
  tiers->poll();
  EXPECT_EQ(near->calls[Kind::kGet], 1);
  EXPECT_FALSE(fetch->done);
  near->answer();
  tiers->poll();
  EXPECT_TRUE(fetch->done);
  EXPECT_EQ(computed(tokens), 160);
  EXPECT_EQ(cache.pool.used(), 5);
  EXPECT_EQ(tiers->counters().fetched_tokens, 160);
  EXPECT_EQ(far->calls[Kind::kExists], 0);
  check();
}

TEST_F(LowerTiersTest, OnlyWhatTheTreeLacksIsAskedFor) {
  Tokens tokens = prompt(170);
  cache.give_to(*near, cache.root, tokens);
  cache.add(cache.root, first_tokens(tokens, 75));  // ends in the third page
  finish(look(tokens));
  EXPECT_EQ(computed(tokens), 160);
  const std::vector<PageKey> keys = keys_of(cache.root, tokens);
  for (size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(near->gets[keys[i]], i >= 2) << i;
  check();
  EXPECT_FALSE(look(tokens)) << "the rest fills no page";
  EXPECT_FALSE(look(first_tokens(tokens, 100)));
}

TEST_F(LowerTiersTest, ThePathBelowARunningRequestIsNotAskedFor) {
  const Tokens tokens = prompt(170);
  const NodeId id = cache.tree.attach(cache.tree.match(cache.root, tokens), tokens, {});
  bool own;
  EXPECT_FALSE(look(tokens, &own));
  EXPECT_TRUE(own);
  cache.tree.unlock(id, true);
}

TEST_F(LowerTiersTest, TheSecondTierIsAskedForWhatTheFirstLacks) {
  const Tokens tokens = prompt(160);
  cache.give_to(*near, cache.root, first_tokens(tokens, 64));
  cache.give_to(*far, cache.root, tokens);
  finish(look(tokens));
  EXPECT_EQ(computed(tokens), 160);
  const std::vector<PageKey> keys = keys_of(cache.root, tokens);
  for (size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ(near->gets[keys[i]], i < 2) << i;
    EXPECT_EQ(far->gets[keys[i]], i >= 2) << i;
  }
  check();
}

TEST_F(LowerTiersTest, PagesBehindAGapAreOfNoUse) {
  const Tokens tokens = prompt(160);
  const std::vector<PageKey> keys = keys_of(cache.root, tokens);
  cache.give_to(*near, cache.root, tokens);
  near->pages.erase(keys[2]);
  finish(look(tokens));
  EXPECT_EQ(computed(tokens), 64);
  EXPECT_EQ(near->gets[keys[3]], 0);
  check();
}

TEST_F(LowerTiersTest, APageThatCannotBeReadAfterAllComesFromTheNextTier) {
  const Tokens tokens = prompt(160);
  cache.give_to(*near, cache.root, tokens);
  cache.give_to(*far, cache.root, tokens);
  const auto fetch = look(tokens);
  near->answer();
  tiers->poll();
  ASSERT_EQ(near->open.size(), 1u);
  near->settle(near->open.front(), 2, true);  // rubbish in its buffer
  finish(fetch);
  EXPECT_EQ(computed(tokens), 160);
  EXPECT_EQ(far->gets[keys_of(cache.root, tokens)[2]], 1);
  EXPECT_EQ(far->gets[keys_of(cache.root, tokens)[1]], 0);
  check();
}

TEST_F(LowerTiersTest, PagesOfAnotherRootAreOtherPages) {
  const Tokens tokens = prompt(160);
  cache.give_to(*near, cache.other_root, tokens);
  finish(look(tokens));
  EXPECT_EQ(computed(tokens), 0);
  EXPECT_EQ(near->calls[Kind::kGet], 0);
}

// --- several requests ----------------------------------------------------------------------------

TEST_F(LowerTiersTest, RequestsThatMissTheSamePageShareOneFetch) {
  const Tokens tokens = prompt(160);
  cache.give_to(*near, cache.root, tokens);
  bool own;
  const auto first = look(tokens, &own);
  EXPECT_TRUE(own);
  for (int i = 0; i < 10; ++i) {
    Tokens longer = tokens;
    for (const int32_t t : prompt(40)) longer.push_back(t);
    EXPECT_EQ(look(longer, &own), first);
    EXPECT_FALSE(own);
  }
  finish(first);
  EXPECT_EQ(near->calls[Kind::kExists], 1);
  EXPECT_EQ(near->calls[Kind::kGet], 1);
  EXPECT_FALSE(look(tokens));
}

TEST_F(LowerTiersTest, WhoComesInTheMiddleOfALongReadSharesItToo) {
  open(1s, 2);  // pages at once
  const Tokens tokens = prompt(200);
  cache.give_to(*near, cache.root, tokens);
  const auto first = look(tokens);
  for (int i = 0; i < 3; ++i) {
    bool own;
    EXPECT_EQ(look(tokens, &own), first) << i;
    EXPECT_FALSE(own);
    near->answer();
    tiers->poll();
  }
  finish(first);
  EXPECT_EQ(near->calls[Kind::kExists], 1);
  EXPECT_EQ(near->calls[Kind::kGet], 3);
  for (const PageKey& key : keys_of(cache.root, tokens)) EXPECT_EQ(near->gets[key], 1);
  EXPECT_EQ(computed(tokens), 192);
  check();
}

TEST_F(LowerTiersTest, OnlySoManyFetchesAtATime) {
  std::vector<std::shared_ptr<const Fetch>> fetches;
  while (!tiers->busy()) fetches.push_back(look(prompt(64)));
  EXPECT_EQ(fetches.size(), 16u);
  near->answer();
  tiers->poll();  // on to the second tier
  EXPECT_TRUE(tiers->busy());
  far->answer();
  tiers->poll();
  EXPECT_FALSE(tiers->busy());
  for (const auto& fetch : fetches) EXPECT_TRUE(fetch->done);
}

TEST_F(LowerTiersTest, AFetchThatNobodyWaitsForIsCancelled) {
  const Tokens tokens = prompt(160);
  cache.give_to(*near, cache.root, tokens);
  for (const bool reading : {false, true}) {
    auto fetch = look(tokens);
    if (reading) {
      near->answer();
      tiers->poll();
    }
    const TicketPtr ticket = near->open.front().ticket;
    EXPECT_FALSE(ticket->cancelled());
    fetch.reset();
    tiers->poll();
    EXPECT_TRUE(ticket->cancelled());
    near->answer();  // a page in work is finished all the same
    tiers->poll();
    EXPECT_EQ(computed(tokens), 0);
  }
  bool own;
  finish(look(tokens, &own));
  EXPECT_TRUE(own);
  EXPECT_EQ(computed(tokens), 160);
  check();
}

// --- what changes meanwhile ----------------------------------------------------------------------

TEST_F(LowerTiersTest, WhatTheTreeLosesMeanwhileEndsTheFetch) {
  const Tokens tokens = prompt(160);
  cache.give_to(*near, cache.root, tokens);
  cache.add(cache.root, first_tokens(tokens, 64));
  const auto fetch = look(tokens);
  near->answer();
  tiers->poll();
  cache.tree.trim(1);
  finish(fetch);
  EXPECT_EQ(computed(tokens), 32);
  check();
  finish(look(tokens));
  EXPECT_EQ(computed(tokens), 160);
  check();
}

TEST_F(LowerTiersTest, WhatIsComputedMeanwhileIsKeptAndSaved) {
  const Tokens tokens = prompt(224);
  cache.give_to(*near, cache.root, first_tokens(tokens, 96));
  const auto fetch = look(first_tokens(tokens, 96));
  cache.add(cache.root, tokens);  // one node, which reaches beyond what comes
  finish(fetch);
  EXPECT_EQ(cache.pool.used(), 7);
  check();
  add_and_save(tokens);
  const std::vector<PageKey> keys = keys_of(cache.root, tokens);
  for (size_t i = 3; i < keys.size(); ++i) EXPECT_EQ(near->puts[keys[i]], 1) << i;
}

TEST_F(LowerTiersTest, ABranchMadeMeanwhileStays) {
  const Tokens tokens = prompt(160);
  Tokens other = first_tokens(tokens, 77);
  for (const int32_t t : prompt(50)) other.push_back(t);
  cache.give_to(*near, cache.root, tokens);
  const auto fetch = look(tokens);
  near->answer();
  tiers->poll();
  cache.add(cache.root, other);
  finish(fetch);
  EXPECT_EQ(computed(tokens), 160);
  EXPECT_EQ(computed(other), 127);
  check();
}

TEST_F(LowerTiersTest, PagesForWhichThereIsNoRoomAreLetGo) {
  const Tokens tokens = prompt(160);
  cache.give_to(*near, cache.root, tokens);
  const auto fetch = look(tokens);
  const Tokens large = prompt(61 * 32);
  const NodeId id = cache.tree.attach(cache.tree.match(cache.root, large), large, {});
  finish(fetch);
  EXPECT_EQ(computed(tokens), 0);
  EXPECT_EQ(cache.pool.used(), 61);
  cache.tree.check();
  cache.tree.unlock(id, false);
  finish(look(tokens));
  EXPECT_EQ(computed(tokens), 160);
  check();
}

// A page that was handed out, freed before a step zeroed it, and handed out again for what came.
TEST_F(LowerTiersTest, APageThatCameIsNotZeroedAfterwards) {
  const Tokens tokens = prompt(160);
  cache.give_to(*near, cache.root, tokens);
  cache.add(cache.root, prompt(160));
  cache.tree.trim(0);
  const Tokens cancelled = prompt(160);
  cache.tree.unlock(cache.tree.attach(cache.tree.match(cache.root, cancelled), cancelled, {}),
                    true);
  finish(look(tokens));
  cache.add(cache.root, prompt(10));  // a step
  EXPECT_EQ(computed(tokens), 160);
  check();
}

// --- time ----------------------------------------------------------------------------------------

TEST_F(LowerTiersTest, WhenTimeIsUpWhatHasComeIsUsed) {
  const Tokens tokens = prompt(160);
  cache.give_to(*near, cache.root, tokens);
  const auto fetch = look(tokens);
  near->answer();
  tiers->poll();
  FakeTier::Call& call = near->open.front();
  for (const size_t i : {0u, 3u, 1u}) near->settle(call, i);
  now += 999ms;
  tiers->poll();
  EXPECT_FALSE(fetch->done);
  EXPECT_EQ(computed(tokens), 0);
  now += 1ms;
  tiers->poll();
  EXPECT_TRUE(fetch->done);
  EXPECT_TRUE(call.ticket->cancelled());
  EXPECT_EQ(computed(tokens), 64);
  EXPECT_EQ(tiers->counters().timeouts, 1);
  near->answer();  // late: into buffers that are nobody's
  tiers->poll();
  EXPECT_EQ(computed(tokens), 64);
  check();
}

TEST_F(LowerTiersTest, WhenTimeIsUpNothingMoreIsRead) {
  open(1s, 2);
  const Tokens tokens = prompt(160);
  cache.give_to(*near, cache.root, tokens);
  const auto fetch = look(tokens);
  near->answer();
  tiers->poll();
  near->answer();
  now += 1s;  // a long step before the answer is seen
  tiers->poll();
  EXPECT_TRUE(fetch->done);
  EXPECT_EQ(computed(tokens), 64);
  EXPECT_EQ(near->calls[Kind::kGet], 1);
  EXPECT_EQ(tiers->counters().timeouts, 1);
  check();
}

TEST_F(LowerTiersTest, WithoutTimeToWaitOnlyWhatIsThereAtOnceIsUsed) {
  open(0ms);
  const Tokens tokens = prompt(160);
  cache.give_to(*near, cache.root, tokens);
  const auto late = look(tokens);
  tiers->poll();
  EXPECT_TRUE(late->done);
  EXPECT_EQ(computed(tokens), 0);
  EXPECT_EQ(tiers->counters().timeouts, 1);
  near->at_once = true;
  finish(look(tokens));
  EXPECT_EQ(computed(tokens), 160);
  EXPECT_EQ(tiers->counters().timeouts, 1);
}

// How many times in a row the request was not served by the first tier.
TEST_F(LowerTiersTest, ATierThatLooksTooSlowlyIsTriedAgainAfterAWhile) {
  const Tokens tokens = prompt(160);
  cache.give_to(*near, cache.root, tokens);
  tiers->computed(1000, 1000000);  // 160 microseconds for the prompt
  far->at_once = true;
  int skipped = 0;
  for (int round = 0; round < 100; ++round) {
    const int before = near->calls[Kind::kExists];
    const auto fetch = look(tokens);
    skipped = near->calls[Kind::kExists] == before ? skipped + 1 : 0;
    now += 1ms;
    finish(fetch);
    cache.tree.trim(0);
    EXPECT_LT(skipped, 32);
  }
  EXPECT_EQ(near->calls[Kind::kExists], 4) << "of 100: the first one, and every 32nd after it";
}

TEST_F(LowerTiersTest, ATierThatReadsTooSlowlyIsTriedAgainAfterAWhile) {
  const Tokens tokens = prompt(160);
  cache.give_to(*near, cache.root, tokens);
  tiers->computed(1000, 1000000);
  far->at_once = near->at_once = true;
  for (int round = 0; round < 100; ++round) {
    const auto fetch = look(tokens);
    near->at_once = false;
    tiers->poll();
    near->at_once = true;
    now += 1ms;
    finish(fetch);
    cache.tree.trim(0);
  }
  EXPECT_EQ(near->calls[Kind::kExists], 100) << "that costs nothing";
  EXPECT_EQ(near->calls[Kind::kGet], 4) << "of 100: the first one, and every 32nd after it";
  EXPECT_EQ(tiers->counters().fetched_tokens, 4 * 160);
  EXPECT_EQ(tiers->counters().skipped_tokens, 96 * 160);
}

TEST_F(LowerTiersTest, ATierThatNeverAnswersDelaysOneRequestNotAll) {
  tiers->computed(1000, 1000000);
  far->at_once = true;
  for (int round = 0; round < 31; ++round) {
    const auto fetch = look(prompt(160));
    now += 1s;
    tiers->poll();
    EXPECT_TRUE(!fetch || fetch->done);
  }
  EXPECT_EQ(near->calls[Kind::kExists], 1);
  EXPECT_EQ(tiers->counters().timeouts, 1);
}

// A step of few rows is mostly overhead and says nothing of what a token costs.
TEST_F(LowerTiersTest, SmallStepsDoNotCount) {
  const Tokens tokens = prompt(160);
  cache.give_to(*near, cache.root, tokens);
  tiers->computed(31, 31);
  for (int round = 0; round < 3; ++round) {
    const auto fetch = look(tokens);
    now += 1ms;
    finish(fetch);
    cache.tree.trim(0);
  }
  EXPECT_EQ(near->calls[Kind::kGet], 3);
}

// --- saving --------------------------------------------------------------------------------------

TEST_F(LowerTiersTest, EveryFullPageIsGivenToEveryTierOnce) {
  const Tokens tokens = prompt(75);
  const Tokens longer = [&] {
    Tokens t = tokens;
    for (const int32_t more : prompt(60)) t.push_back(more);
    return t;
  }();
  add_and_save(tokens);
  add_and_save(tokens);
  EXPECT_EQ(near->puts.size(), 2u) << "the third page is not full";
  near->answer();
  far->answer();
  add_and_save(longer);
  add_and_save(tokens);
  near->answer();
  far->answer();
  const std::vector<PageKey> keys = keys_of(cache.root, longer);
  for (FakeTier* tier : {near, far}) {
    EXPECT_EQ(tier->puts.size(), 4u);
    for (size_t i = 0; i < keys.size(); ++i) {
      EXPECT_EQ(tier->puts[keys[i]], 1);
      EXPECT_EQ(tier->pages[keys[i]], cache.page_of(cache.root, longer, i));
    }
  }
}

TEST_F(LowerTiersTest, OnlyWhatIsComputedIsGiven) {
  const Tokens tokens = prompt(160);
  const NodeId id = cache.tree.attach(cache.tree.match(cache.root, tokens), tokens, {});
  cache.compute(id, 70);
  tiers->save(id, 160);
  EXPECT_EQ(near->puts.size(), 2u);
  cache.compute_all(id);
  tiers->save(id, 100);
  EXPECT_EQ(near->puts.size(), 3u) << "of the first 100 tokens";
  cache.tree.unlock(id, true);
}

TEST_F(LowerTiersTest, WhatCameFromATierIsNotGivenBack) {
  const Tokens tokens = prompt(160);
  cache.give_to(*near, cache.root, tokens);
  finish(look(tokens));
  add_and_save(tokens);
  EXPECT_EQ(near->calls[Kind::kPut], 0);
}

TEST_F(LowerTiersTest, APageThatWasCutAndFilledAnewIsGivenUnderItsNewKey) {
  Tokens tokens = prompt(64);
  add_and_save(tokens);
  cache.tree.drop_after(cache.tree.match(cache.root, first_tokens(tokens, 50)));
  for (size_t i = 50; i < 64; ++i) tokens[i] += 1;
  // A generation fills the same page again.
  const Tokens head = first_tokens(tokens, 50);
  NodeId id = cache.tree.attach(cache.tree.match(cache.root, head), head, {});
  for (int32_t i = 50; i < 64; ++i) {
    int32_t pages;
    id = cache.tree.advance(id, i, tokens[static_cast<size_t>(i)], 0, &pages);
    ASSERT_EQ(pages, 0);
  }
  cache.compute_all(id);
  tiers->save(id, 64);
  cache.tree.unlock(id, true);
  near->answer();
  const std::vector<PageKey> keys = keys_of(cache.root, tokens);
  EXPECT_EQ(near->puts[keys[0]], 1);
  EXPECT_EQ(near->puts[keys[1]], 1);
  EXPECT_EQ(near->pages[keys[1]], cache.page_of(cache.root, tokens, 1));
}

TEST_F(LowerTiersTest, PagesThatATierRefusedAreGivenAgain) {
  const Tokens tokens = prompt(160);
  far->refuses = true;
  add_and_save(tokens);
  far->refuses = false;
  add_and_save(tokens);
  add_and_save(tokens);
  for (const PageKey& key : keys_of(cache.root, tokens)) {
    EXPECT_EQ(far->puts[key], 2);
    EXPECT_EQ(near->puts[key], 2) << "there is one mark for all tiers";
  }
}

TEST_F(LowerTiersTest, CopiesOnTheirWayTakeBoundedMemory) {
  open(1s, 100, 3);
  const Tokens tokens = prompt(160);
  add_and_save(tokens);
  EXPECT_EQ(near->puts.size(), 3u);
  add_and_save(tokens);
  EXPECT_EQ(near->puts.size(), 3u);
  near->answer();
  add_and_save(tokens);
  EXPECT_EQ(near->puts.size(), 3u) << "the other tier holds them still";
  far->answer();
  add_and_save(tokens);
  EXPECT_EQ(near->puts.size(), 5u);
  for (const PageKey& key : keys_of(cache.root, tokens)) EXPECT_EQ(near->puts[key], 1);
}

TEST_F(LowerTiersTest, FlushEndsWhenTimeIsUpOrAllIsWritten) {
  add_and_save(prompt(160));
  tiers->flush(0ms);
  add_and_save(prompt(160));
  near->answer();
  far->answer();
  tiers->flush(std::chrono::hours(1));
}

}  // namespace
}  // namespace prefix
