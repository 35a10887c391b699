// Where states are placed, against every choice there is.
#include "tree/overlap_depths.h"

#include <gtest/gtest.h>

#include <random>

#include "tree/hybrid_replay.h"

namespace prefix {
namespace {

using Positions = std::vector<int64_t>;

TEST(OverlapDepths, Cases) {
  OverlapDepths depths;
  EXPECT_EQ(depths.place(0, 100, 120, 3, 0), Positions{}) << "nothing is known";
  depths.add_fork(-10);
  depths.add_fork(-10);
  depths.add_fork(0);
  EXPECT_EQ(depths.place(0, 100, 120, 1, 0), Positions{90}) << "3 x 90 against 100";
  EXPECT_EQ(depths.place(85, 100, 120, 1, 0), Positions{90}) << "3 x 5 against 15: the first";
  EXPECT_EQ(depths.place(88, 100, 120, 1, 0), Positions{100}) << "3 x 2 against 12";
  EXPECT_EQ(depths.place(0, 100, 120, 2, 0), (Positions{90, 100}));
  EXPECT_EQ(depths.place(0, 100, 120, 2, 4), Positions{90}) << "the second adds 10 / 3";
  EXPECT_EQ(depths.place(0, 100, 120, 2, 91), Positions{});
  EXPECT_EQ(depths.place(90, 100, 100, 2, 0), Positions{}) << "both ends have states";
  for (int i = 0; i < 7; ++i) depths.add_whole();
  EXPECT_EQ(depths.place(0, 100, 120, 1, 26), Positions{90}) << "270 for 10 requests";
  EXPECT_EQ(depths.place(0, 100, 120, 1, 27), Positions{});
  for (int i = 0; i < 600; ++i) depths.add_whole();
  EXPECT_EQ(depths.place(0, 100, 120, 1, 0), Positions{}) << "what is long ago is forgotten";
}

TEST(OverlapDepths, BestOfAllChoices) {
  std::mt19937 random(5);
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
  };
  for (int round = 0; round < 2000; ++round) {
    OverlapDepths depths;
    Positions parts;  // of requests that do not go on from the end
    const int64_t begin = below(6), prompt = 8, end = 9 + below(5), states = 1 + below(3);
    const int64_t count = 1 + below(12);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t offset = below(14) - 7;
      if (below(4) == 0) {
        depths.add_whole();
      } else {
        depths.add_fork(offset);
        if (prompt + offset < end) parts.push_back(prompt + offset);
      }
    }
    const double gain = static_cast<double>(below(4)) / 2;
    const auto worth = [&](uint32_t chosen) {
      double sum = 0;
      for (const int64_t part : parts) {
        int64_t deepest = begin;
        for (int64_t p = begin + 1; p < end && p <= part; ++p)
          if (chosen >> p & 1) deepest = p;
        sum += static_cast<double>(deepest - begin);
      }
      return sum - gain * static_cast<double>(count) * __builtin_popcount(chosen);
    };
    double best = 0;
    for (uint32_t chosen = 0; chosen < 1u << end; chosen += 2u << begin)
      if (__builtin_popcount(chosen) <= states) best = std::max(best, worth(chosen));
    uint32_t found = 0;
    for (const int64_t p : depths.place(begin, prompt, end, states, gain)) {
      ASSERT_TRUE(p > begin && p < end && !(found >> p));
      found |= 1u << p;
    }
    ASSERT_LE(__builtin_popcount(found), states);
    ASSERT_DOUBLE_EQ(worth(found), best) << round;
  }
}

// A template that drops the answer from the history: once one turn has diverged at the end of the
// prompt before it, states are taken there.
TEST(OverlapDepths, StatesAreTakenWhereRequestsPart) {
  HybridOptions options;
  options.cost = {
      .recurrent_layers = 1, .recurrent = {.linear = 1}, .state_bytes = 10, .kv_bytes = 1};
  options.method = HybridMethod::kGdsf;
  for (const int64_t placed : {0, 1}) {
    options.admission.placed = placed;
    HybridReplay replay(options);
    std::vector<int32_t> history;
    std::vector<int64_t> reused;
    for (int32_t turn = 0; turn < 5; ++turn) {
      for (int32_t i = 0; i < 20; ++i) history.push_back(100 * turn + i);
      reused.push_back(replay.look_up("", history));
      std::vector<int32_t> all = history;
      for (int32_t i = 0; i < 5; ++i) all.push_back(9000 + 100 * turn + i);
      replay.insert("", all, static_cast<int64_t>(history.size()));
      replay.tree().check();
    }
    EXPECT_EQ(reused, placed ? (std::vector<int64_t>{0, 0, 40, 60, 80})
                             : (std::vector<int64_t>{0, 0, 20, 40, 60}));
  }
}

}  // namespace
}  // namespace prefix
