// The matrix kernels and the GEMM driver: right against float64, the same bits however the work is
// cut, for every level of the machine and both data types.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ops/cpu/pack.h"
#include "ops/op_cpu.h"
#include "ops/step.h"
#include "support/dtype.h"

namespace prefix::ops {
namespace {

using Param = std::tuple<std::string, DType>;

class GemmTest : public testing::TestWithParam<Param> {
 protected:
  void SetUp() override {
    const auto& [isa, dtype] = GetParam();
    for (const IsaLevel& level : cpu_isa_levels()) {
      if (level.name == isa && !level.available) GTEST_SKIP() << isa << ": " << level.reason;
    }
    device_ = make_device(2);
  }

  static std::unique_ptr<CpuDevice> make_device(int threads) {
    CpuOptions options;
    options.isa = std::get<0>(GetParam());
    options.types = types_of(std::get<1>(GetParam()));
    options.threads = std::make_shared<Threads>(threads);
    return std::make_unique<CpuDevice>(options);
  }

  float random() { return std::uniform_real_distribution<float>(-1, 1)(random_); }
  int64_t random_in(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  std::vector<float> random_floats(int64_t count) {
    std::vector<float> v(static_cast<size_t>(count));
    for (float& x : v) x = random();
    return v;
  }

  std::mt19937 random_{7};
  std::unique_ptr<CpuDevice> device_;
};

// A weight matrix with its f32 source.
struct Weights {
  CpuDevice* device;
  std::vector<float> rows;
  PackedWeights matrix;

  Weights(CpuDevice& d, std::vector<float> w, int64_t n, int64_t k)
      : device(&d), rows(std::move(w)) {
    matrix = d.pack(d.types().weights, n, k, FloatRows(rows, k));
  }
  Weights(const Weights&) = delete;
  Weights& operator=(const Weights&) = delete;
  ~Weights() { device->release(const_cast<std::byte*>(matrix.data), matrix.bytes()); }
  // What the device multiplies by.
  double at(int64_t row, int64_t i) const {
    const float x = rows[static_cast<size_t>(row * matrix.k + i)];
    return matrix.format == WeightFormat::kBf16 ? f32_from_bf16(bf16_from_f32(x)) : x;
  }
};

// An activation buffer whose padding holds NaN, so that any use of it shows.
struct Activations {
  std::vector<std::byte> bytes;
  ActivationBuffer act;
  bool bf16;

  Activations(const CpuDevice& device, int64_t rows, int64_t columns)
      : bf16(device.act_bytes() == 2) {
    act.ld = device.act_ld(columns);
    bytes.assign(static_cast<size_t>(rows * act.ld) * device.act_bytes() + 64, std::byte{0xff});
    const auto address = reinterpret_cast<uintptr_t>(bytes.data());
    act.data = bytes.data() + (64 - address % 64) % 64;
  }
  Activations(const Activations&) = delete;
  Activations& operator=(const Activations&) = delete;

  void set(int64_t row, int64_t i, float x) {
    if (bf16) {
      reinterpret_cast<uint16_t*>(act.data)[row * act.ld + i] = bf16_from_f32(x);
    } else {
      reinterpret_cast<float*>(act.data)[row * act.ld + i] = x;
    }
  }
  float at(int64_t row, int64_t i) const {
    return bf16 ? f32_from_bf16(reinterpret_cast<const uint16_t*>(act.data)[row * act.ld + i])
                : reinterpret_cast<const float*>(act.data)[row * act.ld + i];
  }
  void fill(const std::vector<float>& values, int64_t rows, int64_t columns) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < columns; ++i) set(r, i, values[static_cast<size_t>(r * columns + i)]);
    }
  }
  ActivationBuffer from_row(int64_t row) const {
    return {act.data + static_cast<size_t>(row * act.ld) * (bf16 ? 2 : 4), act.ld};
  }
};

struct Shape {
  int64_t m, n, k;
};

