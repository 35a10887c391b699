// Products in whole numbers: rows and sums as a few plain lines compute them, bit for bit, at every
// level of the machine and in every cut.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "amx_emulation.h"
#include "ops/cpu/amx_impl.h"
#include "ops/cpu/gemm.h"
#include "ops/cpu/pack.h"
#include "ops/cpu/quantise.h"
#include "ops/op_cpu.h"
#include "ops/rotation.h"
#include "product_operands.h"
#include "support/dtype.h"

namespace prefix::ops::testing {
namespace {

// A row as the header of rotation.h and QuantiseArgs say, without a vector.
struct PlainRow {
  std::vector<int8_t> whole, rest;  // what `whole` has rounded away, in units of 1/254
  float scale = 0;
  int64_t sum = 0, rest_sum = 0;

  explicit PlainRow(std::vector<float> x) {
    const auto k = static_cast<int64_t>(x.size());
    const int64_t block = rotation_block(k);
    std::vector<float> signs(x.size());
    fill_rotation_signs(k, signs.data());
    for (size_t i = 0; i < x.size(); ++i) x[i] *= signs[i];
    for (int64_t stride = block / 2; stride >= 1; stride /= 2) {
      const std::vector<float> before = x;
      for (int64_t i = 0; i < k; ++i) {
        const auto at = static_cast<size_t>(i);
        const auto other = static_cast<size_t>(i ^ stride);
        x[at] = (i & stride) == 0 ? before[at] + before[other] : before[other] - before[at];
      }
    }
    float peak = 0;
    for (const float v : x) peak = std::isfinite(v) ? std::max(peak, std::abs(v)) : NAN;
    for (const float v : x)
      if (!std::isfinite(v)) peak = NAN;
    whole.resize(x.size());
    rest.resize(x.size());
    if (std::isnan(peak) || peak < 0x1p-100f) {
      scale = peak < 0x1p-100f ? 0 : NAN;
      return;
    }
    scale = peak / 127.0f;
    const float factor = 127.0f / peak;
    for (size_t i = 0; i < x.size(); ++i) {
      const float scaled = x[i] * factor;
      whole[i] = static_cast<int8_t>(std::nearbyint(scaled));
      sum += whole[i];
      rest[i] = static_cast<int8_t>(std::nearbyint((scaled - whole[i]) * 254));
      rest_sum += rest[i];
    }
  }
};

class Int8Test : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    for (const IsaLevel& level : cpu_isa_levels())
      if (level.name == GetParam() && !level.available)
        GTEST_SKIP() << level.name << ": " << level.reason;
    device_ = make_device(2, kBf16Types);
  }
  static std::unique_ptr<CpuDevice> make_device(int threads, const NumericTypes& types) {
    CpuOptions options;
    options.isa = GetParam();
    options.types = types;
    options.threads = std::make_shared<Threads>(threads);
    return std::make_unique<CpuDevice>(options);
  }
  std::vector<float> random_floats(int64_t count) {
    std::normal_distribution<float> normal;
    std::vector<float> v(static_cast<size_t>(count));
    // Exact in bf16, so that all levels begin with the same numbers.
    for (float& x : v) x = f32_from_bf16(bf16_from_f32(normal(random_)));
    return v;
  }

  std::mt19937 random_{11};
  std::unique_ptr<CpuDevice> device_;
};

std::vector<float> row_of(const std::vector<float>& all, int64_t row, int64_t k) {
  return {all.begin() + row * k, all.begin() + (row + 1) * k};
}

// x w^T of rows in whole numbers, of x one term or two.
float plain_product(const PlainRow& x, const PlainRow& w, int64_t block, int terms) {
  int64_t sum = 0, rest_sum = 0;
  for (size_t i = 0; i < x.whole.size(); ++i) {
    sum += x.whole[i] * w.whole[i];
    rest_sum += x.rest[i] * w.whole[i];
  }
  const float scale = x.scale / static_cast<float>(block);
  const float first = static_cast<float>(sum) * (scale * w.scale);
  if (terms == 1) return first;
  return first + static_cast<float>(rest_sum) * (scale / 254.0f * w.scale);
}

