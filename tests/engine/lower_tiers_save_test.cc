// Which pages the tiers are given, how often, and how much memory that takes.
#include "lower_tiers_fixture.h"

namespace prefix {
namespace {

using namespace testing_support;

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

// A tier sees no use of what is found in memory, and would let go of that first.
TEST_F(LowerTiersTest, WhatIsUsedForLongIsGivenAgain) {
  const Tokens tokens = prompt(70), other = prompt(70);
  for (int turn = 1; turn <= 9; ++turn) {
    for (int uses = 0; uses < 3; ++uses) {
      add_and_save(tokens);
      near->answer();
      far->answer();
    }
    if (turn == 1) add_and_save(other);
    for (const PageKey& key : keys_of(cache.root, tokens))
      for (FakeTier* tier : {near, far}) EXPECT_EQ(tier->puts[key], turn);
    now += kSavedFor;
  }
  for (const PageKey& key : keys_of(cache.root, other)) EXPECT_EQ(near->puts[key], 1);
}

TEST_F(LowerTiersTest, WhatIsUsedAllTheTimeIsGivenAgainEveryTenMinutes) {
  const Tokens tokens = prompt(70);
  for (int minute = 0; minute < 60; ++minute) {
    add_and_save(tokens);
    near->answer();
    far->answer();
    now += 1min;
  }
  for (const PageKey& key : keys_of(cache.root, tokens))
    for (FakeTier* tier : {near, far}) EXPECT_EQ(tier->puts[key], 6);
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
  finish(lookup(tokens));
  add_and_save(tokens);
  EXPECT_EQ(near->calls[Kind::kPut], 0);
}

// The path was lost and computed again while its end was on its way: the tiers have its end only.
TEST_F(LowerTiersTest, PagesBeforeThoseThatCameAreStillGiven) {
  const Tokens tokens = prompt(160);
  cache.add(cache.root, first_tokens(tokens, 64));
  cache.give_to(*near, cache.root, tokens);
  const auto fetch = lookup(tokens);
  ASSERT_TRUE(fetch);
  cache.tree.trim(0);
  cache.add(cache.root, tokens);
  finish(fetch);
  add_and_save(tokens);
  const std::vector<PageKey> keys = keys_of(cache.root, tokens);
  for (size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(near->puts[keys[i]], i < 2) << i;
  check();
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
    id = cache.tree.advance(id, i, tokens[static_cast<size_t>(i)], {}, &pages);
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

// What is further down would be worth nothing alone.
TEST_F(LowerTiersTest, WhatDoesNotFitIsTheEndOfThePathAndFollows) {
  open(1s, 100, 3);
  const Tokens tokens = prompt(160);
  cache.add(cache.root, first_tokens(tokens, 70));
  add_and_save(tokens);
  const std::vector<PageKey> keys = keys_of(cache.root, tokens);
  const auto given = [&] {
    size_t pages = 0;
    while (pages < keys.size() && near->puts[keys[pages]] == 1) ++pages;
    return pages;
  };
  EXPECT_EQ(given(), 3u);
  tiers->poll();
  EXPECT_EQ(given(), 3u) << "the tiers hold these copies still";
  answer();
  tiers->poll();
  EXPECT_EQ(given(), 5u);
  answer();
  tiers->poll();
  for (size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ(near->puts[keys[i]], 1);
    EXPECT_EQ(near->pages[keys[i]], cache.page_of(cache.root, tokens, i));
  }
  check();
}

// However little memory they take: the queue of a tier takes no more and refuses the rest.
TEST_F(LowerTiersTest, SmallPagesOnTheirWayAreOfABoundedNumber) {
  waiting_pages = 2;
  open(1s);
  const Tokens tokens = prompt(170);
  add_and_save(tokens);
  EXPECT_EQ(near->puts.size(), 2u);
  for (int round = 0; round < 3; ++round) {
    answer();
    tiers->poll();
  }
  const std::vector<PageKey> keys = keys_of(cache.root, tokens);
  for (FakeTier* tier : {near, far})
    for (const PageKey& key : keys) EXPECT_EQ(tier->puts[key], 1);
}

TEST_F(LowerTiersTest, OfARestThatWentMeanwhileNothingIsGiven) {
  open(1s, 100, 3);
  const Tokens tokens = prompt(192);
  add_and_save(tokens);
  cache.tree.drop_after(cache.tree.match(cache.root, first_tokens(tokens, 128)));
  answer();
  tiers->poll();
  EXPECT_EQ(near->puts.size(), 4u);
  const Tokens other = prompt(160);
  answer();
  add_and_save(other);
  cache.tree.trim(0);
  answer();
  tiers->poll();
  EXPECT_EQ(near->puts.size(), 7u);
  check();
}

TEST_F(LowerTiersTest, ARestBelowARootThatGoesIsForgotten) {
  open(1s, 100, 3);
  add_and_save(prompt(160));
  tiers->forget(cache.root);
  answer();
  tiers->poll();
  EXPECT_EQ(near->puts.size(), 3u);
}

TEST_F(LowerTiersTest, NotesOfRestsAreBounded) {
  open(1s, 100, 1);
  for (int i = 0; i < 20; ++i) add_and_save(prompt(64));
  for (int i = 0; i < 100; ++i) {
    answer();
    tiers->poll();
  }
  EXPECT_EQ(near->puts.size(), 2 * LowerTierLimits{}.rests);
}

TEST_F(LowerTiersTest, FlushWaitsForTheRestToo) {
  open(1s, 100, 3);
  near->at_once = far->at_once = true;
  add_and_save(prompt(320));
  EXPECT_EQ(near->pages.size(), 3u);
  tiers->flush(std::chrono::hours(1));
  EXPECT_EQ(near->pages.size(), 10u);
  EXPECT_EQ(far->pages.size(), 10u);
}

// A tier that lets go of what was used longest ago would let go of the beginning first.
TEST_F(LowerTiersTest, ThatAPathWhichGrowsIsInUseIsTold) {
  const Tokens tokens = prompt(140);
  add_and_save(first_tokens(tokens, 75));
  EXPECT_EQ(near->uses.size(), 0u) << "all of it was given at once";
  add_and_save(first_tokens(tokens, 90));
  EXPECT_EQ(near->uses.size(), 0u) << "there was nothing to give";
  add_and_save(tokens);
  for (const FakeTier* tier : {near, far}) {
    ASSERT_EQ(tier->uses.size(), 1u);
    EXPECT_EQ(tier->uses[0], keys_of(cache.root, tokens));
  }
}

TEST_F(LowerTiersTest, FlushEndsWhenTimeIsUpOrAllIsWritten) {
  const Clock::time_point start = wall;
  add_and_save(prompt(160));
  tiers->flush(0ms);
  add_and_save(prompt(160));
  near->answer();
  far->answer();
  tiers->flush(std::chrono::hours(1));
  EXPECT_EQ(wall, start);
}

// As an engine that is closed does, whatever a tier and its server are at.
TEST_F(LowerTiersTest, FlushWaitsFiveSecondsForATierThatNeverAnswers) {
  const Clock::time_point start = wall;
  for (int i = 0; i < 3; ++i) add_and_save(prompt(160));
  tiers->flush();
  EXPECT_EQ(wall - start, 5s);
  EXPECT_EQ(near->pages.size(), 0u);
}

// Nor does it go on with what follows when room comes.
TEST_F(LowerTiersTest, FlushEndsInTheMiddleOfARestWhenTimeIsUp) {
  open(1s, 100, 1);
  const Clock::time_point start = wall;
  wait = [this](std::chrono::nanoseconds) {
    wall += 1s;
    answer();
  };
  add_and_save(prompt(320));
  tiers->flush();
  EXPECT_EQ(wall - start, 5s);
  EXPECT_EQ(near->pages.size(), 5u) << "of ten, one a second";
}

}  // namespace
}  // namespace prefix
