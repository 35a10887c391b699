// Fetches one at a time: what is asked of the tiers, what comes of every kind of answer, who shares
// a fetch, and what the tree may do meanwhile.
#include "lower_tiers_fixture.h"

namespace prefix {
namespace {

using namespace testing_support;

TEST_F(LowerTiersTest, WhatATierHasGoesIntoTheTree) {
  const Tokens tokens = prompt(170);
  cache.give_to(*near, cache.root, tokens);
  const auto fetch = lookup(tokens);
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

// A NaN (quiet, of either sign) or an infinity, in any place of the third of five pages.
TEST_F(LowerTiersTest, APageThatIsNotFiniteIsAMiss) {
  const size_t elements = cache.layout.page_bytes() / sizeof(uint16_t);
  for (const uint16_t bits : {0x7fc0, 0xffff, 0x7f80, 0xff80}) {
    for (const size_t at : {size_t{0}, elements / 2 + 1, elements - 1}) {
      const Tokens tokens = prompt(160);
      cache.give_to(*near, cache.root, tokens);
      const PageKey spoiled = keys_of(cache.root, tokens)[2];
      std::memcpy(near->pages[spoiled].data() + at * sizeof bits, &bits, sizeof bits);
      finish(lookup(tokens));
      EXPECT_EQ(computed(tokens), 64);
      cache.give_to(*far, cache.root, tokens);  // the next tier has a good one
      finish(lookup(tokens));
      EXPECT_EQ(computed(tokens), 160);
      check();
      cache.tree.drop(cache.root);
    }
  }
}

TEST_F(LowerTiersTest, OnlyWhatTheTreeLacksIsAskedFor) {
  Tokens tokens = prompt(170);
  cache.give_to(*near, cache.root, tokens);
  cache.add(cache.root, first_tokens(tokens, 75));  // ends in the third page
  finish(lookup(tokens));
  EXPECT_EQ(computed(tokens), 160);
  const std::vector<PageKey> keys = keys_of(cache.root, tokens);
  for (size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(near->gets[keys[i]], i >= 2) << i;
  check();
  EXPECT_FALSE(lookup(tokens)) << "the rest fills no page";
  EXPECT_FALSE(lookup(first_tokens(tokens, 100)));
}

TEST_F(LowerTiersTest, ThePathBelowARunningRequestIsNotAskedFor) {
  const Tokens tokens = prompt(170);
  const NodeId id = cache.tree.attach(cache.tree.match(cache.root, tokens), tokens, {});
  bool own;
  EXPECT_FALSE(lookup(tokens, &own));
  EXPECT_TRUE(own);
  cache.tree.unlock(id, true);
}

TEST_F(LowerTiersTest, TheSecondTierIsAskedForWhatTheFirstLacks) {
  const Tokens tokens = prompt(160);
  cache.give_to(*near, cache.root, first_tokens(tokens, 64));
  cache.give_to(*far, cache.root, tokens);
  finish(lookup(tokens));
  EXPECT_EQ(computed(tokens), 160);
  const std::vector<PageKey> keys = keys_of(cache.root, tokens);
  for (size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ(near->gets[keys[i]], i < 2) << i;
    EXPECT_EQ(far->gets[keys[i]], i >= 2) << i;
  }
  check();
}

// No more at once than a tier's queue takes, or what is behind that would be a miss.
TEST_F(LowerTiersTest, ALongPathIsLookedUpInPieces) {
  lookup_pages = 2;
  open(1s);
  const Tokens tokens = prompt(170);
  cache.give_to(*near, cache.root, tokens);
  finish(lookup(tokens));
  EXPECT_EQ(computed(tokens), 160);
  EXPECT_EQ(near->calls[Kind::kExists], 3);
  EXPECT_EQ(far->calls[Kind::kExists], 0);
  check();
}

TEST_F(LowerTiersTest, APieceThatEndsEarlyGoesOnInTheNextTier) {
  lookup_pages = 2;
  open(1s);
  const Tokens tokens = prompt(170);
  const std::vector<PageKey> keys = keys_of(cache.root, tokens);
  cache.give_to(*near, cache.root, tokens);
  cache.give_to(*far, cache.root, tokens);
  near->pages.erase(keys[3]);
  finish(lookup(tokens));
  EXPECT_EQ(computed(tokens), 160);
  EXPECT_EQ(near->calls[Kind::kExists], 2);
  for (size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(far->gets[keys[i]], i >= 3) << i;
  check();
}

TEST_F(LowerTiersTest, PagesBehindAGapAreOfNoUse) {
  const Tokens tokens = prompt(160);
  const std::vector<PageKey> keys = keys_of(cache.root, tokens);
  cache.give_to(*near, cache.root, tokens);
  near->pages.erase(keys[2]);
  finish(lookup(tokens));
  EXPECT_EQ(computed(tokens), 64);
  EXPECT_EQ(near->gets[keys[3]], 0);
  check();
}

TEST_F(LowerTiersTest, APageThatCannotBeReadAfterAllComesFromTheNextTier) {
  const Tokens tokens = prompt(160);
  cache.give_to(*near, cache.root, tokens);
  cache.give_to(*far, cache.root, tokens);
  const auto fetch = lookup(tokens);
  near->answer();
  tiers->poll();
  ASSERT_EQ(near->open.size(), 1u);
  near->complete(near->open.front(), 2, true);  // rubbish in its buffer
  finish(fetch);
  EXPECT_EQ(computed(tokens), 160);
  EXPECT_EQ(far->gets[keys_of(cache.root, tokens)[2]], 1);
  EXPECT_EQ(far->gets[keys_of(cache.root, tokens)[1]], 0);
  check();
}

TEST_F(LowerTiersTest, PagesOfAnotherRootAreOtherPages) {
  const Tokens tokens = prompt(160);
  cache.give_to(*near, cache.other_root, tokens);
  finish(lookup(tokens));
  EXPECT_EQ(computed(tokens), 0);
  EXPECT_EQ(near->calls[Kind::kGet], 0);
}

// --- several requests ----------------------------------------------------------------------------

TEST_F(LowerTiersTest, RequestsThatMissTheSamePageShareOneFetch) {
  const Tokens tokens = prompt(160);
  cache.give_to(*near, cache.root, tokens);
  bool own;
  const auto first = lookup(tokens, &own);
  EXPECT_TRUE(own);
  for (int i = 0; i < 10; ++i) {
    Tokens longer = tokens;
    for (const int32_t t : prompt(40)) longer.push_back(t);
    EXPECT_EQ(lookup(longer, &own), first);
    EXPECT_FALSE(own);
  }
  finish(first);
  EXPECT_EQ(near->calls[Kind::kExists], 1);
  EXPECT_EQ(near->calls[Kind::kGet], 1);
  EXPECT_FALSE(lookup(tokens));
}

TEST_F(LowerTiersTest, WhoComesInTheMiddleOfALongReadSharesItToo) {
  open(1s, 2);  // pages at once
  const Tokens tokens = prompt(200);
  cache.give_to(*near, cache.root, tokens);
  const auto first = lookup(tokens);
  for (int i = 0; i < 3; ++i) {
    bool own;
    EXPECT_EQ(lookup(tokens, &own), first) << i;
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
  while (!tiers->busy()) fetches.push_back(lookup(prompt(64)));
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
    auto fetch = lookup(tokens);
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
  finish(lookup(tokens, &own));
  EXPECT_TRUE(own);
  EXPECT_EQ(computed(tokens), 160);
  check();
}

// What waits for it may look again, under another root with the same keys.
TEST_F(LowerTiersTest, AFetchForARootThatGoesEnds) {
  const Tokens tokens = prompt(160);
  cache.give_to(*near, cache.root, tokens);
  for (const bool reading : {false, true}) {
    const auto fetch = lookup(tokens);
    if (reading) {
      near->answer();
      tiers->poll();
    }
    const TicketPtr ticket = near->open.front().ticket;
    tiers->forget(cache.other_root);
    EXPECT_FALSE(fetch->done);
    tiers->forget(cache.root);
    EXPECT_TRUE(fetch->done);
    EXPECT_TRUE(ticket->cancelled());
    near->answer();
    tiers->poll();
    EXPECT_EQ(computed(tokens), 0);
  }
  bool own;
  finish(lookup(tokens, &own));
  EXPECT_TRUE(own) << "nothing is left of the fetches before";
  EXPECT_EQ(computed(tokens), 160);
  check();
}

// --- what changes meanwhile ----------------------------------------------------------------------

TEST_F(LowerTiersTest, WhatTheTreeLosesMeanwhileEndsTheFetch) {
  const Tokens tokens = prompt(160);
  cache.give_to(*near, cache.root, tokens);
  cache.add(cache.root, first_tokens(tokens, 64));
  const auto fetch = lookup(tokens);
  near->answer();
  tiers->poll();
  cache.tree.trim(1);
  finish(fetch);
  EXPECT_EQ(computed(tokens), 32);
  check();
  finish(lookup(tokens));
  EXPECT_EQ(computed(tokens), 160);
  check();
}

TEST_F(LowerTiersTest, WhatIsComputedMeanwhileIsKeptAndSaved) {
  const Tokens tokens = prompt(224);
  cache.give_to(*near, cache.root, first_tokens(tokens, 96));
  const auto fetch = lookup(first_tokens(tokens, 96));
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
  const auto fetch = lookup(tokens);
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
  const auto fetch = lookup(tokens);
  const Tokens large = prompt(61 * 32);
  const NodeId id = cache.tree.attach(cache.tree.match(cache.root, large), large, {});
  finish(fetch);
  EXPECT_EQ(computed(tokens), 0);
  EXPECT_EQ(cache.pool.used(), 61);
  cache.tree.check();
  cache.tree.unlock(id, false);
  finish(lookup(tokens));
  EXPECT_EQ(computed(tokens), 160);
  check();
}

TEST_F(LowerTiersTest, WhatComesIsKeptAsItsRequestSays) {
  open(1s, 2);
  const Tokens tokens = prompt(160);
  cache.give_to(*near, cache.root, tokens);
  finish(lookup(tokens, nullptr, {.job = 7, .priority = -5, .expires_ms = 300}));
  const Match match = cache.tree.match(cache.root, tokens);
  ASSERT_EQ(match.computed, 160);
  for (NodeId id = match.node; cache.tree.node(id).length > 0; id = cache.tree.node(id).parent) {
    EXPECT_EQ(cache.tree.node(id).priority, -5);
    EXPECT_EQ(cache.tree.node(id).job, 0u) << "which did not compute it";
    EXPECT_EQ(cache.tree.node(id).uses, 1u) << "the request counts as one";
  }
  cache.tree.expire(299);
  EXPECT_EQ(computed(tokens), 160);
  cache.tree.expire(300);
  EXPECT_EQ(computed(tokens), 0);
  check();
}

TEST_F(LowerTiersTest, WhatComesLeavesRoomInTheQuotaForWhatRuns) {
  open(1s, 3);
  const Tokens tokens = prompt(192);
  cache.give_to(*near, cache.root, tokens);
  cache.tree.set_limits(0, 0, 200);
  reserved = 100;
  finish(lookup(tokens));
  EXPECT_EQ(computed(tokens), 96) << "of 100 that are free";
  reserved = 8;
  finish(lookup(tokens));
  EXPECT_EQ(computed(tokens), 192);
  check();
}

// The tier saw no use of the one, and of the other a later use of what is worth less.
TEST_F(LowerTiersTest, ThatAPathIsInUseIsToldWhenAPartOfItCame) {
  const Tokens tokens = prompt(160);
  cache.give_to(*near, cache.root, tokens);
  finish(lookup(tokens));
  EXPECT_EQ(near->uses.size(), 0u) << "all of it came at once";
  cache.tree.drop_after(cache.tree.match(cache.root, first_tokens(tokens, 64)));
  finish(lookup(tokens));
  ASSERT_EQ(near->uses.size(), 1u);
  EXPECT_EQ(near->uses[0], keys_of(cache.root, tokens));
  open(1s, 2);
  cache.tree.trim(0);
  cache.give_to(*near, cache.root, tokens);
  finish(lookup(tokens));
  ASSERT_EQ(near->uses.size(), 1u);
  EXPECT_EQ(near->uses[0], keys_of(cache.root, tokens));
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
  finish(lookup(tokens));
  cache.add(cache.root, prompt(10));  // a step
  EXPECT_EQ(computed(tokens), 160);
  check();
}

}  // namespace
}  // namespace prefix