constexpr int64_t kLengths[] = {1,   2,   3,   16,  24,  31,  32,   48,   64,  96,
                                100, 128, 192, 257, 384, 576, 1024, 1536, 2688};

TEST_P(Int8Test, ARowIsWhatPlainLoopsMakeOfIt) {
  const RowKernels& kernels = device_->context().kernels->rows;
  for (const int64_t k : kLengths) {
    SCOPED_TRACE(k);
    std::vector<float> signs(static_cast<size_t>(k)), work(static_cast<size_t>(k));
    fill_rotation_signs(k, signs.data());
    for (const bool bf16 : {false, true}) {
      const int64_t step = bf16 ? 32 : 64, k_padded = (k + step - 1) / step * step;
      for (int variant = 0; variant < 5; ++variant) {
        std::vector<float> x = random_floats(k);
        if (variant == 1) x.assign(x.size(), 0.0f);
        if (variant == 2) x[x.size() / 2] = std::numeric_limits<float>::infinity();
        if (variant == 3) x.back() = NAN;
        if (variant == 4)
          for (float& v : x) v *= 0x1p-120f;
        std::vector<uint16_t> half;
        for (const float v : x) half.push_back(bf16_from_f32(v));
        std::vector<int8_t> out(static_cast<size_t>(k_padded) + 1, 99), rest = out;
        QuantiseArgs args;
        args.x = bf16 ? static_cast<const void*>(half.data()) : x.data();
        args.bf16 = bf16;
        args.k = k;
        args.block = rotation_block(k);
        args.signs = signs.data();
        args.work = work.data();
        args.out = out.data();
        args.k_padded = k_padded;
        const QuantisedRow only = kernels.quantise(args);
        const std::vector<int8_t> without_rest = out;
        args.rest = rest.data();
        const QuantisedRow row = kernels.quantise(args);
        EXPECT_EQ(out, without_rest);
        EXPECT_EQ(only.sum, row.sum);
        const PlainRow want(x);
        EXPECT_EQ(std::isnan(row.scale), std::isnan(want.scale)) << variant;
        if (!std::isnan(want.scale)) {
          EXPECT_EQ(std::bit_cast<uint32_t>(row.scale), std::bit_cast<uint32_t>(want.scale));
        }
        EXPECT_EQ(row.sum, want.sum);
        EXPECT_EQ(row.rest_sum, want.rest_sum);
        EXPECT_EQ(std::memcmp(out.data(), want.whole.data(), want.whole.size()), 0);
        EXPECT_EQ(std::memcmp(rest.data(), want.rest.data(), want.rest.size()), 0);
        for (int64_t i = k; i < k_padded; ++i) {
          EXPECT_EQ(out[static_cast<size_t>(i)], 0);
          EXPECT_EQ(rest[static_cast<size_t>(i)], 0);
        }
        EXPECT_EQ(out.back(), 99);
        EXPECT_EQ(rest.back(), 99);
      }
    }
  }
}

struct Shape {
  int64_t m, n, k;
};
constexpr Shape kShapes[] = {{1, 1, 1},      {2, 33, 31},   {5, 95, 33},   {6, 65, 100},
                             {7, 31, 257},   {13, 130, 96}, {33, 100, 80}, {97, 128, 64},
                             {40, 96, 2688}, {20, 64, 5440}};