TEST(Bf16, RoundsToNearestEvenAndKeepsNaN) {
  const auto bf16 = [](uint32_t bits) { return bf16_from_f32(std::bit_cast<float>(bits)); };
  EXPECT_EQ(bf16(0x3f807fff), 0x3f80);
  EXPECT_EQ(bf16(0x3f808000), 0x3f80);  // in the middle: to the even one
  EXPECT_EQ(bf16(0x3f818000), 0x3f82);
  EXPECT_EQ(bf16(0x3f808001), 0x3f81);
  EXPECT_EQ(bf16(0xbf808001), 0xbf81);
  EXPECT_EQ(bf16(0x7f7fffff), 0x7f80);  // the largest number becomes infinite
  EXPECT_EQ(bf16(0xff800000), 0xff80);
  for (const uint32_t nan : {0x7f800001u, 0x7fffffffu, 0xffc00000u})
    EXPECT_TRUE(std::isnan(f32_from_bf16(bf16(nan)))) << nan;
}

// A row and a column alone, in any company, on one or two threads: the same bits.
TEST_P(GemmTest, BitsDoNotDependOnCompany) {
  const std::unique_ptr<CpuDevice> alone = make_device(1);
  for (int round = 0; round < 12; ++round) {
    const Shape s{random_in(1, 120), random_in(1, 400), random_in(1, round == 0 ? 6000 : 700)};
    SCOPED_TRACE(testing::Message() << "m " << s.m << " n " << s.n << " k " << s.k);
    Weights w(*device_, random_floats(s.n * s.k), s.n, s.k);
    Activations x(*device_, s.m, s.k);
    x.fill(random_floats(s.m * s.k), s.m, s.k);
    const std::vector<float> bias = random_floats(s.n);
    std::vector<float> all(static_cast<size_t>(s.m * s.n));
    device_->linear(w.matrix, bias.data(), x.act, s.m, all.data(), s.n, false);
    for (int part = 0; part < 20; ++part) {
      const int64_t first = random_in(0, s.m - 1);
      const int64_t rows = random_in(1, s.m - first);
      std::vector<float> some(static_cast<size_t>(rows * s.n));
      (part % 2 == 0 ? *alone : *device_)
          .linear(w.matrix, bias.data(), x.from_row(first), rows, some.data(), s.n, false);
      ASSERT_EQ(std::memcmp(some.data(), all.data() + first * s.n, some.size() * sizeof(float)), 0)
          << "rows " << first << " + " << rows;
      // One panel alone, in which a column may stand elsewhere in the tile.
      const int64_t column = random_in(0, s.n - 1) / 32 * 32;
      const PackedWeights panel = w.matrix.panel_of(column);
      std::vector<float> narrow(static_cast<size_t>(rows * panel.n));
      alone->linear(panel, bias.data() + column, x.from_row(first), rows, narrow.data(), panel.n,
                    false);
      for (int64_t r = 0; r < rows; ++r) {
        ASSERT_EQ(std::memcmp(narrow.data() + r * panel.n, some.data() + r * s.n + column,
                              static_cast<size_t>(panel.n) * sizeof(float)),
                  0)
            << "panel at " << column;
      }
    }
  }
}

TEST_P(GemmTest, GatedBitsDoNotDependOnCompany) {
  const Shape s{70, 100, 96};
  const FloatRows rows(random_floats(s.n * s.k), s.k);
  const PackedWeights both = device_->pack_gated(device_->types().weights, s.n, s.k, rows, rows);
  Activations x(*device_, s.m, s.k);
  x.fill(random_floats(s.m * s.k), s.m, s.k);
  Activations all(*device_, s.m, s.n);
  device_->linear_gated(both, s.n, nullptr, nullptr, ActivationFn::kSilu, x.act, s.m, all.act);
  for (int64_t r = 0; r < s.m; ++r) {
    Activations one(*device_, 1, s.n);
    device_->linear_gated(both, s.n, nullptr, nullptr, ActivationFn::kSilu, x.from_row(r), 1,
                          one.act);
    ASSERT_EQ(std::memcmp(one.act.data, all.from_row(r).data,
                          static_cast<size_t>(s.n) * device_->act_bytes()),
              0);
  }
  device_->release(const_cast<std::byte*>(both.data), both.bytes());
}

