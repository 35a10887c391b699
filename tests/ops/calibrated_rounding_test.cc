// What rounding a row leaves along the inputs that were seen, and what that costs elsewhere.
#include "ops/cpu/calibrated_rounding.h"

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
  void round(const CalibrationRows& inputs) {
    CalibratedRounding(&inputs, k).round(table().rows, rows, whole.data(), ld, rest.data());
  }

  int64_t rows, k, ld;
  std::vector<float> numbers, rest;  // [rows][k]
  std::vector<int8_t> whole;         // [rows][ld]
};

// Inputs with a part in common, and what they are as numbers.
struct Inputs {
  Inputs(int64_t tokens, int64_t k, unsigned seed) : tokens(tokens), k(k) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, 20);
    std::vector<float> common(Rows::size(k));
    for (float& c : common) c = 2 * normal(random);
    for (int64_t t = 0; t < tokens; ++t) {
      rows.scales.push_back(3e-5f * static_cast<float>(1 + t % 3));  // in any unit
      for (const float c : common)
        rows.numbers.push_back(
            static_cast<int8_t>(std::clamp(std::nearbyint(c + normal(random)), -127.0f, 127.0f)));
    }
  }
  std::vector<float> row(int64_t t) const {
    std::vector<float> x;
    for (int64_t i = 0; i < k; ++i)
      x.push_back(rows.scales[Rows::size(t)] * rows.numbers[Rows::size(t * k + i)]);
    return x;
  }
  int64_t tokens, k;
  CalibrationRows rows;
};

TEST(CalibratedRounding, LeavesLittleAlongTheInputsAndHardlyMoreElsewhere) {
  for (const int64_t k : {64, 100, 576, 1000, 3072}) {
    SCOPED_TRACE(k);
    const Inputs inputs(9, k, 1), other(1, k, 2);
    Rows nearest(32, k, 3), rounded(32, k, 3);
    rounded.round(inputs.rows);
    double before = 0, after = 0, squares_before = 0, squares_after = 0, across = 0,
           across_before = 0;
    for (int64_t r = 0; r < 32; ++r) {
      for (int64_t t = 0; t < inputs.tokens; ++t) {
        before += std::pow(nearest.error_along(r, inputs.row(t)), 2);
        after += std::pow(rounded.error_along(r, inputs.row(t)), 2);
      }
      across_before += std::pow(nearest.error_along(r, other.row(0)), 2);
      across += std::pow(rounded.error_along(r, other.row(0)), 2);
      squares_before += nearest.square_of_errors(r);
      squares_after += rounded.square_of_errors(r);
    }
    EXPECT_LT(after, before * 20 / static_cast<double>(k));
    EXPECT_LT(squares_after, squares_before * (1.02 + 20 / static_cast<double>(k)));
    EXPECT_LT(across, 2 * across_before);
  }
}

// Solves (v + X X^T) s = x for the columns of X from `first` on, by elimination.
std::vector<double> shares(const std::vector<std::vector<double>>& columns, size_t first,
                           double v) {
  const size_t n = columns[0].size();
  std::vector<std::vector<double>> m(n, std::vector<double>(n + 1));
  for (size_t t = 0; t < n; ++t) {
    m[t][t] = v;
    for (size_t i = first; i < columns.size(); ++i)
      for (size_t u = 0; u < n; ++u) m[t][u] += columns[i][t] * columns[i][u];
    m[t][n] = columns[first][t];
  }
  for (size_t t = 0; t < n; ++t)
    for (size_t row = 0; row < n; ++row) {
      if (row == t) continue;
      const double factor = m[row][t] / m[t][t];
      for (size_t u = t; u <= n; ++u) m[row][u] -= factor * m[t][u];
    }
  std::vector<double> s(n);
  for (size_t t = 0; t < n; ++t) s[t] = m[t][n] / m[t][t];
  return s;
}

