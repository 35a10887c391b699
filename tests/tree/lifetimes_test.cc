#include "tree/lifetimes.h"

#include <gtest/gtest.h>

namespace prefix {
namespace {

TEST(Lifetimes, NodesEndInTheOrderOfTheirEnds) {
  Lifetimes lives;
  lives.set(7, 900);
  lives.set(9, 500);
  EXPECT_EQ(lives.end_of(7), 900);
  EXPECT_EQ(lives.end_of(8), Lifetimes::kNever);
  EXPECT_EQ(lives.take_due(499), kNoNode);
  EXPECT_EQ(lives.take_due(900), 9);
  EXPECT_EQ(lives.take_due(900), 7);
  EXPECT_EQ(lives.take_due(900), kNoNode);
  EXPECT_FALSE(lives.contains(9));
}

TEST(Lifetimes, TheLastEndSetCounts) {
  Lifetimes lives;
  lives.set(1, 100);
  lives.set(1, 300);  // put off: its place follows when it is due
  EXPECT_EQ(lives.take_due(299), kNoNode);
  lives.set(1, 200);
  EXPECT_EQ(lives.take_due(199), kNoNode);
  EXPECT_EQ(lives.take_due(200), 1);
  EXPECT_EQ(lives.take_due(1000), kNoNode) << "and once";
}

TEST(Lifetimes, ANumberUsedAgainHasNothingOfTheNodeBefore) {
  Lifetimes lives;
  lives.set(1, 100);
  lives.erase(1);
  EXPECT_EQ(lives.take_due(100), kNoNode);
  lives.set(1, 50);
  lives.erase(1);
  lives.set(1, 400);
  EXPECT_EQ(lives.take_due(399), kNoNode);
  EXPECT_EQ(lives.take_due(400), 1);
}

TEST(Lifetimes, OutdatedPlacesDoNotPileUp) {
  Lifetimes lives;
  for (int64_t i = 0; i < 10'000; ++i) {
    lives.set(1, 1'000'000 - i);  // earlier each time: a new place
    lives.set(2, 1'000'000);
    lives.erase(2);
  }
  EXPECT_LT(lives.metadata_bytes(), 4096u);
  EXPECT_EQ(lives.take_due(1'000'000), 1);
  EXPECT_EQ(lives.take_due(1'000'000), kNoNode);
}

}  // namespace
}  // namespace prefix