// Ranges of rows with thin matrices of their own, some with none: right against float64.
TEST_P(GemmTest, ThinMatricesAreAddedToTheirRowsOnly) {
  const Shape s{70, 100, 130};
  Weights w(*device_, random_floats(s.n * s.k), s.n, s.k);
  Activations x(*device_, s.m, s.k);
  x.fill(random_floats(s.m * s.k), s.m, s.k);
  Weights a1(*device_, random_floats(16 * s.k), 16, s.k),
      b1(*device_, random_floats(s.n * 16), s.n, 16);
  Weights a2(*device_, random_floats(40 * s.k), 40, s.k),
      b2(*device_, random_floats(s.n * 40), s.n, 40);
  const LowRank first{a1.matrix, b1.matrix}, second{a2.matrix, b2.matrix};
  const std::vector<LowRankRows> ranges = {{3, 4, &first}, {4, 29, &second}, {47, 70, &first}};
  Activations inner(*device_, s.m, 40);
  std::vector<float> sums(static_cast<size_t>(s.m * 40)), y(static_cast<size_t>(s.m * s.n));
  const Device::LowRankArgs adapted{ranges, sums.data(), 40, inner.act};
  device_->linear_adapted(w.matrix, nullptr, adapted, x.act, s.m, y.data(), s.n, false);
  std::vector<float> plain(y.size());
  device_->linear(w.matrix, nullptr, x.act, s.m, plain.data(), s.n, false);
  for (int64_t r = 0; r < s.m; ++r) {
    const auto range = std::ranges::find_if(
        ranges, [&](const LowRankRows& one) { return one.begin <= r && r < one.end; });
    const float* const row = y.data() + r * s.n;
    if (range == ranges.end()) {
      ASSERT_EQ(std::memcmp(row, plain.data() + r * s.n, static_cast<size_t>(s.n) * 4), 0) << r;
      continue;
    }
    const Weights& a = range->matrices == &first ? a1 : a2;
    const Weights& b = range->matrices == &first ? b1 : b2;
    for (int64_t j = 0; j < s.n; ++j) {
      double sum = 0, size = 0;
      for (int64_t i = 0; i < s.k; ++i) sum += static_cast<double>(x.at(r, i)) * w.at(j, i);
      for (int64_t q = 0; q < a.matrix.n; ++q) {
        double thin = 0;
        for (int64_t i = 0; i < s.k; ++i) thin += static_cast<double>(x.at(r, i)) * a.at(q, i);
        sum += thin * b.at(j, q);
        size += std::fabs(thin * b.at(j, q));
      }
      ASSERT_NEAR(row[j], sum, (x.bf16 ? 8e-3 : 1e-5) * (size + 1))
          << "row " << r << " column " << j;
    }
  }
}

// The bits of a row with thin matrices do not depend on whose rows stand beside it.
TEST_P(GemmTest, ThinBitsDoNotDependOnCompany) {
  const std::unique_ptr<CpuDevice> alone = make_device(1);
  const Shape s{110, 200, 400};
  const FloatRows rows(random_floats(s.n * s.k), s.k);
  const PackedWeights both = device_->pack_gated(device_->types().weights, s.n, s.k, rows, rows);
  Weights w(*device_, random_floats(s.n * s.k), s.n, s.k);
  Weights a(*device_, random_floats(9 * s.k), 9, s.k), b(*device_, random_floats(s.n * 9), s.n, 9);
  const FloatRows thin(random_floats(s.n * 9), 9);
  const PackedWeights gated_b = device_->pack_gated(device_->types().weights, s.n, 9, thin, thin);
  const LowRank plain{a.matrix, b.matrix}, gated{a.matrix, gated_b};
  Activations x(*device_, s.m, s.k);
  x.fill(random_floats(s.m * s.k), s.m, s.k);
  Activations inner(*device_, s.m, 9);
  std::vector<float> sums(static_cast<size_t>(s.m * 9));
  const auto run = [&](CpuDevice& device, int64_t first, int64_t count, int64_t begin,
                       int64_t end) {
    const std::vector<LowRankRows> of_plain = {{begin, end, &plain}},
                                   of_gated = {{begin, end, &gated}};
    std::vector<float> y(static_cast<size_t>(count * s.n));
    device.linear_adapted(w.matrix, nullptr, {of_plain, sums.data(), 9, inner.act},
                          x.from_row(first), count, y.data(), s.n, false);
    Activations out(device, count, s.n);
    device.linear_gated_adapted(both, s.n, nullptr, nullptr, ActivationFn::kSilu,
                                {of_gated, sums.data(), 9, inner.act}, x.from_row(first), count,
                                out.act);
    for (int64_t r = begin; r < end; ++r)
      for (int64_t j = 0; j < s.n; ++j) y.push_back(out.at(r, j));
    std::vector<float> wanted(y.begin() + begin * s.n, y.begin() + end * s.n);
    wanted.insert(wanted.end(), y.begin() + count * s.n, y.end());
    return wanted;
  };
  for (int64_t r = 0; r < s.m; ++r) {
    const std::vector<float> one = run(*alone, r, 1, 0, 1);
    const int64_t first = random_in(0, r), count = random_in(r - first + 1, s.m - first);
    const int64_t begin = random_in(0, r - first), end = random_in(r - first + 1, count);
    const std::vector<float> some = run(*device_, first, count, begin, end);
    const auto at = static_cast<size_t>((r - first - begin) * s.n);
    const size_t half = some.size() / 2;
    ASSERT_EQ(std::memcmp(one.data(), some.data() + at, static_cast<size_t>(s.n) * 4), 0) << r;
    ASSERT_EQ(std::memcmp(one.data() + s.n, some.data() + half + at, static_cast<size_t>(s.n) * 4),
              0)
        << r;
  }
  device_->release(const_cast<std::byte*>(both.data), both.bytes());
  device_->release(const_cast<std::byte*>(gated_b.data), gated_b.bytes());
}

