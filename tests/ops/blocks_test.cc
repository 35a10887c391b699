// Products with weights in the blocks of their file: against double precision, and bit for bit at
// every level of the machine, in every cut and company.
#include "ops/blocks.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "level_tables.h"
#include "ops/cpu/gemm.h"
#include "ops/cpu/pack.h"
#include "ops/cpu/quantise.h"
#include "ops/op_cpu.h"
#include "product_operands.h"
#include "support/dtype.h"
#include "support/random_blocks.h"

namespace prefix::ops::testing {
namespace {

std::vector<float> random_floats(std::mt19937& random, int64_t count) {
  std::normal_distribution<float> normal;
  std::vector<float> v(static_cast<size_t>(count));
  // Exact in bf16, so that all levels begin with the same numbers.
  for (float& x : v) x = f32_from_bf16(bf16_from_f32(normal(random)));
  return v;
}

std::unique_ptr<CpuDevice> make_device(const KernelTable& kernels, int threads) {
  CpuOptions options;
  options.types = kBf16Types;
  options.types.blocks = true;
  options.threads = std::make_shared<Threads>(threads);
  return std::make_unique<CpuDevice>(options, kernels);
}

// Of all kinds of levels: with the bits of every level, and as they are.
std::vector<LevelTable> all_tables() {
  std::vector<LevelTable> tables = level_tables();
  for (const Isa isa :
       {Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16, Isa::kAmx, Isa::kNeon})
    if (isa_obstacle(isa, detect_cpu_features()).empty())
      tables.push_back({"plain " + std::string(isa_name(isa)), kernel_table(isa)});
  return tables;
}

std::vector<float> multiply(CpuDevice& device, const PackedWeights& w, const std::vector<float>& x,
                            int64_t rows) {
  const Activations act(device, x, rows, w.k);
  std::vector<float> y(static_cast<size_t>(rows * w.n));
  device.linear(w, nullptr, act.act, rows, y.data(), w.n, false);
  return y;
}

// What a row means after it was quantised.
std::vector<double> quantised(const float* x, int64_t k) {
  std::vector<double> out(static_cast<size_t>(k));
  for (int64_t g = 0; g < k; g += 32) {
    float peak = 0;
    for (int64_t i = g; i < g + 32; ++i) peak = std::max(peak, std::abs(x[i]));
    for (int64_t i = g; i < g + 32; ++i)
      out[static_cast<size_t>(i)] =
          peak == 0 ? 0 : double{peak / 127.0f} * std::nearbyint(x[i] * (127.0f / peak));
  }
  return out;
}

class BlocksTest : public ::testing::TestWithParam<TensorType> {
 protected:
  std::mt19937 random_{23};
};

TEST_P(BlocksTest, RowsComeBackAsTheFileHasThem) {
  const auto device = make_device(kernel_table(Isa::kScalar), 2);
  for (const int64_t n : {1, 32, 75}) {
    const int64_t k = 768;
    const BlockRowsSource rows({GetParam()}, n, n, k, random_);
    const Matrix matrix(*device, rows, n, k);
    std::vector<float> got(static_cast<size_t>(k));
    for (int64_t row = 0; row < n; ++row) {
      std::vector<float> want = rows.values(row);
      unpack_row(matrix.w, row, 1, got.data());
      ASSERT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)), 0) << row;
      for (float& v : want) v *= 3.7f;
      unpack_row(matrix.w, row, 3.7f, got.data());
      ASSERT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)), 0) << row;
    }
  }
}