TEST_P(Int8Test, AProductIsExactInWholeNumbers) {
  for (const Shape& s : kShapes) {
    SCOPED_TRACE(::testing::Message() << "m " << s.m << " n " << s.n << " k " << s.k);
    const std::vector<float> w = random_floats(s.n * s.k), x = random_floats(s.m * s.k);
    const std::vector<float> bias = random_floats(s.n);
    Matrix matrix(*device_, device_->pack(WeightFormat::kInt8, s.n, s.k, FloatRows(w, s.k)));
    const Activations act(*device_, x, s.m, s.k);
    std::vector<PlainRow> columns;
    for (int64_t j = 0; j < s.n; ++j) columns.emplace_back(row_of(w, j, s.k));
    double errors[2] = {};
    for (int terms = 1; terms <= 2; ++terms) {
      matrix.w.terms = terms;
      std::vector<float> y(static_cast<size_t>(s.m * s.n)), added = y;
      device_->linear(matrix.w, bias.data(), act.act, s.m, y.data(), s.n, false);
      device_->linear(matrix.w, nullptr, act.act, s.m, added.data(), s.n, true);
      double error = 0, square = 0;
      for (int64_t r = 0; r < s.m; ++r) {
        const PlainRow row(row_of(x, r, s.k));
        for (int64_t j = 0; j < s.n; ++j) {
          const auto at = static_cast<size_t>(r * s.n + j);
          const float plain =
              plain_product(row, columns[static_cast<size_t>(j)], rotation_block(s.k), terms);
          ASSERT_EQ(y[at], plain + bias[static_cast<size_t>(j)]) << "row " << r << " column " << j;
          ASSERT_EQ(added[at], plain);
          double exact = 0;
          for (int64_t i = 0; i < s.k; ++i)
            exact += static_cast<double>(x[static_cast<size_t>(r * s.k + i)]) *
                     w[static_cast<size_t>(j * s.k + i)];
          error += (plain - exact) * (plain - exact);
          square += exact * exact;
        }
      }
      errors[terms - 1] = std::sqrt(error / square);
    }
    // Two roundings to 127 steps of a normal distribution's largest number, and one of them.
    EXPECT_LT(errors[0], 0.025);
    if (s.k >= 64) {
      EXPECT_LT(errors[1], 0.8 * errors[0]);
    }
  }
}

// Rounded by some inputs, a matrix has the bytes of the scalar level, of one source or two.
TEST_P(Int8Test, CalibratedPanelsAreTheSameAtEveryLevel) {
  CpuDevice scalar{CpuOptions{kBf16Types, "scalar"}};
  for (const int64_t k : {64, 100, 128, 576}) {
    constexpr int64_t n = 70;
    std::vector<float> gate = random_floats(n * k), up = random_floats(n * k);
    std::fill_n(up.begin(), k, 0.0f);
    up[static_cast<size_t>(3 * k)] = std::numeric_limits<float>::infinity();
    CalibrationRows calibration;
    calibration.scales = random_floats(7);
    for (int64_t i = 0; i < 7 * k; ++i)
      calibration.numbers.push_back(static_cast<int8_t>(static_cast<int>(random_() % 255) - 127));
    const FloatRows of_gate(gate, k), of_up(up, k);
    const std::array<const WeightSource*, 2> both = {&of_gate, &of_up};
    const auto bytes = [&](CpuDevice& device, size_t sources, const CalibrationRows* rows) {
      const Matrix packed(device, device.pack_sources(WeightFormat::kInt8, n, k,
                                                      std::span(both).first(sources), rows));
      return std::vector<std::byte>(packed.w.data, packed.w.data + packed.w.bytes());
    };
    for (const size_t sources : {1, 2}) {
      const auto got = bytes(*device_, sources, &calibration);
      EXPECT_EQ(got, bytes(scalar, sources, &calibration)) << k;
      EXPECT_NE(got, bytes(*device_, sources, nullptr));
    }
    // Rows that are zero or not finite stay without numbers.
    const Matrix gated(*device_,
                       device_->pack_sources(WeightFormat::kInt8, n, k, both, &calibration));
    for (const int64_t row : {0, 3}) {
      EXPECT_FALSE(gated.w.scales[32 + row] > 0);
      for (int64_t i = 0; i < gated.w.k_padded; ++i)
        EXPECT_EQ(gated.w.panel(1)[(i / 4 * 32 + row) * 4 + i % 4], std::byte{128});
    }
  }
}

