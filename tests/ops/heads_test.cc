// What heads read of rows of logits on the CPU, beside what all devices do (head_operations.cc).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "ops/host_logits.h"
#include "ops/op_cpu.h"
#include "ops/row_operations.h"
#include "ops/step.h"

namespace prefix::ops {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class Heads : public ::testing::Test {
 protected:
  std::vector<RowStats> stats(const std::vector<std::vector<float>>& rows,
                              const std::vector<uint8_t>& wants) {
    const auto n = static_cast<int64_t>(rows.front().size());
    std::vector<float> x;
    for (const std::vector<float>& row : rows) x.insert(x.end(), row.begin(), row.end());
    std::vector<RowStats> out(rows.size());
    const std::unique_ptr<Step> step = device_->begin_step({});
    HeadArrays arrays;
    arrays.wants = wants;
    step->begin_heads(arrays);
    step->row_stats({x.data(), n, 0, static_cast<int64_t>(rows.size()), n}, out.data());
    return out;
  }

  std::unique_ptr<Device> device_ =
      make_cpu_device({kBf16Types, "auto", std::make_shared<Threads>(2)});
};

// Wherever it is: among whole vectors of the row or behind them.
TEST_F(Heads, ANanIsInTheSumOfItsRowAlone) {
  std::vector<float> row(37);
  for (size_t i = 0; i < row.size(); ++i) row[i] = -0.37f * static_cast<float>(i * 7 % 37);
  const RowStats clean = stats({row}, {kWantSum}).front();
  EXPECT_GT(clean.sum, 1);
  for (const size_t at : {1u, 20u, 33u, 36u}) {
    std::vector<float> bad = row;
    bad[at] = std::nanf("");
    const std::vector<RowStats> found =
        stats({row, bad, row, bad}, {kWantSum, kWantSum, kWantSum, kWantSum | kWantFirst});
    for (const size_t r : {0u, 2u}) EXPECT_EQ(0, std::memcmp(&found[r], &clean, sizeof clean));
    for (const size_t r : {1u, 3u}) EXPECT_TRUE(std::isnan(found[r].sum)) << "NaN at " << at;
    EXPECT_EQ(found[3].first, -1);
  }
}

// Among few different numbers, so that equals decide; NaN counts as the least.
TEST_F(Heads, CandidatesAreTheFirstOfTheSortedRow) {
  std::mt19937 random(5);
  const float numbers[] = {-kInfinity, -2, -1, 0, 1, 2, 3, kInfinity, std::nanf("")};
  for (int round = 0; round < 200; ++round) {
    const size_t n = 1 + random() % 70, kinds = 1 + random() % std::size(numbers);
    std::vector<float> x(n);
    std::vector<Candidate> all;
    for (size_t i = 0; i < n; ++i) {
      x[i] = round % 4 == 0 ? static_cast<float>(i) : numbers[random() % kinds];
      all.push_back({static_cast<int32_t>(i), std::isnan(x[i]) ? -kInfinity : x[i]});
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const Candidate& a, const Candidate& b) { return a.logit > b.logit; });
    const auto k = static_cast<int32_t>(1 + random() % n);
    const std::vector<int32_t> rows = {1, 0, 4};  // the last is in another block
    std::vector<Candidate> out(rows.size() * static_cast<size_t>(k), {-7, 0});
    std::vector<float> logits(2 * n);
    std::copy(x.begin(), x.end(), logits.begin() + static_cast<ptrdiff_t>(n));
    const std::unique_ptr<Step> step = device_->begin_step({});
    HeadArrays arrays;
    arrays.candidate_rows = rows;
    arrays.candidates = k;
    step->begin_heads(arrays);
    const auto width = static_cast<int64_t>(n);
    step->top_candidates({logits.data(), width, 0, 2, width}, out.data());
    for (int32_t i = 0; i < k; ++i) {
      const auto at = static_cast<size_t>(i);
      ASSERT_EQ(out[at].id, all[at].id) << "round " << round << " of " << n << ", place " << i;
      ASSERT_EQ(out[at].logit, all[at].logit);
      ASSERT_EQ(out[at + static_cast<size_t>(k)].id, i);
      ASSERT_EQ(out[at + 2 * static_cast<size_t>(k)].id, -7);
    }
    std::vector<Candidate> more;
    top_candidates(x, n + 3, more);
    ASSERT_EQ(more.size(), n);
    for (size_t i = 0; i < n; ++i) ASSERT_EQ(more[i].id, all[i].id);
  }
}

}  // namespace

namespace testing {

INSTANTIATE_TEST_SUITE_P(Levels, RowOps, ::testing::ValuesIn(levels({DType::kBf16})), device_name);

}  // namespace testing
}  // namespace prefix::ops