// However small or large: those of an f16 would not do.
TEST(Blocks, AllPowersOfTwoComeBack) {
  std::mt19937 random{29};
  const auto device = make_device(kernel_table(Isa::kScalar), 1);
  const int64_t n = 32, k = 8 * 32;
  BlockRowsSource rows({TensorType::kMXFP4}, n, n, k, random);
  for (int64_t row = 0; row < n; ++row)
    for (size_t block = 0; block < 8; ++block)
      rows.bytes(row)[17 * block] = static_cast<std::byte>(8 * static_cast<size_t>(row) + block);
  const Matrix matrix(*device, rows, n, k);
  std::vector<float> got(static_cast<size_t>(k));
  for (int64_t row = 0; row < n; ++row) {
    unpack_row(matrix.w, row, 1, got.data());
    EXPECT_EQ(got, rows.values(row)) << row;
  }
  // Kernels scale sums by them: one number of x and w is left of each block.
  for (const LevelTable& level : all_tables()) {
    const auto of_level = make_device(level.kernels, 1);
    for (int64_t block = 0; block < 8; ++block) {
      std::vector<float> x(static_cast<size_t>(k));
      x[static_cast<size_t>(32 * block)] = 127;  // a scale of 1
      for (const int64_t m : {1, 6}) {
        std::vector<float> all;
        for (int64_t i = 0; i < m; ++i) all.insert(all.end(), x.begin(), x.end());
        const std::vector<float> y = multiply(*of_level, matrix.w, all, m);
        for (int64_t row = 0; row < n; ++row)
          EXPECT_EQ(y[static_cast<size_t>(row)],
                    127 * rows.values(row)[static_cast<size_t>(32 * block)])
              << level.name << ", exponent " << 8 * row + block;
      }
    }
  }
}

TEST_P(BlocksTest, TheyTakeTheBytesOfTheFile) {
  const int64_t n = 64, k = 2048;
  const BlockRowsSource rows({GetParam()}, n, n, k, random_);
  const std::array<const WeightSource*, 1> sources = {&rows};
  const auto file = static_cast<double>(n * blocks_bytes(GetParam(), k));
  const auto here = static_cast<double>(PackedWeights::of_blocks(sources, n, k).bytes());
  EXPECT_GE(here, file);
  EXPECT_LE(here, (GetParam() == TensorType::kMXFP4 ? 1.06 : 1.03) * file);
}

TEST_P(BlocksTest, AProductIsThatOfQuantisedRows) {
  const auto device = make_device(kernel_table(choose_isa("auto")), 2);
  for (const int64_t m : {1, 2, 3, 4, 5, 6, 7, 13, 40}) {
    const int64_t n = 70, k = 512;
    const BlockRowsSource rows({GetParam()}, n, n, k, random_);
    Matrix matrix(*device, rows, n, k);
    const std::vector<float> x = random_floats(random_, m * k);
    const std::vector<float> y = multiply(*device, matrix.w, x, m);
    matrix.w.terms = 2;
    const std::vector<float> fine = multiply(*device, matrix.w, x, m);
    double error = 0, fine_error = 0, square = 0;
    for (int64_t r = 0; r < m; ++r) {
      const std::vector<double> whole = quantised(x.data() + r * k, k);
      for (int64_t j = 0; j < n; ++j) {
        const std::vector<float> w = rows.values(j);
        double want = 0, exact = 0, size = 0;
        for (size_t i = 0; i < w.size(); ++i) {
          want += whole[i] * w[i];
          exact += static_cast<double>(x[static_cast<size_t>(r * k) + i]) * w[i];
          size += std::abs(whole[i] * w[i]);
        }
        const auto at = static_cast<size_t>(r * n + j);
        ASSERT_NEAR(y[at], want, 4e-6 * size) << "rows " << m << ", " << r << ", " << j;
        error += (y[at] - exact) * (y[at] - exact);
        fine_error += (fine[at] - exact) * (fine[at] - exact);
        square += exact * exact;
      }
    }
    EXPECT_LT(std::sqrt(error / square), 0.012);
    EXPECT_GT(std::sqrt(error / square), 1e-4);
    EXPECT_LT(std::sqrt(fine_error / square), 1e-4);
  }
}