TEST_P(Int8Test, GatedIsTheActivationOfBothProducts) {
  const Shape s{19, 77, 192};
  const std::vector<float> gate = random_floats(s.n * s.k), up = random_floats(s.n * s.k);
  const Matrix both(*device_, device_->pack_gated(WeightFormat::kInt8, s.n, s.k,
                                                  FloatRows(gate, s.k), FloatRows(up, s.k)));
  const Activations x(*device_, random_floats(s.m * s.k), s.m, s.k);
  const Activations out(*device_, random_floats(s.m * s.n), s.m, s.n);
  device_->linear_gated(both.w, s.n, nullptr, nullptr, ActivationFn::kSilu, x.act, s.m, out.act);
  const auto alone = [&](const std::vector<float>& w) {
    const Matrix one(*device_, device_->pack(WeightFormat::kInt8, s.n, s.k, FloatRows(w, s.k)));
    std::vector<float> y(static_cast<size_t>(s.m * s.n));
    device_->linear(one.w, nullptr, x.act, s.m, y.data(), s.n, false);
    return y;
  };
  const std::vector<float> g = alone(gate), u = alone(up);
  for (int64_t r = 0; r < s.m; ++r) {
    for (int64_t j = 0; j < s.n; ++j) {
      const auto at = static_cast<size_t>(r * s.n + j);
      const float want = g[at] / (1 + std::exp(-g[at])) * u[at];
      const std::byte* const p =
          out.act.data + static_cast<size_t>(r * out.act.ld + j) * device_->act_bytes();
      float got;
      if (device_->act_bytes() == 2) {
        uint16_t half;
        std::memcpy(&half, p, sizeof half);
        got = f32_from_bf16(half);
      } else {
        std::memcpy(&got, p, sizeof got);
      }
      ASSERT_NEAR(got, want, 1e-2 * std::max(1.0f, std::abs(want)));
    }
  }
}

TEST_P(Int8Test, NoCutChangesABit) {
  const Shape s{230, 200, 1088};
  const std::vector<float> w = random_floats(s.n * s.k);
  Matrix matrix(*device_, device_->pack(WeightFormat::kInt8, s.n, s.k, FloatRows(w, s.k)));
  const Activations x(*device_, random_floats(s.m * s.k), s.m, s.k);
  const auto multiply = [&](CpuDevice& device, int64_t first, int64_t rows) {
    std::vector<float> y(static_cast<size_t>(rows * s.n));
    const ActivationBuffer from = {
        x.act.data + static_cast<size_t>(first * x.act.ld) * device.act_bytes(), x.act.ld};
    device.linear(matrix.w, nullptr, from, rows, y.data(), s.n, false);
    return y;
  };
  const std::unique_ptr<CpuDevice> single = make_device(1, kBf16Types);
  for (int terms = 1; terms <= 2; ++terms) {
    matrix.w.terms = terms;
    const std::vector<float> all = multiply(*device_, 0, s.m);
    for (const auto& [first, rows] :
         {std::pair<int64_t, int64_t>{0, 230}, {0, 1}, {5, 2}, {17, 5}, {60, 33}, {100, 130}}) {
      for (CpuDevice* device : {device_.get(), single.get()}) {
        const std::vector<float> some = multiply(*device, first, rows);
        ASSERT_EQ(std::memcmp(some.data(), &all[static_cast<size_t>(first * s.n)],
                              some.size() * sizeof(float)),
                  0)
            << terms;
      }
    }
  }
  // A panel alone.
  const std::vector<float> all = multiply(*device_, 0, 3);
  for (const int64_t column : {0, 40, 199}) {
    const PackedWeights one = matrix.w.panel_of(column);
    std::vector<float> y(static_cast<size_t>(3 * one.n));
    device_->linear(one, nullptr, x.act, 3, y.data(), one.n, false);
    for (int64_t r = 0; r < 3; ++r)
      ASSERT_EQ(std::memcmp(&y[static_cast<size_t>(r * one.n)],
                            &all[static_cast<size_t>(r * s.n + column / 32 * 32)],
                            static_cast<size_t>(one.n) * sizeof(float)),
                0)
          << column;
  }
}