// Slices in memory that holds one of them: the bits of all columns together.
TEST_P(GemmTest, SlicesHaveTheBitsOfTheWhole) {
  const std::unique_ptr<CpuDevice> alone = make_device(1);
  for (const Shape s : {Shape{100, 200, 700}, {70, 448, 96}, {3, 64, 33}, {230, 130, 1100}}) {
    Weights w(*device_, random_floats(s.n * s.k), s.n, s.k);
    Weights a(*device_, random_floats(9 * s.k), 9, s.k),
        b(*device_, random_floats(s.n * 9), s.n, 9);
    const LowRank thin{a.matrix, b.matrix};
    const std::vector<LowRankRows> ranges = {{1, s.m - 1, &thin}};
    Activations x(*device_, s.m, s.k), inner(*device_, s.m, 9);
    x.fill(random_floats(s.m * s.k), s.m, s.k);
    std::vector<float> sums(static_cast<size_t>(s.m * 9)), whole(static_cast<size_t>(s.m * s.n));
    const Device::LowRankArgs adapted{ranges, sums.data(), 9, inner.act};
    const std::vector<float> bias = random_floats(s.n);
    device_->linear_adapted(w.matrix, bias.data(), adapted, x.act, s.m, whole.data(), s.n, false);
    for (const int64_t slice : {64, 128, 192, 512}) {
      SCOPED_TRACE(testing::Message() << "n " << s.n << " slice " << slice);
      const int64_t ld = slice + 16;
      std::vector<float> y(static_cast<size_t>(s.m * ld));
      int64_t next = 0;
      alone->linear_in_slices(w.matrix, bias.data(), adapted, x.act, s.m, y.data(), ld, slice,
                              [&](int64_t first, int64_t count) {
                                ASSERT_EQ(first, next);
                                ASSERT_EQ(count, std::min(slice, s.n - first));
                                next += count;
                                for (int64_t r = 0; r < s.m; ++r)
                                  ASSERT_EQ(
                                      std::memcmp(y.data() + r * ld, whole.data() + r * s.n + first,
                                                  static_cast<size_t>(count) * sizeof(float)),
                                      0)
                                      << "row " << r << " columns " << first;
                              });
      EXPECT_EQ(next, s.n);
    }
  }
}

