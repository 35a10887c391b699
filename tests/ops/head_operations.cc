// What heads read of rows of logits, of each device against float64 and a sort.
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "ops/host_logits.h"
#include "ops/row_operations.h"
#include "ops/step.h"

namespace prefix::ops::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::vector<float> random_row(int64_t n, Rng& rng) {
  std::vector<float> row(static_cast<size_t>(n));
  for (float& x : row) x = std::normal_distribution<float>(0, 4)(rng);
  return row;
}
// Rows of values that repeat, far apart too.
std::vector<float> coarse_row(int64_t n, int values, Rng& rng) {
  std::vector<float> row(static_cast<size_t>(n));
  for (float& x : row) x = static_cast<float>(static_cast<int>(rng() % values) - values / 2);
  return row;
}

// Rows on the device, with NaN behind each of them.
class Rows {
 public:
  Rows(Device& device, const std::vector<std::vector<float>>& rows, int64_t first = 0)
      : n_(static_cast<int64_t>(rows[0].size())),
        ld_((n_ + 31) / 32 * 32 + 32),
        memory_(device, laid_out(rows)) {
    block_ = {memory_.floats(), ld_, first, static_cast<int64_t>(rows.size()), n_};
  }
  const LogitBlock& block() const { return block_; }

 private:
  std::vector<float> laid_out(const std::vector<std::vector<float>>& rows) const {
    std::vector<float> all(rows.size() * static_cast<size_t>(ld_), kNaN);
    for (size_t r = 0; r < rows.size(); ++r)
      std::copy(rows[r].begin(), rows[r].end(), all.begin() + r * ld_);
    return all;
  }
  int64_t n_, ld_;
  DeviceArray memory_;
  LogitBlock block_;
};

template <typename T>
std::vector<T> answers(const DeviceArray& memory) {
  const std::vector<std::byte> bytes = memory.bytes();
  std::vector<T> out(bytes.size() / sizeof(T));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

std::vector<RowStats> stats_of(Device& device, const std::vector<std::vector<float>>& rows) {
  const Rows x(device, rows);
  const DeviceArray out(device, rows.size() * sizeof(RowStats));
  const std::vector<uint8_t> wants(rows.size(), kWantFirst | kWantSum);
  const std::unique_ptr<ops::Step> step = device.begin_step({});
  step->begin_heads({.wants = wants});
  step->row_stats(x.block(), reinterpret_cast<RowStats*>(out.data()));
  step->end();
  return answers<RowStats>(out);
}

void expect_stats(const RowStats& got, const std::vector<float>& row, const std::string& what) {
  float top = -kInfinity;
  bool nan = false;
  for (const float x : row) {
    nan |= std::isnan(x);
    if (x > top) top = x;
  }
  EXPECT_EQ(got.top, top) << what;
  EXPECT_EQ(got.first, nan ? -1 : std::find(row.begin(), row.end(), top) - row.begin()) << what;
  if (!std::isfinite(top)) {
    EXPECT_EQ(got.sum, 0) << what;
    EXPECT_EQ(log_sum_exp(got), top) << what;
  } else if (nan) {
    EXPECT_TRUE(std::isnan(log_sum_exp(got))) << what;
  } else {
    double sum = 0;
    for (const float x : row) sum += std::exp(static_cast<double>(x) - top);
    EXPECT_NEAR(got.sum, sum, 1e-6 * sum) << what;
    EXPECT_NEAR(log_sum_exp(got), top + std::log(sum), 1e-6) << what;
  }
}

}  // namespace

TEST_P(RowOps, StatisticsAgainstFloat64) {
  for (const int64_t n : {1, 2, 3, 31, 64, 511, 512, 513, 1041, 8192, 8193, 20000, 151936}) {
    const auto size = static_cast<size_t>(n);
    std::vector<std::vector<float>> rows = {
        random_row(n, rng_), coarse_row(n, 3, rng_),  // the largest value many times
        std::vector<float>(size, -7.5f), std::vector<float>(size, -kInfinity),
        std::vector<float>(size, kNaN)};
    for (const float value : {kInfinity, kNaN, -kInfinity, 1e30f, -1e30f, 88.0f}) {
      rows.push_back(random_row(n, rng_));
      rows.back()[rng_() % size] = value;
    }
    for (const float one : {-3.0f, kNaN}) {  // of all tokens
      rows.push_back(std::vector<float>(size, -kInfinity));
      rows.back()[rng_() % size] = one;
    }
    rows.push_back(std::vector<float>(size, -0.0f));  // zeros are equal
    rows.back()[size - 1] = 0.0f;
    const std::vector<RowStats> got = stats_of(*device_, rows);
    for (size_t r = 0; r < rows.size(); ++r)
      expect_stats(got[r], rows[r], cat("n ", n, " row ", r));
  }
}

