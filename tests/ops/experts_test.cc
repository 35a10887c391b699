// Routed experts: the choice against a sort, the block against float64, and bits that depend on
// neither the other rows nor the threads.
#include "ops/experts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "base/status.h"
#include "ops/attention_reference.h"  // packing, poisoned buffers
#include "support/dtype.h"

namespace prefix::ops::testing {
namespace {

using Param = std::tuple<std::string, DType>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

class Experts : public ::testing::TestWithParam<Param> {
 protected:
  void SetUp() override {
    const auto& [isa, type] = GetParam();
    for (const IsaLevel& level : cpu_isa_levels())
      if (level.name == isa && !level.available) GTEST_SKIP() << isa << ": " << level.reason;
    device_ = make_cpu_device({types_of(type), isa, std::make_shared<Threads>(2)});
  }
  std::vector<float> random(int64_t n, float size = 1) {
    std::vector<float> v(static_cast<size_t>(n));
    for (float& x : v) x = std::uniform_real_distribution<float>(-size, size)(rng_);
    return v;
  }
  ExpertSlots route(const std::vector<float>& scores, int32_t experts, int32_t per_row,
                    bool normalized) {
    const Device::RouteArgs args{scores.data(), experts, experts, per_row, normalized};
    ExpertSlots slots;
    device_->route(args, static_cast<int64_t>(scores.size()) / experts, slots);
    return slots;
  }

