// Functions of double precision against those of the C library,
// and the bits that every machine has.
#include "base/elementary.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

namespace prefix {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

double units(double got, double want) {
  return std::abs(got - want) / (std::nextafter(std::abs(want), kInf) - std::abs(want));
}

TEST(Elementary, AreWithinTwoUnits) {
  std::mt19937_64 random(1);
  const auto between = [&](double low, double high) {
    return low + (high - low) * static_cast<double>(random() >> 11) * 0x1p-53;
  };
  for (int i = 0; i < 200'000; ++i) {
    const double x = between(-700, 700), y = std::exp(between(-40, 40)), near = between(0.5, 2);
    ASSERT_LE(units(portable_exp(x), std::exp(x)), 2) << x;
    ASSERT_LE(units(portable_exp(x / 1000), std::exp(x / 1000)), 2) << x;
    ASSERT_LE(units(portable_log(y), std::log(y)), 2) << y;
    ASSERT_LE(units(portable_log(near), std::log(near)), 2) << near;
    const double angle = between(-3e7, 3e7);
    ASSERT_LE(units(portable_sin(angle), std::sin(angle)), 2) << angle;
    ASSERT_LE(units(portable_cos(angle), std::cos(angle)), 2) << angle;
    ASSERT_NEAR(portable_pow(y, 0.7) / std::pow(y, 0.7), 1, 1e-14) << y;
  }
}

TEST(Elementary, TanhIsWithinSixUnits) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 200'000; ++i) {
    const double part = static_cast<double>(random() >> 11) * 0x1p-52 - 1;  // [-1, 1)
    for (const double x : {25 * part, 0.7 * part})
      ASSERT_LE(units(portable_tanh(x), std::tanh(x)), 6) << x;
  }
}

TEST(Elementary, Ends) {
  EXPECT_EQ(portable_exp(0), 1);
  EXPECT_EQ(portable_exp(-kInf), 0);
  EXPECT_EQ(portable_exp(kInf), kInf);
  EXPECT_EQ(portable_exp(1000), kInf);
  EXPECT_EQ(portable_exp(-1000), 0);
  EXPECT_GT(portable_exp(-744), 0);  // of no normal size
  EXPECT_TRUE(std::isnan(portable_exp(NAN)));
  EXPECT_EQ(portable_log(1), 0);
  EXPECT_EQ(portable_log(0), -kInf);
  EXPECT_EQ(portable_log(kInf), kInf);
  EXPECT_LE(units(portable_log(5e-324), std::log(5e-324)), 2);
  EXPECT_TRUE(std::isnan(portable_log(-1)));
  EXPECT_TRUE(std::isnan(portable_log(NAN)));
  EXPECT_EQ(portable_sin(0), 0);
  EXPECT_EQ(portable_cos(0), 1);
  EXPECT_EQ(portable_pow(10000, 0), 1);
  EXPECT_EQ(portable_tanh(0), 0);
  EXPECT_TRUE(std::signbit(portable_tanh(-0.0)));
  EXPECT_EQ(portable_tanh(1e-300), 1e-300);
  EXPECT_EQ(portable_tanh(kInf), 1);
  EXPECT_EQ(portable_tanh(-kInf), -1);
  EXPECT_TRUE(std::isnan(portable_tanh(NAN)));
}

// The cosines of positions, as rope tables have them:
// rounded to f32 they are those of the C library.
TEST(Elementary, RotationsAreRoundedAsBefore) {
  for (const float frequency : {1.0f, 0.1f, 0.0072f, 3.16e-5f, 1e-6f}) {
    for (int position = 0; position < 131072; position += 3) {
      const double angle = static_cast<float>(position) * frequency;
      ASSERT_EQ(static_cast<float>(portable_cos(angle)), static_cast<float>(std::cos(angle)));
      ASSERT_EQ(static_cast<float>(portable_sin(angle)), static_cast<float>(std::sin(angle)));
    }
  }
}

TEST(Elementary, BitsAreTheSameEverywhere) {
  uint64_t bits = 0;
  for (int i = 1; i < 2000; ++i)
    for (const double x :
         {portable_exp(i * 0.37 - 370), portable_log(i * 0.011), portable_sin(i * 1.7),
          portable_cos(i * 91.3), portable_pow(i, 0.3), portable_tanh(i * 0.003 - 3)})
      bits = bits * 0x9E3779B97F4A7C15u + std::bit_cast<uint64_t>(x);
  EXPECT_EQ(bits, 16452958224285317232u);
}

}  // namespace
}  // namespace prefix
