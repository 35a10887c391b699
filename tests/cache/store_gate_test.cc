// A server that does not answer: how long it is left alone, and who asks it again.
#include "cache/store/store_gate.h"

#include <gtest/gtest.h>

#include "support/manual_clock.h"

namespace prefix {
namespace {

using namespace std::chrono_literals;
using Answer = StoreGate::Answer;

struct Gates : testing::Test {
  // The first one who asks after `time`, and nobody before, makes a probe.
  void expect_closed_for(std::chrono::nanoseconds time) {
    EXPECT_EQ(gate.ask(), Answer::kClosed);
    clock.advance(time - 1ns);
    EXPECT_EQ(gate.ask(), Answer::kClosed);
    clock.advance(1ns);
    EXPECT_EQ(gate.ask(), Answer::kProbe);
  }

  testing_support::ManualClock clock;
  StoreGate gate{1s, clock.now()};
};

TEST_F(Gates, AServerThatFailsIsLeftAloneForTwiceAsLongEachTimeUpTo32) {
  EXPECT_EQ(gate.ask(), Answer::kOpen);
  for (const auto pause : {1s, 2s, 4s, 8s, 16s, 32s, 32s, 32s}) {
    EXPECT_TRUE(gate.failed(gate.age()));
    expect_closed_for(pause);
  }
}

TEST_F(Gates, OneProbesAndTheOthersDoNotWait) {
  gate.failed(gate.age());
  clock.advance(1s);
  EXPECT_EQ(gate.ask(), Answer::kProbe);
  clock.advance(1h);
  EXPECT_EQ(gate.ask(), Answer::kClosed);
  gate.answered();
  EXPECT_EQ(gate.ask(), Answer::kOpen);
}

// Until a trip has done what it should: a server that takes connections and nothing else stays one
// that fails.
TEST_F(Gates, AnAnswerToAProbeIsNoEndOfTheFailures) {
  gate.failed(gate.age());
  expect_closed_for(1s);
  gate.answered();
  EXPECT_TRUE(gate.failed(gate.age()));
  expect_closed_for(2s);
  gate.answered();
  EXPECT_TRUE(gate.works(gate.age()));
  EXPECT_FALSE(gate.works(gate.age())) << "said once";
  gate.failed(gate.age());
  expect_closed_for(1s);
}

// What fails on a connection from before is the failure that is known.
TEST_F(Gates, AnAgeFailsOnce) {
  const uint64_t age = gate.age();
  EXPECT_TRUE(gate.failed(age));
  EXPECT_FALSE(gate.failed(age));
  EXPECT_FALSE(gate.works(age)) << "a trip that was late";
  expect_closed_for(1s);
}

}  // namespace
}  // namespace prefix