// Sums of whole numbers are numbers before thin matrices,
// which stay in the type of dtype, add to them.
TEST_P(Int8Test, ThinMatricesAddToNumbers) {
  const int64_t k = 96, n = 70, rank = 9, rows = 40;
  const WeightFormat format = device_->types().weights;
  const Matrix w(*device_,
                 device_->pack(WeightFormat::kInt8, n, k, FloatRows(random_floats(n * k), k)));
  const std::vector<float> a_values = random_floats(rank * k), b_values = random_floats(n * rank);
  const Matrix a(*device_, device_->pack(format, rank, k, FloatRows(a_values, k)));
  const Matrix b(*device_, device_->pack(format, n, rank, FloatRows(b_values, rank)));
  const LowRank thin{a.w, b.w};
  const std::vector<LowRankRows> ranges = {{3, 4, &thin}, {17, 33, &thin}};
  const std::vector<float> values = random_floats(rows * k);
  const Activations x(*device_, values, rows, k);
  const Activations inner(*device_, random_floats(rows * rank), rows, rank);
  std::vector<float> sums(static_cast<size_t>(rows * rank)), y(static_cast<size_t>(rows * n)),
      plain = y;
  device_->linear_adapted(w.w, nullptr, {ranges, sums.data(), rank, inner.act}, x.act, rows,
                          y.data(), n, false);
  device_->linear(w.w, nullptr, x.act, rows, plain.data(), n, false);
  for (int64_t r = 0; r < rows; ++r) {
    const bool has = r == 3 || (r >= 17 && r < 33);
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0, size = 0;
      for (int64_t q = 0; q < rank; ++q) {
        double one = 0;
        for (int64_t i = 0; i < k; ++i)
          one += static_cast<double>(values[static_cast<size_t>(r * k + i)]) *
                 a_values[static_cast<size_t>(q * k + i)];
        sum += one * b_values[static_cast<size_t>(j * rank + q)];
        size += std::fabs(one * b_values[static_cast<size_t>(j * rank + q)]);
      }
      const auto at = static_cast<size_t>(r * n + j);
      if (has) {
        ASSERT_NEAR(y[at] - plain[at], sum, 8e-3 * (size + 1)) << "row " << r << " column " << j;
      } else {
        ASSERT_EQ(y[at], plain[at]) << "row " << r << " column " << j;
      }
    }
  }
}

// What a product reserves is what the sizes say, also where a head has two terms.
TEST_P(Int8Test, WorkspaceHoldsRowsOfAHead) {
  NumericTypes types = kBf16Types;
  types.int8 = kInt8All;
  const std::unique_ptr<CpuDevice> device = make_device(1, types);
  ReserveShape shape;
  shape.rows = 100;
  for (const auto& [widest, hidden] : {std::pair<int64_t, int64_t>{1024, 1000}, {3072, 1000}}) {
    shape.widest = widest;
    shape.hidden = hidden;
    PackedWeights head = PackedWeights::of_shape(WeightFormat::kInt8, 64, hidden);
    head.terms = 2;
    const PackedWeights other = PackedWeights::of_shape(WeightFormat::kInt8, 64, widest);
    const size_t bytes = device->sizes().workspace(shape).partials;
    const int64_t size = device->context().kernels->gemm.int8_operand_bytes();
    const size_t most =
        std::max(QuantisedRows::bytes(head, 100, size), QuantisedRows::bytes(other, 100, size));
    EXPECT_GE(bytes, most);
    EXPECT_LE(bytes, most + most / 8);
  }
}

// Rows of several products, of which only some are in whole numbers, are found by their numbers.
TEST_P(Int8Test, ManyProductsAreThoseAlone) {
  const int64_t k = 96, n = 70;
  const std::vector<float> values = random_floats(3 * n * k);
  std::vector<std::unique_ptr<Matrix>> matrices;
  for (int i = 0; i < 3; ++i) {
    const WeightFormat format = i == 1 ? WeightFormat::kBf16 : WeightFormat::kInt8;
    const std::vector<float> own(values.begin() + i * n * k, values.begin() + (i + 1) * n * k);
    matrices.push_back(
        std::make_unique<Matrix>(*device_, device_->pack(format, n, k, FloatRows(own, k))));
  }
  const Activations x(*device_, random_floats(40 * k), 40, k);
  const int64_t begins[] = {0, 21, 29, 40};
  std::vector<float> together(static_cast<size_t>(40 * n)), alone = together;
  std::vector<GemmProduct> products;
  for (size_t i = 0; i < 3; ++i) {
    GemmProduct product{&matrices[i]->w,
                        from_row(x.act, begins[i], device_->act_bytes()),
                        begins[i + 1] - begins[i],
                        {}};
    product.output.y = together.data() + begins[i] * n;
    product.output.ldy = n;
    product.output.columns = n;
    products.push_back(product);
    device_->linear(matrices[i]->w, nullptr, product.x, product.rows, alone.data() + begins[i] * n,
                    n, false);
  }
  gemm(device_->context(), products);
  EXPECT_EQ(std::memcmp(together.data(), alone.data(), alone.size() * sizeof(float)), 0);
}