  Rng rng_{5};
  std::unique_ptr<Device> device_;
};

std::string level_name(const ::testing::TestParamInfo<Param>& param) {
  const auto& [isa, type] = param.param;
  return isa + (type == DType::kF32 ? "_f32" : "_bf16");
}

INSTANTIATE_TEST_SUITE_P(Levels, Experts,
                         ::testing::Combine(::testing::Values("scalar", "neon", "avx2", "avx512",
                                                              "avx512_bf16", "amx"),
                                            ::testing::Values(DType::kBf16, DType::kF32)),
                         level_name);

// The expert of a slot.
int32_t expert_of(const ExpertSlots& slots, int32_t slot) {
  const auto after = std::upper_bound(slots.begin.begin(), slots.begin.end(), slot);
  return static_cast<int32_t>(after - slots.begin.begin()) - 1;
}

TEST_P(Experts, TheHighestScoresAreChosenOfEqualOnesTheFirst) {
  for (int round = 0; round < 50; ++round) {
    const int32_t experts = 1 + static_cast<int32_t>(rng_() % 40);
    const int32_t per_row = 1 + static_cast<int32_t>(rng_() % static_cast<uint32_t>(experts));
    const int64_t rows = 1 + static_cast<int64_t>(rng_() % 20);
    std::vector<float> scores = random(rows * experts, 4);
    for (float& s : scores) s = std::round(s);  // many are equal
    const bool normalized = rng_() % 2 == 0;
    const ExpertSlots slots = route(scores, experts, per_row, normalized);
    ASSERT_EQ(slots.count(), rows * per_row);
    ASSERT_EQ(slots.experts(), experts);
    ASSERT_EQ(slots.begin.front(), 0);
    ASSERT_EQ(slots.begin.back(), slots.count());
    for (int64_t row = 0; row < rows; ++row) {
      const float* const of_row = scores.data() + row * experts;
      std::vector<int32_t> order(static_cast<size_t>(experts));
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(),
                       [&](int32_t a, int32_t b) { return of_row[a] > of_row[b]; });
      double all = 0, best = 0;
      for (int32_t i = 0; i < experts; ++i) {
        const double power = std::exp(of_row[order[static_cast<size_t>(i)]] - of_row[order[0]]);
        all += power;
        if (i < per_row) best += power;
      }
      std::sort(order.begin(), order.begin() + per_row);
      for (int32_t i = 0; i < per_row; ++i) {
        const auto at = static_cast<size_t>(row * per_row + i);
        const int32_t slot = slots.of_rows[at], expert = order[static_cast<size_t>(i)];
        EXPECT_EQ(expert_of(slots, slot), expert);
        EXPECT_EQ(slots.row[static_cast<size_t>(slot)], row);
        const double power = std::exp(of_row[expert] - *std::max_element(of_row, of_row + experts));
        EXPECT_NEAR(slots.weights[at], power / (normalized ? best : all), 1e-6);
      }
    }
    // The slots of an expert are in the order of their rows.
    for (int32_t e = 0; e < experts; ++e)
      EXPECT_TRUE(std::is_sorted(slots.row.begin() + slots.begin[static_cast<size_t>(e)],
                                 slots.row.begin() + slots.begin[static_cast<size_t>(e) + 1]));
  }
}

TEST_P(Experts, ScoresThatAreNotFiniteSpoilTheirOwnRowOnly) {
  const std::vector<float> scores = {1,    kNan,      3,    2,     // a NaN is chosen last
                                     kNan, kNan,      kNan, kNan,  //
                                     1,    kInfinity, 0,    2,     //
                                     1,    2,         3,    4};
  const ExpertSlots slots = route(scores, 4, 2, true);
  const auto experts_of = [&](size_t row) {
    return std::pair(expert_of(slots, slots.of_rows[2 * row]),
                     expert_of(slots, slots.of_rows[2 * row + 1]));
  };
  EXPECT_EQ(experts_of(0), std::pair(2, 3));
  EXPECT_EQ(experts_of(1), std::pair(0, 1));
  EXPECT_EQ(experts_of(2), std::pair(1, 3));
  EXPECT_EQ(experts_of(3), std::pair(2, 3));
  EXPECT_TRUE(std::isnan(slots.weights[2]) && std::isnan(slots.weights[3]));
  EXPECT_TRUE(std::isfinite(slots.weights[6]) && std::isfinite(slots.weights[7]));
}

// To what a device with such weights multiplies.
std::vector<float> rounded(std::vector<float> values, DType type) {
  if (type == DType::kBf16)
    for (float& v : values) v = f32_from_bf16(bf16_from_f32(v));
  return values;
}

// Experts with random weights.
struct Block {
  std::vector<std::vector<float>> gate, up, down, gate_bias, up_bias, down_bias;
  std::vector<ExpertWeights> weights;
};

TEST_P(Experts, ABlockIsTheWeightedSumOfItsExpertsWhateverTheRowsAround) {
  constexpr int32_t kExperts = 7, kPerRow = 3;
  constexpr int64_t kHidden = 75, kInner = 45, kRows = 60;
  const bool biased = std::get<1>(GetParam()) == DType::kF32;
  Block block;
  const DType stored = std::get<1>(GetParam());
  for (int e = 0; e < kExperts; ++e) {
    block.gate.push_back(rounded(random(kInner * kHidden, 0.2f), stored));
    block.up.push_back(rounded(random(kInner * kHidden, 0.2f), stored));
    block.down.push_back(rounded(random(kHidden * kInner, 0.2f), stored));
    block.gate_bias.push_back(random(kInner));
    block.up_bias.push_back(random(kInner));
    block.down_bias.push_back(random(kHidden));
  }
  for (size_t e = 0; e < kExperts; ++e) {
    ExpertWeights w;
    w.gate_up =
        device_->pack_gated(device_->types().weights, kInner, kHidden,
                            FloatRows(block.gate[e], kHidden), FloatRows(block.up[e], kHidden));
    w.down =
        device_->pack(device_->types().weights, kHidden, kInner, FloatRows(block.down[e], kInner));
    if (biased) {
      w.gate_bias = block.gate_bias[e].data();
      w.up_bias = block.up_bias[e].data();
      w.down_bias = block.down_bias[e].data();
    }
    block.weights.push_back(w);
  }
  const std::vector<float> x = rounded(random(kRows * kHidden), stored);
  const std::vector<float> scores = random(kRows * kExperts, 2);
  const std::vector<float> before = random(kRows * kHidden);

  // Rows [first, first + rows) on their own.
  const auto compute = [&](int64_t first, int64_t rows) {
    const ExpertSlots slots =
        route({scores.begin() + first * kExperts, scores.begin() + (first + rows) * kExperts},
              kExperts, kPerRow, true);
    const int64_t in_ld = device_->act_ld(kHidden), inner_ld = device_->act_ld(kInner);
    Buffer in(*device_, static_cast<size_t>(rows * in_ld) * device_->act_bytes());
    Buffer gathered(*device_, static_cast<size_t>(rows * kPerRow * in_ld) * device_->act_bytes());
    Buffer inner(*device_, static_cast<size_t>(rows * kPerRow * inner_ld) * device_->act_bytes());
    device_->convert(x.data() + first * kHidden, kHidden, rows, kHidden, {in.data(), in_ld});
    std::vector<float> results(static_cast<size_t>(rows * kPerRow * kHidden), kNan);
    std::vector<float> out(before.begin() + first * kHidden,
                           before.begin() + (first + rows) * kHidden);
    Device::ExpertsArgs args;
    args.experts = block.weights;
    args.hidden = kHidden;
    args.intermediate = kInner;
    if (biased) args.fn = ActivationFn::kClampedSwiglu;
    args.x = {in.data(), in_ld};
    args.gathered = {gathered.data(), in_ld};
    args.inner = {inner.data(), inner_ld};
    args.results = results.data();
    args.ld_results = kHidden;
    args.out = out.data();
    args.ld_out = kHidden;
    device_->experts(args, slots);
    return out;
  };
  const std::vector<float> together = compute(0, kRows);
  for (int64_t row = 0; row < kRows; ++row) {
    const std::vector<float> alone = compute(row, 1);
    ASSERT_EQ(0,
              std::memcmp(alone.data(), together.data() + row * kHidden, kHidden * sizeof(float)))
        << "row " << row;
  }

  const ExpertSlots slots = route(scores, kExperts, kPerRow, true);
  for (int64_t row = 0; row < kRows; ++row) {
    std::vector<double> expected(before.begin() + row * kHidden,
                                 before.begin() + (row + 1) * kHidden);
    for (int64_t i = row * kPerRow; i < (row + 1) * kPerRow; ++i) {
      const auto e = static_cast<size_t>(expert_of(slots, slots.of_rows[static_cast<size_t>(i)]));
      const auto dot = [&](const std::vector<float>& w, int64_t n) {
        double sum = 0;
        for (int64_t k = 0; k < kHidden; ++k)
          sum += double{w[n * kHidden + k]} * x[row * kHidden + k];
        return sum;
      };
      std::vector<double> inner(kInner);
      for (int64_t n = 0; n < kInner; ++n) {
        const double gate = dot(block.gate[e], n) + (biased ? block.gate_bias[e][n] : 0);
        const double up = dot(block.up[e], n) + (biased ? block.up_bias[e][n] : 0);
        inner[n] = biased ? (up + 1) * gate / (1 + std::exp(-1.702 * gate))
                          : gate / (1 + std::exp(-gate)) * up;
      }
      for (int64_t n = 0; n < kHidden; ++n) {
        double sum = biased ? block.down_bias[e][n] : 0;
        for (int64_t k = 0; k < kInner; ++k) sum += block.down[e][n * kInner + k] * inner[k];
        expected[n] += slots.weights[static_cast<size_t>(i)] * sum;
      }
    }
    const double tolerance = stored == DType::kF32 ? 1e-5 : 2e-2;
    for (int64_t n = 0; n < kHidden; ++n)
      ASSERT_NEAR(together[row * kHidden + n], expected[n], tolerance) << row << ", " << n;
  }
  for (const ExpertWeights& w : block.weights)
    for (const PackedWeights* m : {&w.gate_up, &w.down})
      device_->release(const_cast<std::byte*>(m->data), m->bytes());
}

}  // namespace
}  // namespace prefix::ops::testing