// Also in another block of threads and at another address.
TEST_P(RowOps, ARowHasTheSameBitsInAnyCompany) {
  const int64_t n = 5000;
  std::vector<std::vector<float>> rows = {random_row(n, rng_)};
  for (int i = 1; i < 300; ++i) rows.push_back(i % 29 == 0 ? rows[0] : random_row(n, rng_));
  const RowStats alone = stats_of(*device_, {rows[0]})[0];
  const std::vector<RowStats> together = stats_of(*device_, rows);
  for (size_t r = 0; r < rows.size(); r += 29)
    EXPECT_EQ(std::memcmp(&together[r], &alone, sizeof alone), 0) << r;
}

TEST_P(RowOps, SingleLogitsOfTheBlockOnly) {
  const int64_t n = 700;
  std::vector<std::vector<float>> rows;
  for (int i = 0; i < 5; ++i) rows.push_back(random_row(n, rng_));
  const Rows x(*device_, rows, 10);  // rows 10 .. 14 of the selection
  std::vector<LogitAt> targets;
  for (int i = 0; i < 500; ++i)
    targets.push_back(
        {static_cast<int32_t>(8 + rng_() % 9), static_cast<int32_t>(rng_() % static_cast<int>(n))});
  targets.push_back({14, 699});
  const std::vector<float> before(targets.size(), 99);
  const DeviceArray out(*device_, before);
  const std::unique_ptr<ops::Step> step = device_->begin_step({});
  step->begin_heads({.targets = targets});
  step->gather_logits(x.block(), out.floats());
  step->end();
  const auto got = answers<float>(out);
  for (size_t i = 0; i < targets.size(); ++i) {
    const int32_t row = targets[i].row - 10;
    EXPECT_EQ(got[i], row < 0 || row >= 5 ? 99 : rows[row][targets[i].id]) << i;
  }
}

TEST_P(RowOps, MostLikelyTokensInOrder) {
  for (const int64_t n : {1, 2, 31, 131, 256, 257, 513, 700, 8193, 40000, 151936}) {
    const auto size = static_cast<size_t>(n);
    std::vector<std::vector<float>> rows = {
        random_row(n, rng_), coarse_row(n, 5, rng_),  // hundreds are equal at the cut
        std::vector<float>(size, 1.5f), coarse_row(n, 2, rng_)};
    for (float& v : rows.back()) v *= 0.0f;  // zeros of both signs
    rows.push_back(random_row(n, rng_));
    for (size_t i = 0; i < size; i += 3) rows.back()[i] = -kInfinity;
    rows.back()[size / 2] = kInfinity;
    rows.push_back(random_row(n, rng_));  // all of them in one part
    for (size_t i = 0; i < std::min<size_t>(size, 300); ++i) rows.back()[size - 1 - i] += 50;
    const Rows x(*device_, rows, 3);
    const std::vector<int32_t> listed = {3, 5, 2, 4, 6, 7, 8, 9};  // 2 and 9 are elsewhere
    for (const int32_t k : {1, 2, 20, 50, 255, 256}) {
      if (k > n || (n > 20000 && k != 50 && k != 256)) continue;
      const std::vector<Candidate> before(listed.size() * static_cast<size_t>(k), {-5, 0});
      const DeviceArray out(*device_, before);
      const std::unique_ptr<ops::Step> step = device_->begin_step({});
      step->begin_heads({.candidate_rows = listed, .candidates = k});
      step->top_candidates(x.block(), reinterpret_cast<Candidate*>(out.data()));
      step->end();
      const auto got = answers<Candidate>(out);
      for (size_t i = 0; i < listed.size(); ++i) {
        const Candidate* const mine = &got[i * static_cast<size_t>(k)];
        if (!x.block().has(listed[i])) {
          EXPECT_EQ(mine[0].id, -5);
          continue;
        }
        const std::vector<float>& row = rows[listed[i] - 3];
        std::vector<int32_t> order(size);
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(),
                         [&](int32_t a, int32_t b) { return row[a] > row[b]; });
        for (int32_t j = 0; j < k; ++j) {
          ASSERT_EQ(mine[j].id, order[j]) << cat("n ", n, " k ", k, " row ", i, " place ", j);
          ASSERT_EQ(mine[j].logit, row[order[j]]) << cat("n ", n, " k ", k, " row ", i);
        }
      }
    }
  }
}

}  // namespace prefix::ops::testing