// The contract that attention builds on: chunks, one or two panels, any rows, adding to C.
TEST_P(GemmTest, TileCutsAreBitEqual) {
  const int64_t k = 8 * 32;
  Weights w(*device_, random_floats(64 * k), 64, k);
  const int64_t rows = 67;
  Activations x(*device_, rows, k);
  x.fill(random_floats(rows * k), rows, k);
  const CpuContext& context = device_->context();
  const GemmKernels& kernels = context.kernels->gemm;
  const size_t k_bytes = 32 * weight_bytes(device_->types().weights);
  const std::byte* const left = w.matrix.data;
  const std::byte* const right = left + w.matrix.panel_bytes();

  const auto multiply = [&](int64_t row, int64_t count, int64_t cut, bool split_calls, bool narrow,
                            float* c) {
    std::vector<const void*> b0;
    std::vector<const void*> b1;
    for (int64_t i = 0; i < k; i += cut) {
      b0.push_back(left + static_cast<size_t>(i) * k_bytes);
      b1.push_back(right + static_cast<size_t>(i) * k_bytes);
    }
    TileArgs t;
    t.lda = x.act.ld;
    t.a_chunk = cut;
    t.kc = cut;
    t.c = c;
    t.ldc = 64;
    t.rows = count;
    kernels.begin();
    const auto calls = static_cast<int64_t>(split_calls ? b0.size() : 1);
    for (int64_t i = 0; i < calls; ++i) {
      t.a = x.from_row(row).data + static_cast<size_t>(i * cut) * device_->act_bytes();
      t.b0 = b0.data() + i;
      t.b1 = narrow ? nullptr : b1.data() + i;
      t.chunks = split_calls ? 1 : static_cast<int64_t>(b0.size());
      t.accumulate = i > 0;
      context.tile(context.types.weights)(t);
    }
    kernels.end();
  };

  std::vector<float> whole(static_cast<size_t>(rows * 64));
  multiply(0, rows, k, false, false, whole.data());
  for (const int64_t cut : {int64_t{32}, int64_t{64}, int64_t{128}}) {
    for (const bool split : {false, true}) {
      for (const bool narrow : {false, true}) {
        for (int64_t count = 1; count <= 40; ++count) {
          const int64_t row = random_in(0, rows - count);
          std::vector<float> part(static_cast<size_t>(count * 64), -5.0f);
          multiply(row, count, cut, split, narrow, part.data());
          for (int64_t r = 0; r < count; ++r) {
            for (int64_t j = 0; j < 64; ++j) {
              const float got = part[static_cast<size_t>(r * 64 + j)];
              if (narrow && j >= 32) {
                ASSERT_EQ(got, -5.0f) << "wrote columns that were not asked for";
              } else {
                ASSERT_EQ(got, whole[static_cast<size_t>((row + r) * 64 + j)])
                    << "cut " << cut << " count " << count << " row " << r << " column " << j;
              }
            }
          }
        }
      }
    }
  }
}

TEST_P(GemmTest, NotANumberStaysInItsRow) {
  const int64_t k = 64;
  Weights w(*device_, random_floats(64 * k), 64, k);
  Activations x(*device_, 9, k);
  x.fill(random_floats(9 * k), 9, k);
  x.set(4, 7, std::numeric_limits<float>::quiet_NaN());
  std::vector<float> y(9 * 64);
  device_->linear(w.matrix, nullptr, x.act, 9, y.data(), 64, false);
  for (size_t r = 0; r < 9; ++r) {
    for (size_t j = 0; j < 64; ++j) ASSERT_EQ(std::isnan(y[r * 64 + j]), r == 4);
  }
}

// A limit hides none, whichever half has it.
TEST_P(GemmTest, NotANumberPassesTheLimitsOfAnActivation) {
  const int64_t n = 40, k = 32;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> zeros(static_cast<size_t>(n * k));
  const PackedWeights both =
      device_->pack_gated(device_->types().weights, n, k, FloatRows(zeros, k), FloatRows(zeros, k));
  Activations x(*device_, 1, k), out(*device_, 1, n);
  x.fill(zeros, 1, k);
  std::vector<float> gate(n, 100), up(n, 100);
  gate[3] = up[5] = gate[38] = up[39] = kNan;
  gate[7] = up[9] = kInfinity;
  up[11] = -kInfinity;
  device_->linear_gated(both, n, gate.data(), up.data(), ActivationFn::kClampedSwiglu, x.act, 1,
                        out.act);
  device_->release(const_cast<std::byte*>(both.data), both.bytes());
  for (int64_t j = 0; j < n; ++j) {
    const bool spoiled = j == 3 || j == 5 || j == 38 || j == 39;
    ASSERT_EQ(std::isnan(out.at(0, j)), spoiled) << j;
    if (!spoiled) {
      ASSERT_NEAR(out.at(0, j), j == 11 ? -42.0f : 56.0f, out.bf16 ? 0.3 : 1e-3) << j;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, GemmTest,
                         testing::Combine(testing::Values("amx", "avx512_bf16", "avx512", "avx2",
                                                          "neon", "scalar"),
                                          testing::Values(DType::kBf16, DType::kF32)),
                         [](const testing::TestParamInfo<Param>& p) {
                           return std::get<0>(p.param) +
                                  (std::get<1>(p.param) == DType::kBf16 ? "_bf16" : "_f32");
                         });

}  // namespace
}  // namespace prefix::ops
