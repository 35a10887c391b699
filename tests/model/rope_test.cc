// Rotary tables against the definitions in double precision. The golden models compare the same
// tables with transformers.
#include "model/rope.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "support/expect_error.h"

namespace prefix {
namespace {

using testing_support::expect_error;

ModelConfig model(int32_t head_dim = 64) {
  ModelConfig c;
  c.architecture = "llama";
  c.head_dim = head_dim;
  c.max_positions = 512;
  return c;
}

double plain_frequency(const ModelConfig& c, int i) {
  return std::pow(c.rope.theta, -2.0 * i / c.rotary_dim());
}

void expect_near(const std::vector<float>& got, const std::vector<double>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i] / expected[i], 1, 4e-7) << i;
}

TEST(Rope, DefaultFrequencies) {
  const ModelConfig c = model();
  std::vector<double> expected;
  for (int i = 0; i < 32; ++i) expected.push_back(plain_frequency(c, i));
  expect_near(rope_frequencies(c, false), expected);
}

TEST(Rope, LinearDividesFrequencies) {
  ModelConfig c = model();
  c.rope.type = RopeType::kLinear;
  c.rope.factor = 4;
  std::vector<double> expected;
  for (int i = 0; i < 32; ++i) expected.push_back(plain_frequency(c, i) / 4);
  expect_near(rope_frequencies(c, false), expected);
}

TEST(Rope, Llama3StretchesLongWavelengthsOnly) {
  ModelConfig c = model();
  c.rope.type = RopeType::kLlama3;
  c.rope.theta = 5e5;
  c.rope.factor = 8;
  c.rope.low_freq_factor = 1;
  c.rope.high_freq_factor = 4;
  c.rope.original_max_positions = 8192;
  std::vector<double> expected;
  int kept = 0, blended = 0, stretched = 0;
  for (int i = 0; i < 32; ++i) {
    const double f = plain_frequency(c, i);
    const double turns = 8192 * f / (2 * std::numbers::pi);  // of the original context
    if (turns > 4) {
      expected.push_back(f);
      ++kept;
    } else if (turns < 1) {
      expected.push_back(f / 8);
      ++stretched;
    } else {
      const double smooth = (turns - 1) / (4 - 1);
      expected.push_back(f * (smooth + (1 - smooth) / 8));
      ++blended;
    }
  }
  EXPECT_GT(kept, 5);
  EXPECT_GT(blended, 1);
  EXPECT_GT(stretched, 5);
  expect_near(rope_frequencies(c, false), expected);
}

TEST(Rope, YarnStretchesWhatTurnsSeldom) {
  for (const bool truncate : {true, false}) {
    ModelConfig c = model();
    c.rope.type = RopeType::kYarn;
    c.rope.factor = 8;
    c.rope.original_max_positions = 4096;
    c.rope.attention_factor = 1.25;
    c.rope.truncate = truncate;
    const auto index_of = [&](double turns) {  // that turns so many times in the original context
      return 32 * std::log(4096 / (turns * 2 * std::numbers::pi)) / std::log(c.rope.theta);
    };
    const double first = truncate ? std::floor(index_of(32)) : index_of(32);
    const double last = truncate ? std::ceil(index_of(1)) : index_of(1);
    std::vector<double> expected;
    int kept = 0, blended = 0, stretched = 0;
    for (int i = 0; i < 32; ++i) {
      const double share = std::clamp((i - first) / (last - first), 0.0, 1.0);
      ++(share == 0 ? kept : share == 1 ? stretched : blended);
      expected.push_back(plain_frequency(c, i) * (1 - share + share / 8));
    }
    EXPECT_GT(kept, 5);
    EXPECT_GT(blended, 5);
    EXPECT_GT(stretched, 5);
    expect_near(rope_frequencies(c, false), expected);
    EXPECT_EQ(rope_tables(c, 1).cos[0], 1.25f);
  }
}

TEST(Rope, DivisorsOfTheFile) {
  ModelConfig c = model(8);
  c.rope.frequency_divisors = {1, 2, 4, 8};
  std::vector<double> expected;
  for (int i = 0; i < 4; ++i) expected.push_back(plain_frequency(c, i) / (1 << i));
  expect_near(rope_frequencies(c, false), expected);
}

TEST(Rope, TablesHoldCosAndSin) {
  const ModelConfig c = model();
  const RopeTables t = rope_tables(c, 300);
  EXPECT_EQ(t.rotary_dim, 64);
  EXPECT_EQ(t.regime_switch, 0);
  ASSERT_EQ(t.cos.size(), 300u * 32);
  ASSERT_EQ(t.sin.size(), 300u * 32);
  for (int p : {0, 1, 2, 17, 299}) {
    for (int i = 0; i < 32; ++i) {
      const double angle = p * plain_frequency(c, i);
      // The angle is a float32: half a unit in its last place at 299 is 1.5e-5.
      EXPECT_NEAR(t.cos[static_cast<size_t>(p * 32 + i)], std::cos(angle), 4e-5);
      EXPECT_NEAR(t.sin[static_cast<size_t>(p * 32 + i)], std::sin(angle), 4e-5);
    }
  }
}