// What is not finite in a row stays in it.
TEST_P(Int8Test, ARowThatIsNotFiniteIsAlone) {
  const Shape s{3, 40, 128};
  const std::vector<float> w = random_floats(s.n * s.k);
  const Matrix matrix(*device_, device_->pack(WeightFormat::kInt8, s.n, s.k, FloatRows(w, s.k)));
  std::vector<float> values = random_floats(s.m * s.k);
  std::vector<float> clean(static_cast<size_t>(s.m * s.n)), y = clean;
  {
    const Activations x(*device_, values, s.m, s.k);
    device_->linear(matrix.w, nullptr, x.act, s.m, clean.data(), s.n, false);
  }
  values[static_cast<size_t>(s.k + 7)] = std::numeric_limits<float>::infinity();
  const Activations x(*device_, values, s.m, s.k);
  device_->linear(matrix.w, nullptr, x.act, s.m, y.data(), s.n, false);
  for (int64_t j = 0; j < s.n; ++j) {
    EXPECT_TRUE(std::isnan(y[static_cast<size_t>(s.n + j)]));
    for (const int64_t r : {0, 2}) {
      EXPECT_EQ(y[static_cast<size_t>(r * s.n + j)], clean[static_cast<size_t>(r * s.n + j)]);
    }
  }
}

std::string isa_of(const ::testing::TestParamInfo<std::string>& info) { return info.param; }
INSTANTIATE_TEST_SUITE_P(Levels, Int8Test,
                         ::testing::Values("scalar", "neon", "avx2", "avx512", "avx512_bf16",
                                           "amx"),
                         isa_of);

// The loops of AMX on a model of its registers, against the portable tile.
void expect_equal_to_the_scalar_tile(int64_t kc, int64_t step) {
  std::mt19937 random(5);
  std::uniform_int_distribution<int> byte(0, 255), rest(-127, 127);
  const int64_t rows = 70, lda = kc + 64;
  std::vector<std::vector<uint8_t>> panels(
      2, std::vector<uint8_t>(static_cast<size_t>(kc * kPanelColumns)));
  for (auto& panel : panels)
    for (uint8_t& x : panel) x = static_cast<uint8_t>(byte(random));
  std::vector<int8_t> a(static_cast<size_t>(rows * lda));
  for (int8_t& x : a) x = static_cast<int8_t>(rest(random));
  const void* const b0 = panels[0].data();
  const void* const b1 = panels[1].data();
  begin_tiles<EmulatedTiles>();
  for (int64_t count = 1; count <= rows; count += step) {
    for (const bool both : {true, false}) {
      std::vector<float> want(static_cast<size_t>(rows * 64)), got = want;
      TileArgs t;
      t.a = a.data();
      t.lda = lda;
      t.b0 = &b0;
      t.b1 = both ? &b1 : nullptr;
      t.chunks = 1;
      t.kc = kc;
      t.ldc = 64;
      t.rows = count;
      for (const bool accumulate : {false, true}) {
        t.accumulate = accumulate;
        t.c = want.data();
        kernel_table(Isa::kScalar).gemm.tile_int8(t);
        t.c = got.data();
        multiply_tile_amx<EmulatedTiles, Int8Tiles>(t);
        ASSERT_EQ(std::memcmp(want.data(), got.data(), want.size() * sizeof(float)), 0) << count;
      }
    }
  }
  end_tiles<EmulatedTiles>();
}

TEST(Int8Amx, EveryRowCountIsEqualToTheScalarTile) { expect_equal_to_the_scalar_tile(192, 1); }

// Rows or panels go past L1.
TEST(Int8Amx, LongRowsAreEqualToTheScalarTile) { expect_equal_to_the_scalar_tile(kFillsL1, 32); }

}  // namespace
}  // namespace prefix::ops::testing
