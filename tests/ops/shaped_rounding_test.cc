// What rounding a row leaves along the inputs that are usual, and what that costs elsewhere.
#include "ops/cpu/shaped_rounding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "ops/cpu/isa.h"
#include "ops/cpu/kernels.h"

namespace prefix::ops {
namespace {

// Of every level the same: int8_test.cc.
const KernelTable& table() { return kernel_table(Isa::kScalar); }

// Rows of numbers that fill the range of a byte, as NumberUnits makes them.
struct Rows {
  Rows(int64_t count, int64_t k, unsigned seed)
      : rows(count), k(k), ld(k + 64), numbers(size(count * k)), whole(size(count * ld), 77) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, 35);
    for (float& x : numbers) x = std::clamp(normal(random), -127.0f, 127.0f);
    rest = numbers;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; i < k; ++i) {
        const float nearest = std::nearbyint(numbers[size(r * k + i)]);
        whole[size(r * ld + i)] = static_cast<int8_t>(nearest);
        rest[size(r * k + i)] -= nearest;
      }
  }
  static size_t size(int64_t n) { return static_cast<size_t>(n); }

  double error(int64_t r, int64_t i) const {
    return static_cast<double>(whole[size(r * ld + i)]) - numbers[size(r * k + i)];
  }
  // What rounding errs in a product of row r with x.
  double error_along(int64_t r, const std::vector<float>& x) const {
    double sum = 0;
    for (int64_t i = 0; i < k; ++i) sum += error(r, i) * x[size(i)];
    return sum;
  }
  double square_of_errors(int64_t r) const {
    double sum = 0;
    for (int64_t i = 0; i < k; ++i) sum += std::pow(error(r, i), 2);
    return sum;
  }
  void round(const std::vector<float>& mean) {
    ShapedRounding(mean).round(table().rows, rows, whole.data(), ld, rest.data());
  }

  int64_t rows, k, ld;
  std::vector<float> numbers, rest;  // [rows][k]
  std::vector<int8_t> whole;         // [rows][ld]
};

std::vector<float> some_mean(int64_t k, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 3e-5f);  // in any unit
  std::vector<float> mean(static_cast<size_t>(k));
  for (float& m : mean) m = normal(random);
  return mean;
}

TEST(ShapedRounding, LeavesLittleAlongTheMeanAndHardlyMoreElsewhere) {
  for (const int64_t k : {64, 100, 576, 1000, 3072}) {
    SCOPED_TRACE(k);
    const std::vector<float> mean = some_mean(k, 1), other = some_mean(k, 2);
    Rows nearest(32, k, 3), shaped(32, k, 3);
    shaped.round(mean);
    double before = 0, after = 0, squares_before = 0, squares_after = 0, across = 0,
           across_before = 0;
    for (int64_t r = 0; r < 32; ++r) {
      before += std::pow(nearest.error_along(r, mean), 2);
      after += std::pow(shaped.error_along(r, mean), 2);
      across_before += std::pow(nearest.error_along(r, other), 2);
      across += std::pow(shaped.error_along(r, other), 2);
      squares_before += nearest.square_of_errors(r);
      squares_after += shaped.square_of_errors(r);
    }
    EXPECT_LT(after, before * 5 / static_cast<double>(k));
    EXPECT_LT(squares_after, squares_before * (1.02 + 5 / static_cast<double>(k)));
    EXPECT_LT(across, 2 * across_before);
  }
}

TEST(ShapedRounding, IsTheStepOfItsHeader) {
  constexpr int64_t k = 70;
  const std::vector<float> mean = some_mean(k, 4);
  Rows rows(3, k, 5);
  rows.round(mean);
  double square = 0;
  for (const float m : mean) square += double{m} * m;
  const double variance = 0.3 * square / k;
  for (int64_t r = 0; r < rows.rows; ++r) {
    std::vector<double> w(rows.numbers.begin() + r * k, rows.numbers.begin() + (r + 1) * k);
    double behind = square;
    for (size_t i = 0; i < size_t{k}; ++i) {
      behind -= double{mean[i]} * mean[i];
      const int whole = rows.whole[Rows::size(r * rows.ld) + i];
      // Either of both where a number is half way between them.
      EXPECT_NEAR(whole, std::clamp(w[i], -127.0, 127.0), 0.501) << r << ' ' << i;
      for (size_t j = i + 1; j < size_t{k}; ++j)
        w[j] -= mean[j] * (whole - w[i]) * mean[i] / (variance + behind);
    }
  }
}

// Rows beyond the count, and what is behind a row, are not its own.
TEST(ShapedRounding, WritesItsRowsOnly) {
  Rows rows(32, 128, 6);
  const Rows before = rows;
  ShapedRounding(some_mean(128, 7))
      .round(table().rows, 5, rows.whole.data(), rows.ld, rows.rest.data());
  for (int64_t r = 0; r < 32; ++r) {
    int changed = 0;
    for (int64_t i = 0; i < rows.ld; ++i) {
      const size_t at = Rows::size(r * rows.ld + i);
      changed += rows.whole[at] != before.whole[at];
      if (i >= 128) {
        EXPECT_EQ(rows.whole[at], 77);
      }
    }
    EXPECT_EQ(changed > 0, r < 5) << r;
  }
}

// One channel has nearly all of the mean, and is rounded first: those behind it cannot make up for it.
TEST(ShapedRounding, StaysInRangeWhateverTheMean) {
  for (const float large : {1.0f, 1e6f, 1e18f}) {
    std::vector<float> mean(256, 1.0f);
    mean[0] = large;
    Rows rows(32, 256, 8);
    for (int64_t r = 0; r < 32; ++r) rows.rest[Rows::size(r * 256)] = r % 2 == 0 ? 0.5f : -0.5f;
    rows.round(mean);
    for (int64_t r = 0; r < 32; ++r)
      for (int64_t i = 0; i < 256; ++i) EXPECT_GE(rows.whole[Rows::size(r * rows.ld + i)], -127);
  }
}

TEST(ShapedRounding, WithoutAMeanIsPlain) {
  EXPECT_TRUE(ShapedRounding({}).plain());
  EXPECT_TRUE(ShapedRounding(std::vector<float>(8, 0.0f)).plain());
  EXPECT_TRUE(
      ShapedRounding(std::vector<float>(8, std::numeric_limits<float>::infinity())).plain());
  EXPECT_TRUE(
      ShapedRounding(std::vector<float>(8, std::numeric_limits<float>::quiet_NaN())).plain());
  EXPECT_FALSE(ShapedRounding(std::vector<float>(8, 1e-30f)).plain());
}

}  // namespace
}  // namespace prefix::ops