TEST_P(BlocksTest, EveryLevelAndCutHasTheSameBits) {
  const int64_t m = 203, n = 70, k = GetParam() == TensorType::kQ4_0 ? 5472 : 768;
  const BlockRowsSource rows({GetParam()}, n, n, k, random_);
  std::vector<float> x = random_floats(random_, m * k);
  for (int terms = 1; terms <= 2; ++terms) {
    std::vector<float> want;
    for (const LevelTable& table : all_tables()) {
      for (const int threads : {1, 2}) {
        SCOPED_TRACE(table.name);
        const auto device = make_device(table.kernels, threads);
        Matrix matrix(*device, rows, n, k);
        matrix.w.terms = terms;
        const auto expect_rows = [&](int64_t first, int64_t count) {
          const std::vector<float> some(x.begin() + first * k, x.begin() + (first + count) * k);
          const std::vector<float> got = multiply(*device, matrix.w, some, count);
          ASSERT_EQ(std::memcmp(got.data(), want.data() + first * n, got.size() * sizeof(float)), 0)
              << count << " rows from " << first;
        };
        if (want.empty()) want = multiply(*device, matrix.w, x, m);
        if (table.name != "scalar" && table.name != "plain scalar") expect_rows(0, m);
        for (int64_t count = 1; count <= 9; ++count) expect_rows(17 * count, count);
        // A panel alone.
        const Activations act(*device, x, 3, k);
        for (const int64_t column : {0, 40, 69}) {
          const PackedWeights one = matrix.w.panel_of(column);
          std::vector<float> y(static_cast<size_t>(3 * one.n));
          device->linear(one, nullptr, act.act, 3, y.data(), one.n, false);
          for (int64_t r = 0; r < 3; ++r)
            ASSERT_EQ(std::memcmp(y.data() + r * one.n, want.data() + r * n + column / 32 * 32,
                                  static_cast<size_t>(one.n) * sizeof(float)),
                      0);
        }
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(BlocksTest, WhatIsNotFiniteStaysInItsRowAndColumn) {
  const auto device = make_device(kernel_table(choose_isa("auto")), 2);
  const int64_t n = 40, k = 512;
  BlockRowsSource rows({GetParam()}, n, n, k, random_);
  const bool scaled = !half_places(GetParam()).empty();
  for (const size_t place : half_places(GetParam())) {
    BlockRowsSource::set_half(rows.bytes(3), place, 0x7e00);  // NaN
    BlockRowsSource::set_half(rows.bytes(35), place, 0x7c00);
    BlockRowsSource::set_half(rows.bytes(36), place, 0);
  }
  for (std::byte& b : rows.bytes(7)) b = {};
  const Matrix matrix(*device, rows, n, k);
  for (const int64_t m : {3, 11}) {
    std::vector<float> x = random_floats(random_, m * k);
    const std::vector<float> clean = multiply(*device, matrix.w, x, m);
    x[static_cast<size_t>(k + 5)] = NAN;
    x[static_cast<size_t>(2 * k + 300)] = -std::numeric_limits<float>::infinity();
    const std::vector<float> y = multiply(*device, matrix.w, x, m);
    for (int64_t r = 0; r < m; ++r)
      for (int64_t j = 0; j < n; ++j) {
        const auto at = static_cast<size_t>(r * n + j);
        const bool bad = r == 1 || r == 2 || (scaled && (j == 3 || j == 35));
        EXPECT_EQ(std::isfinite(y[at]), !bad) << r << ", " << j;
        if (!bad) {
          EXPECT_EQ(y[at], clean[at]);
        }
        if (j == 7) {
          EXPECT_EQ(clean[at], 0.0f);
        }
      }
  }
}

// Groups of zeros and of numbers whose 127th part is nothing.
TEST_P(BlocksTest, SmallGroupsCountAsZero) {
  const auto device = make_device(kernel_table(choose_isa("auto")), 1);
  const int64_t n = 32, k = 256;
  const BlockRowsSource rows({GetParam()}, n, n, k, random_);
  const Matrix matrix(*device, rows, n, k);
  std::vector<float> x(static_cast<size_t>(k));
  for (const float y : multiply(*device, matrix.w, x, 1)) EXPECT_EQ(y, 0.0f);
  for (float& v : x) v = 0x1p-120f;
  for (const float y : multiply(*device, matrix.w, x, 1)) EXPECT_EQ(y, 0.0f);
}

INSTANTIATE_TEST_SUITE_P(Types, BlocksTest, ::testing::ValuesIn(kBlockTensorTypes),
                         [](const auto& type) {
                           return std::string(tensor_type_name(type.param));
                         });

// Q, K and V of a layer, gate and up: each with a type of its own.
TEST(Blocks, PanelsMayHaveDifferentTypes) {
  std::mt19937 random(5);
  const auto device = make_device(kernel_table(choose_isa("auto")), 2);
  const int64_t k = 256, each = 64;
  const BlockRowsSource rows({TensorType::kQ4_K, TensorType::kQ8_0, TensorType::kQ6_K}, each,
                             3 * each, k, random);
  const Matrix matrix(*device, rows, 3 * each, k);
  const std::vector<float> x = random_floats(random, 7 * k);
  const std::vector<float> y = multiply(*device, matrix.w, x, 7);
  for (int64_t r = 0; r < 7; ++r) {
    const std::vector<double> whole = quantised(x.data() + r * k, k);
    for (int64_t j = 0; j < 3 * each; ++j) {
      const std::vector<float> w = rows.values(j);
      double want = 0, size = 0;
      for (size_t i = 0; i < w.size(); ++i) {
        want += whole[i] * w[i];
        size += std::abs(whole[i] * w[i]);
      }
      ASSERT_NEAR(y[static_cast<size_t>(r * 3 * each + j)], want, 4e-6 * size);
    }
  }
}

TEST(Blocks, GatedIsTheActivationOfBothProducts) {
  std::mt19937 random(6);
  CpuOptions options;
  options.types = kF32Types;
  options.types.blocks = true;
  const auto device = std::make_unique<CpuDevice>(options);
  const int64_t m = 9, n = 77, k = 256;
  const BlockRowsSource gate({TensorType::kQ4_1}, n, n, k, random),
      up({TensorType::kQ6_K}, n, n, k, random);
  const Matrix both(*device, device->pack_gated(WeightFormat::kBlocks, n, k, gate, up));
  const Matrix left(*device, gate, n, k), right(*device, up, n, k);
  const std::vector<float> x = random_floats(random, m * k);
  const Activations act(*device, x, m, k);
  const Activations out(*device, std::vector<float>(static_cast<size_t>(m * n)), m, n);
  device->linear_gated(both.w, n, nullptr, nullptr, ActivationFn::kSilu, act.act, m, out.act);
  const std::vector<float> g = multiply(*device, left.w, x, m),
                           u = multiply(*device, right.w, x, m);
  for (int64_t r = 0; r < m; ++r)
    for (int64_t j = 0; j < n; ++j) {
      const auto at = static_cast<size_t>(r * n + j);
      const float want = g[at] / (1 + std::exp(-g[at])) * u[at];
      ASSERT_NEAR(reinterpret_cast<const float*>(out.act.data)[r * out.act.ld + j], want,
                  1e-5 * std::max(1.0f, std::abs(want)));
    }
}

TEST(Blocks, WhatNoKernelReadsIsSeen) {
  std::mt19937 random(7);
  const auto possible = [&](std::vector<TensorType> types, int64_t each, int64_t n, int64_t k) {
    const BlockRowsSource rows(std::move(types), each, n, k, random);
    const std::array<const WeightSource*, 1> sources = {&rows};
    return PackedWeights::of_blocks(sources, n, k).blocks != nullptr;
  };
  EXPECT_TRUE(possible({TensorType::kQ4_0}, 40, 40, 96));
  EXPECT_TRUE(possible({TensorType::kQ4_0, TensorType::kQ5_0}, 32, 50, 96));
  EXPECT_FALSE(possible({TensorType::kQ4_0, TensorType::kQ5_0}, 40, 50, 96));  // in one panel
  EXPECT_FALSE(possible({TensorType::kQ2_K}, 40, 40, 256));
  EXPECT_FALSE(possible({TensorType::kF32}, 40, 40, 96));
}

// As of experts: products of all formats at once, each with its own rows.
TEST(Blocks, ManyProductsAtOnceAreThoseOfEach) {
  std::mt19937 random(9);
  const auto device = make_device(kernel_table(choose_isa("auto")), 2);
  const int64_t n = 75, k = 256;
  const BlockRowsSource one({TensorType::kQ4_K}, n, n, k, random),
      two({TensorType::kQ5_1}, n, n, k, random);
  Matrix first(*device, one, n, k), second(*device, two, n, k);
  second.w.terms = 2;
  const FloatRows plain(random_floats(random, n * k), k);
  const Matrix third(*device, device->pack(WeightFormat::kBf16, n, k, plain));
  const Matrix fourth(*device, device->pack(WeightFormat::kInt8, n, k, plain));
  const PackedWeights* const matrices[] = {&first.w, &third.w, &second.w, &fourth.w, &first.w};
  const int64_t rows[] = {11, 3, 9, 17, 2};
  std::vector<std::unique_ptr<Activations>> x;
  std::vector<std::vector<float>> want, got;
  std::vector<GemmProduct> products;
  for (size_t i = 0; i < std::size(rows); ++i) {
    const std::vector<float> values = random_floats(random, rows[i] * k);
    x.push_back(std::make_unique<Activations>(*device, values, rows[i], k));
    want.push_back(multiply(*device, *matrices[i], values, rows[i]));
    got.emplace_back(want.back().size());
  }
  for (size_t i = 0; i < std::size(rows); ++i) {
    GemmOutput output;
    output.y = got[i].data();
    output.ldy = output.columns = n;
    products.push_back({matrices[i], x[i]->act, rows[i], output});
  }
  gemm(device->context(), products);
  EXPECT_EQ(got, want);
}

// Rows in whole numbers of all levels.
TEST(Blocks, QuantisedGroupsAreThoseOfPlainLoops) {
  std::mt19937 random(8);
  const int64_t k = 96;
  for (const LevelTable& table : all_tables()) {
    SCOPED_TRACE(table.name);
    for (const bool bf16 : {false, true}) {
      std::vector<float> x = random_floats(random, k), rest(static_cast<size_t>(k));
      x[40] = bf16 ? 3.0f : 3.14159f;
      std::vector<uint16_t> half;
      for (const float v : x) half.push_back(bf16_from_f32(v));
      std::vector<std::byte> memory(static_cast<size_t>(BlockRows::bytes_of(k)) + 1, std::byte{99});
      QuantiseGroupsArgs args;
      args.x = bf16 ? static_cast<const void*>(half.data()) : x.data();
      args.bf16 = bf16;
      args.out = {memory.data(), 0, k};
      args.rest = rest.data();
      table.kernels.rows.quantise_groups(args);
      EXPECT_EQ(memory.back(), std::byte{99});
      const BlockRows& out = args.out;
      for (int64_t g = 0; g < 3; ++g) {
        float peak = 0;
        for (int64_t i = 32 * g; i < 32 * g + 32; ++i)
          peak = std::max(peak, std::abs(x[static_cast<size_t>(i)]));
        EXPECT_EQ(out.scales(0)[g], peak / 127.0f);
        int32_t sums[2] = {};
        for (int64_t i = 32 * g; i < 32 * g + 32; ++i) {
          const float v = x[static_cast<size_t>(i)];
          const auto code = static_cast<int>(std::nearbyint(v * (127.0f / peak)));
          EXPECT_EQ(out.codes(0)[i], code);
          EXPECT_EQ(rest[static_cast<size_t>(i)], v - static_cast<float>(code) * (peak / 127.0f));
          sums[i / 16 % 2] += code;
        }
        EXPECT_EQ(out.sums(0)[2 * g], sums[0]);
        EXPECT_EQ(out.sums(0)[2 * g + 1], sums[1]);
        EXPECT_EQ(out.scaled_sums(0)[g], peak / 127.0f * static_cast<float>(sums[0] + sums[1]));
      }
    }
  }
}

}  // namespace
}  // namespace prefix::ops::testing