TEST(CalibratedRounding, IsTheStepOfItsHeader) {
  constexpr int64_t k = 70;
  const Inputs inputs(4, k, 4);
  Rows rows(3, k, 5);
  rows.round(inputs.rows);
  std::vector<std::vector<double>> columns(size_t{k}, std::vector<double>(4));
  double square = 0;
  for (size_t t = 0; t < 4; ++t)
    for (size_t i = 0; i < size_t{k}; ++i) {
      columns[i][t] = double{inputs.rows.scales[t]} * inputs.rows.numbers[t * k + i];
      square += columns[i][t] * columns[i][t];
    }
  for (int64_t r = 0; r < rows.rows; ++r) {
    std::vector<double> errors(4);
    for (size_t i = 0; i < size_t{k}; ++i) {
      const std::vector<double> share = shares(columns, i, 0.3 * square / k);
      double wanted = rows.numbers[Rows::size(r * k) + i];
      for (size_t t = 0; t < 4; ++t) wanted -= share[t] * errors[t];
      // Either of both where a number is half way between them.
      const int whole = rows.whole[Rows::size(r * rows.ld) + i];
      EXPECT_NEAR(whole, std::clamp(wanted, -127.0, 127.0), 0.501) << r << ' ' << i;
      for (size_t t = 0; t < 4; ++t)
        errors[t] += columns[i][t] * rows.error(r, static_cast<int64_t>(i));
    }
  }
}

// Rows beyond the count, and what is behind a row, are not its own.
TEST(CalibratedRounding, WritesItsRowsOnly) {
  Rows rows(32, 128, 6);
  const Rows before = rows;
  const Inputs inputs(3, 128, 7);
  CalibratedRounding(&inputs.rows, 128)
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

// One channel has nearly all of an input, and is rounded first or last:
// others cannot make up for it.
TEST(CalibratedRounding, StaysInRangeWhateverTheInputs) {
  for (const size_t at : {0, 255}) {
    for (const float large : {1.0f, 1e6f, 1e18f}) {
      CalibrationRows inputs{std::vector<int8_t>(512, 1), {1, large}};
      for (size_t i = 256; i < 512; ++i) inputs.numbers[i] = i == 256 + at ? 127 : 0;
      Rows rows(32, 256, 8);
      for (int64_t r = 0; r < 32; ++r)
        rows.rest[Rows::size(r * 256) + at] = r % 2 == 0 ? 0.5f : -0.5f;
      rows.round(inputs);
      for (int64_t r = 0; r < 32; ++r)
        for (int64_t i = 0; i < 256; ++i) EXPECT_GE(rows.whole[Rows::size(r * rows.ld + i)], -127);
    }
  }
}

// Numbers at the end of the range are to make up for what the first one errs, and cannot.
TEST(CalibratedRounding, StopsAtTheEndOfTheRange) {
  constexpr int64_t k = 16;
  CalibrationRows inputs{std::vector<int8_t>(size_t{k}, 5), {1}};
  inputs.numbers[0] = 127;
  std::vector<int8_t> whole(size_t{k}, 127);
  std::vector<float> rest(size_t{k}, 0.0f);
  whole[0] = 100;
  rest[0] = 0.5f;
  const std::vector<int8_t> before = whole;
  CalibratedRounding(&inputs, k).round(table().rows, 1, whole.data(), k, rest.data());
  EXPECT_EQ(whole, before);
}

// More inputs than it goes by change nothing.
TEST(CalibratedRounding, GoesByTheFirstInputs) {
  Inputs many(kCalibrationRows + 3, 96, 9);
  Rows all(4, 96, 10), first(4, 96, 10), fewer(4, 96, 10);
  all.round(many.rows);
  many.rows.scales.resize(size_t{kCalibrationRows});
  first.round(many.rows);
  EXPECT_EQ(all.whole, first.whole);
  many.rows.scales.resize(size_t{kCalibrationRows - 1});
  fewer.round(many.rows);
  EXPECT_NE(all.whole, fewer.whole);
}

TEST(CalibratedRounding, WithoutInputsIsToTheNearest) {
  const auto nearest = [](const CalibrationRows* rows) {
    return CalibratedRounding(rows, 8).nearest();
  };
  CalibrationRows rows;
  EXPECT_TRUE(nearest(nullptr));
  EXPECT_TRUE(nearest(&rows));
  rows = {std::vector<int8_t>(8, 0), {1}};
  EXPECT_TRUE(nearest(&rows));
  rows = {std::vector<int8_t>(8, 1), {std::numeric_limits<float>::infinity()}};
  EXPECT_TRUE(nearest(&rows));
  rows = {std::vector<int8_t>(8, 1), {1e-30f}};
  EXPECT_FALSE(nearest(&rows));
}

}  // namespace
}  // namespace prefix::ops
