// The softmax of int8 keys and values, row by row, at every level: what masked keys weigh, the
// scales of weights, and scores of any size.
#include <gtest/gtest.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "ops/level_tables.h"

namespace prefix::ops::testing {
namespace {

// One row over a block of 256 keys; the scales of these are all one.
struct SoftmaxOfOneRow {
  void run(const LevelTable& level) {
    const std::vector<const float*> scales(8, ones.data());
    const std::vector<const float*> their_value_scales(8, value_scales.data());
    const int32_t correction = 0;
    const float q_scale = 0.01f;
    WholeSoftmaxArgs args;
    args.rows.s = s.data();
    args.rows.lds = 288;
    args.rows.first = &first;
    args.rows.last = &last;
    args.rows.scale = 1;
    args.rows.m = &m;
    args.rows.l = &l;
    args.rows.o = o.data();
    args.rows.ldo = args.rows.d = 32;
    args.rows.rows = 1;
    args.corrections = &correction;
    args.q_scales = &q_scale;
    args.key_scales = scales.data();
    args.value_scales = their_value_scales.data();
    args.p = p.data();
    args.ldp = 272;
    args.p_scales = p_scales.data();
    level.kernels.attention.softmax_int8(args);
  }

  int32_t first, last;  // the keys that it sees
  std::vector<float> s = std::vector<float>(288, 0.0f), p_scales = std::vector<float>(2, 7.0f);
  std::vector<float> ones = std::vector<float>(32, 1.0f), value_scales = ones;
  std::vector<uint8_t> p = std::vector<uint8_t>(272, 9);
  float m = -INFINITY, l = 0;
  std::vector<float> o = std::vector<float>(32, 0.0f);
};

// Of keys that a row does not see, the first and the last page in part, others whole.
TEST(WholeSoftmax, UnseenPagesAndKeysWeighNothing) {
  for (const LevelTable& level : level_tables()) {
    for (int32_t first = 0; first < 256; first += 7) {
      for (int32_t last = first - 1; last < 256; last += 9) {
        SoftmaxOfOneRow row{first, last};
        row.run(level);
        ASSERT_EQ(row.l, static_cast<float>(last - first + 1)) << level.name;
        for (int i = 0; i < 256; ++i)
          ASSERT_EQ(row.p[static_cast<size_t>(i)], i < first || i > last ? 0 : 255)
              << level.name << ' ' << i << " of " << first << " to " << last;
        for (int span = 0; span < 2; ++span)
          ASSERT_EQ(row.p_scales[static_cast<size_t>(span)] == 0,
                    last < first || span < first / 128 || span > last / 128);
      }
    }
  }
}

// What the first keys of a row have made of it stays right when later ones
// weigh any number of times as much.
TEST(WholeSoftmax, LaterScoresMayBeFarAboveTheFirstOnes) {
  for (const LevelTable& level : level_tables()) {
    for (const int32_t above : {0, 20, 31, 33, 126, 130, 1000, 10000}) {
      SoftmaxOfOneRow row{0, 255};
      row.run(level);
      row.o.assign(32, 3.0f);
      const auto power = [&](int32_t i) { return i % 5 == 2 ? above : above - 1 - i % 7; };
      double sum = 0;
      for (int32_t i = 0; i < 256; ++i) {
        const int32_t score = 100 * power(i);
        std::memcpy(&row.s[static_cast<size_t>(i)], &score, 4);
        sum += std::exp2(power(i) - above);
      }
      row.run(level);
      const double unit = std::exp2(row.m - above);  // m is what they are counted from
      EXPECT_NEAR(row.l * unit, sum + 256 * std::exp2(-above), 0.001 * sum);
      EXPECT_NEAR(row.o[7] * unit, 3 * std::exp2(-above), 1e-5) << level.name << ' ' << above;
      for (int32_t i = 0; i < 256; ++i) {
        const size_t at = static_cast<size_t>(i), span = at / 128;
        EXPECT_NEAR(row.p[at] * double{row.p_scales[span]} * unit, std::exp2(power(i) - above),
                    0.503 / 255)
            << level.name << ' ' << above << ", key " << i;
      }
    }
  }
}

// The rounding of such scores alone is a factor of any size. A row with one key has its value or is
// not finite, and never looks as if it saw none.
template <typename Run>
void expect_weight_or_nan(const Run& run) {
  for (int i = 0; i < 200; ++i) {
    const float score = -std::ldexp(1.0f + static_cast<float>(i) * 0x1.357p-9f, i % 40);
    const auto [l, weight] = run(score);
    if (std::isnan(l)) {
      EXPECT_LT(score, -0x1p24f);
    } else {
      EXPECT_NEAR(weight / l, 1, 0.005) << score << ", l " << l;
    }
  }
}

TEST(WholeSoftmax, ARowWithAnyScoreHasWeightsOrIsNotFinite) {
  for (const LevelTable& level : level_tables()) {
    SCOPED_TRACE(level.name);
    expect_weight_or_nan([&](float score) {
      SoftmaxOfOneRow row{40, 40};
      const int32_t sum = -12345;
      std::memcpy(&row.s[40], &sum, sizeof sum);
      row.ones.assign(32, score / (0.01f * static_cast<float>(sum)));
      row.run(level);
      return std::pair(row.l, row.p[40] * row.p_scales[0]);
    });
  }
}

TEST(Softmax, ARowWithAnyScoreHasWeightsOrIsNotFinite) {
  for (const Isa isa :
       {Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16, Isa::kAmx, Isa::kNeon}) {
    if (!isa_obstacle(isa, detect_cpu_features()).empty()) continue;
    SCOPED_TRACE(isa_name(isa));
    expect_weight_or_nan([&](float score) {
      const int32_t key = 40;
      std::vector<float> s(272, score), p(256), o(32);
      float m = -INFINITY, l = 0;
      SoftmaxArgs args;
      args.s = s.data();
      args.lds = 272;
      args.p = p.data();
      args.ldp = 256;
      args.first = args.last = &key;
      args.scale = 1.1f;
      args.m = &m;
      args.l = &l;
      args.o = o.data();
      args.ldo = args.d = 32;
      args.rows = 1;
      kernel_table(isa).attention.softmax_f32(args);
      return std::pair(l, p[40]);
    });
  }
}

// The largest rounding of weights to bytes is half a unit of the scale of their four pages.
TEST(WholeSoftmax, WeightsOfFourPagesHaveAScaleOfTheirOwn) {
  for (const LevelTable& level : level_tables()) {
    SoftmaxOfOneRow row{0, 224};
    const auto power = [](int32_t i) { return i == 3 ? 0 : i < 128 ? -1 - i / 32 : -20 - i % 3; };
    for (int32_t i = 0; i < 256; ++i) {
      const int32_t sum = 100 * power(i);
      std::memcpy(&row.s[static_cast<size_t>(i)], &sum, 4);
    }
    row.run(level);
    double sum = 0;
    for (int i = 0; i < 256; ++i) {
      const double weight = i > 224 ? 0 : std::exp2(power(i));
      sum += weight;
      const double unit = std::exp2(i < 128 ? 0 : -20) / 255;
      EXPECT_NEAR(
          row.p[static_cast<size_t>(i)] * double{row.p_scales[static_cast<size_t>(i / 128)]},
          weight, 0.501 * unit)
          << level.name << ' ' << i;
    }
    EXPECT_NEAR(row.l, sum, 1e-4);
  }
}

#if defined(__SSE__)
// Each number below the normal ones costs an Intel processor more than 100 cycles,
// and every row has keys that it does not see.
TEST(WholeSoftmax, NothingIsBelowTheNormalNumbers) {
  constexpr unsigned kDenormalOrUnderflow = 0x12;  // flags of MXCSR
  for (const LevelTable& level : level_tables()) {
    for (const int32_t below : {0, 30, 90, 110, 124, 126, 140, 10000}) {
      SoftmaxOfOneRow row{40, 200};
      row.value_scales.assign(32, 0x1p-12f);
      for (int32_t i = 0; i < 256; ++i) {
        const int32_t sum = -100 * (i % 3 == 0 ? below : 0);
        std::memcpy(&row.s[static_cast<size_t>(i)], &sum, 4);
      }
      _mm_setcsr(_mm_getcsr() & ~0x3fu);
      row.run(level);
      EXPECT_EQ(_mm_getcsr() & kDenormalOrUnderflow, 0u) << level.name << ' ' << below;
    }
  }
}
#endif

}  // namespace
}  // namespace prefix::ops::testing
