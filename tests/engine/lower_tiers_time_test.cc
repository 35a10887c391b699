// Fetches and time: what is used when it is up, and which tiers are too slow to be asked.
#include "lower_tiers_fixture.h"

namespace prefix {
namespace {

using namespace testing_support;

TEST_F(LowerTiersTest, WhenTimeIsUpWhatHasComeIsUsed) {
  const Tokens tokens = prompt(160);
  cache.give_to(*near, cache.root, tokens);
  const auto fetch = lookup(tokens);
  near->answer();
  tiers->poll();
  FakeTier::Call& call = near->open.front();
  for (const size_t i : {0u, 3u, 1u}) near->complete(call, i);
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
  const auto fetch = lookup(tokens);
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
  const auto late = lookup(tokens);
  tiers->poll();
  EXPECT_TRUE(late->done);
  EXPECT_EQ(computed(tokens), 0);
  EXPECT_EQ(tiers->counters().timeouts, 1);
  near->at_once = true;
  finish(lookup(tokens));
  EXPECT_EQ(computed(tokens), 160);
  EXPECT_EQ(tiers->counters().timeouts, 1);
}

// How many times in a row the request was not served by the first tier.
TEST_F(LowerTiersTest, ATierThatLooksTooSlowlyIsTriedAgainAfterAWhile) {
  const Tokens tokens = prompt(160);
  cache.give_to(*near, cache.root, tokens);
  measure_tokens();
  far->at_once = true;
  int skipped = 0;
  for (int round = 0; round < 100; ++round) {
    const int before = near->calls[Kind::kExists];
    const auto fetch = lookup(tokens);
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
  measure_tokens();
  far->at_once = near->at_once = true;
  for (int round = 0; round < 100; ++round) {
    const auto fetch = lookup(tokens);
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
  measure_tokens();
  far->at_once = true;
  for (int round = 0; round < 31; ++round) {
    const auto fetch = lookup(prompt(160));
    now += 1s;
    tiers->poll();
    EXPECT_TRUE(!fetch || fetch->done);
  }
  EXPECT_EQ(near->calls[Kind::kExists], 1);
  EXPECT_EQ(tiers->counters().timeouts, 1);
}

// Polls come between steps: an answer that came during one was not as slow as that.
TEST_F(LowerTiersTest, LongStepsDoNotMakeATierSlow) {
  const Tokens tokens = prompt(160);
  cache.give_to(*near, cache.root, tokens);
  measure_tokens();
  for (int round = 0; round < 5; ++round) {
    const auto fetch = lookup(tokens);
    ASSERT_TRUE(fetch);
    while (!fetch->done) {
      near->answer();
      far->answer();
      now += 50ms;
      tiers->computed(50000, 50000000);
      tiers->poll();
    }
    EXPECT_EQ(computed(tokens), 160) << round;
    cache.tree.trim(0);
  }
  EXPECT_EQ(near->calls[Kind::kGet], 5);
}

// A step of few rows is mostly overhead and says nothing of what a token costs.
TEST_F(LowerTiersTest, SmallStepsDoNotCount) {
  const Tokens tokens = prompt(160);
  cache.give_to(*near, cache.root, tokens);
  tiers->computed(31, 31);
  for (int round = 0; round < 3; ++round) {
    const auto fetch = lookup(tokens);
    now += 1ms;
    finish(fetch);
    cache.tree.trim(0);
  }
  EXPECT_EQ(near->calls[Kind::kGet], 3);
}

}  // namespace
}  // namespace prefix