TEST(Rope, RowsDoNotDependOnTheLengthOfTheTable) {
  const ModelConfig c = model();
  const RopeTables brief = rope_tables(c, 5), full = rope_tables(c, 512);
  EXPECT_TRUE(std::equal(brief.cos.begin(), brief.cos.end(), full.cos.begin()));
  EXPECT_TRUE(std::equal(brief.sin.begin(), brief.sin.end(), full.sin.begin()));
}

TEST(Rope, PartialRotation) {
  ModelConfig c = model(96);
  c.rope.partial_rotary_factor = 0.75;
  const RopeTables t = rope_tables(c, 2);
  EXPECT_EQ(t.rotary_dim, 72);
  EXPECT_EQ(t.cos.size(), 2u * 36);
  EXPECT_NEAR(rope_frequencies(c, false)[1], std::pow(10000.0, -2.0 / 72), 1e-6);
}

ModelConfig longrope_model() {
  ModelConfig c = model(8);
  c.rope.type = RopeType::kLongrope;
  c.rope.short_factor = {1, 1.5, 2, 3};
  c.rope.long_factor = {2, 4, 8, 16};
  c.rope.original_max_positions = 10;
  c.rope.attention_factor = 1.25;
  return c;
}

TEST(Rope, LongropeHasTwoRegimes) {
  const ModelConfig c = longrope_model();
  std::vector<double> first, second;
  for (int i = 0; i < 4; ++i) {
    first.push_back(plain_frequency(c, i) / c.rope.short_factor[static_cast<size_t>(i)]);
    second.push_back(plain_frequency(c, i) / c.rope.long_factor[static_cast<size_t>(i)]);
  }
  expect_near(rope_frequencies(c, false), first);
  expect_near(rope_frequencies(c, true), second);

  const RopeTables t = rope_tables(c, 20);
  EXPECT_EQ(t.regime_switch, 10);
  ASSERT_EQ(t.cos.size(), 2u * 20 * 4);
  for (size_t p = 0; p < 20; ++p) {
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_NEAR(t.cos[p * 4 + i], 1.25 * std::cos(static_cast<double>(p) * first[i]), 4e-6);
      EXPECT_NEAR(t.sin[(20 + p) * 4 + i], 1.25 * std::sin(static_cast<double>(p) * second[i]),
                  4e-6);
    }
  }
}

TEST(Rope, LongropeWithinTheOriginalLengthHasOneRegime) {
  const ModelConfig c = longrope_model();
  EXPECT_EQ(rope_tables(c, 10).regime_switch, 0);
  EXPECT_EQ(rope_tables(c, 10).cos.size(), 10u * 4);
  EXPECT_EQ(rope_tables(c, 11).regime_switch, 10);
}

TEST(Rope, AttentionFactor) {
  EXPECT_EQ(longrope_attention_factor(1, 4096), 1.0);
  EXPECT_EQ(longrope_attention_factor(0.5, 4096), 1.0);
  EXPECT_EQ(longrope_attention_factor(8, 1), 1.0);
  EXPECT_DOUBLE_EQ(longrope_attention_factor(32, 4096), std::sqrt(1 + 5.0 / 12));
}

TEST(Rope, TablesThatNoMemoryIsFreeForAreRefused) {
  const ModelConfig c = longrope_model();
  const int64_t bytes = rope_table_bytes(c, 20);
  EXPECT_EQ(bytes, 2 * 2 * 20 * 4 * 4);  // of both regimes, cos and sin
  EXPECT_EQ(rope_tables(c, 20, 2 * bytes).regime_switch, 10);
  expect_error(Code::kOutOfMemory, {"20 positions", "1280 bytes", "2559 are free", "max_positions"},
               [&] { rope_tables(c, 20, 2 * bytes - 1); });
  // The longest that a configuration may ask for: refused before a byte of it is taken.
  ModelConfig longest = model(ConfigLimits::kHeadDim);
  longest.window_rope.emplace();
  constexpr int64_t kBytes = int64_t{1} << 36;
  EXPECT_EQ(rope_table_bytes(longest, ConfigLimits::kPositions), 2 * kBytes);
  expect_error(Code::kOutOfMemory, {"16777216 positions", "68719476736 bytes"},
               [&] { rope_tables(longest, ConfigLimits::kPositions, 2 * kBytes - 1); });
}

TEST(Rope, WantsPositions) {
  expect_error(Code::kInternal, {"positions"}, [] { rope_tables(model(), 0); });
}

}  // namespace
}  // namespace prefix
