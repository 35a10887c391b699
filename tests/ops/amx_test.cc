// The AMX tile product: its loops on a model of the tile registers (any machine), and the compiler
// hazard of its wrappers on the real ones.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "ops/amx_emulation.h"
#include "ops/cpu/amx_impl.h"
#include "ops/cpu/context.h"
#include "ops/cpu/gemm.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/pack.h"
#include "support/dtype.h"

namespace prefix::ops::testing {

template <int kOptimisation>
float product_of_locals(uint16_t a, uint16_t b, int pairs);
template <>
float product_of_locals<1>(uint16_t a, uint16_t b, int pairs);
template <>
float product_of_locals<2>(uint16_t a, uint16_t b, int pairs);
template <>
float product_of_locals<3>(uint16_t a, uint16_t b, int pairs);

namespace {

std::vector<uint16_t> random_bf16(std::mt19937& random, int64_t count) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<uint16_t> v(static_cast<size_t>(count));
  for (uint16_t& x : v) x = bf16_from_f32(uniform(random));
  return v;
}

// A tile product's operands: `chunks` chunks of kc, two panels each, rows at a stride with junk
// between them.
struct Case {
  int64_t rows, chunks, kc, lda, ldc;
  std::vector<uint16_t> a;
  std::vector<std::vector<uint16_t>> panels;  // [2 * chunk + side]
  std::vector<const void*> b0, b1;

  Case(std::mt19937& random, int64_t m, int64_t n_chunks, int64_t k)
      : rows(m), chunks(n_chunks), kc(k), lda(n_chunks * k + 32), ldc(80) {
    a = random_bf16(random, rows * lda);
    for (int64_t i = 0; i < 2 * chunks; ++i) panels.push_back(random_bf16(random, kc * 32));
    for (int64_t i = 0; i < chunks; ++i) {
      b0.push_back(panels[static_cast<size_t>(2 * i)].data());
      b1.push_back(panels[static_cast<size_t>(2 * i + 1)].data());
    }
  }
  TileArgs args(int64_t row, int64_t count, bool both, bool accumulate, float* c) const {
    TileArgs t;
    t.a = a.data() + row * lda;
    t.lda = lda;
    t.a_chunk = kc;
    t.b0 = b0.data();
    t.b1 = both ? b1.data() : nullptr;
    t.chunks = chunks;
    t.kc = kc;
    t.c = c;
    t.ldc = ldc;
    t.rows = count;
    t.accumulate = accumulate;
    return t;
  }
  double exact(int64_t row, int64_t column) const {
    double sum = 0;
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      const auto& panel = panels[static_cast<size_t>(2 * chunk + column / 32)];
      for (int64_t k = 0; k < kc; ++k) {
        sum +=
            static_cast<double>(f32_from_bf16(a[static_cast<size_t>(row * lda + chunk * kc + k)])) *
            f32_from_bf16(panel[static_cast<size_t>(k / 2 * 64 + column % 32 * 2 + k % 2)]);
      }
    }
    return sum;
  }
};

TEST(AmxLoops, EveryRowCountAndCutIsRightAndBitEqual) {
  std::mt19937 random(3);
  for (const auto& [chunks, kc] : {std::pair<int64_t, int64_t>{1, 96}, {1, 32}, {5, 32}, {3, 64}}) {
    const Case c(random, 70, chunks, kc);
    const std::vector<float> start(static_cast<size_t>(c.rows * c.ldc), 0.25f);
    std::vector<float> whole = start;
    begin_tiles<EmulatedTiles>();
    multiply_tile_amx<EmulatedTiles>(c.args(0, c.rows, true, true, whole.data()));
    for (int64_t r = 0; r < c.rows; ++r) {
      for (int64_t j = 0; j < 64; ++j) {
        ASSERT_NEAR(whole[static_cast<size_t>(r * c.ldc + j)], 0.25 + c.exact(r, j), 1e-4);
      }
    }
    for (int64_t rows = 1; rows <= c.rows; ++rows) {
      const int64_t first = (c.rows - rows) / 2;
      for (const bool both : {true, false}) {
        std::vector<float> part = start;
        multiply_tile_amx<EmulatedTiles>(c.args(first, rows, both, true, part.data()));
        for (int64_t r = 0; r < c.rows; ++r) {
          for (int64_t j = 0; j < c.ldc; ++j) {
            const bool written = r < rows && j < (both ? 64 : 32);
            const float want =
                written ? whole[static_cast<size_t>((first + r) * c.ldc + j)] : 0.25f;
            ASSERT_EQ(part[static_cast<size_t>(r * c.ldc + j)], want)
                << "rows " << rows << " row " << r << " column " << j;
          }
        }
      }
    }
    end_tiles<EmulatedTiles>();
    EXPECT_FALSE(EmulatedTiles::configured);
  }
}

TEST(AmxLoops, OverwritesUnlessAdding) {
  std::mt19937 random(4);
  const Case c(random, 35, 2, 32);
  std::vector<float> zero(static_cast<size_t>(c.rows * c.ldc), 0.0f);
  std::vector<float> junk(zero.size(), NAN);
  multiply_tile_amx<EmulatedTiles>(c.args(0, c.rows, true, true, zero.data()));
  multiply_tile_amx<EmulatedTiles>(c.args(0, c.rows, true, false, junk.data()));
  for (int64_t r = 0; r < c.rows; ++r) {
    ASSERT_EQ(std::memcmp(&zero[static_cast<size_t>(r * c.ldc)],
                          &junk[static_cast<size_t>(r * c.ldc)], 64 * sizeof(float)),
              0);
  }
  end_tiles<EmulatedTiles>();
}

TEST(AmxLoops, ShapesAreLoadedOnlyWhenTheyChange) {
  std::mt19937 random(5);
  const Case c(random, 64, 1, 32);
  std::vector<float> out(static_cast<size_t>(c.rows * c.ldc));
  begin_tiles<EmulatedTiles>();
  EmulatedTiles::configurations = 0;
  for (int i = 0; i < 5; ++i) {
    multiply_tile_amx<EmulatedTiles>(c.args(0, 48, true, false, out.data()));
  }
  EXPECT_EQ(EmulatedTiles::configurations, 0);
  multiply_tile_amx<EmulatedTiles>(c.args(0, 37, true, false, out.data()));
  multiply_tile_amx<EmulatedTiles>(c.args(0, 5, true, false, out.data()));
  EXPECT_EQ(EmulatedTiles::configurations, 1);
  end_tiles<EmulatedTiles>();
}

// The whole driver with the parameters of the amx level: many rows go over one panel after the
// other, of which the last has no neighbour, few rows over two.
TEST(AmxLoops, GemmDriverMatchesFloat64AndItsOwnBits) {
  KernelTable table = kernel_table(Isa::kScalar);
  use_tiles<EmulatedTiles>(table.gemm);
  table.gemm.tile_bf16 = multiply_tile_amx<EmulatedTiles>;
  table.gemm.act_is_bf16 = true;
  Threads threads(2);
  Scratch scratch[2];
  CpuContext context;
  context.scratch = scratch;
  context.threads = &threads;
  context.kernels = &table;

  std::mt19937 random(6);
  const int64_t m = 230, n = 70, k = 1100;
  const std::vector<uint16_t> w = random_bf16(random, n * k);
  PackedWeights matrix = PackedWeights::of_shape(WeightFormat::kBf16, n, k);
  std::vector<std::byte> memory(matrix.bytes() + 64);
  std::byte* data = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64);
  std::vector<float> values;
  for (const uint16_t bits : w) values.push_back(f32_from_bf16(bits));
  const FloatRows weights(std::move(values), k);
  const WeightSource* sources[] = {&weights};
  pack_panels(threads, table.rows, matrix, sources, n, {}, data);
  matrix.data = data;
  const int64_t ld = matrix.k_padded + 32;
  std::vector<uint16_t> x(static_cast<size_t>(m * ld), 0xffff);  // NaN in the padding
  for (int64_t r = 0; r < m; ++r) {
    const std::vector<uint16_t> row = random_bf16(random, k);
    std::memcpy(&x[static_cast<size_t>(r * ld)], row.data(), row.size() * 2);
  }
  const auto multiply = [&](int64_t first, int64_t rows) {
    std::vector<float> y(static_cast<size_t>(rows * n));
    GemmOutput output;
    output.y = y.data();
    output.ldy = n;
    output.columns = n;
    gemm(context, matrix, {reinterpret_cast<std::byte*>(&x[static_cast<size_t>(first * ld)]), ld},
         rows, output);
    return y;
  };
  const std::vector<float> all = multiply(0, m);
  for (int64_t r = 0; r < m; r += 7) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t i = 0; i < k; ++i) {
        sum += static_cast<double>(f32_from_bf16(x[static_cast<size_t>(r * ld + i)])) *
               f32_from_bf16(w[static_cast<size_t>(j * k + i)]);
      }
      ASSERT_NEAR(all[static_cast<size_t>(r * n + j)], sum, 1e-3);
    }
  }
  for (const auto& [first, rows] :
       {std::pair<int64_t, int64_t>{0, 1}, {5, 17}, {40, 63}, {40, 64}, {100, 130}}) {
    const std::vector<float> some = multiply(first, rows);
    ASSERT_EQ(std::memcmp(some.data(), &all[static_cast<size_t>(first * n)], some.size() * 4), 0);
  }
}

TEST(AmxHardware, LocalOperandsReachTheTilesAtEveryOptimisation) {
  const CpuFeatures features = detect_cpu_features();
  const std::string_view obstacle = isa_obstacle(Isa::kAmx, features);
  if (!obstacle.empty()) GTEST_SKIP() << obstacle;
#if defined(__x86_64__)
  for (int pairs = 1; pairs <= 16; ++pairs) {
    const float want = 3.0f * static_cast<float>(pairs);  // 2 pairs x 1.5 x 1
    EXPECT_EQ(product_of_locals<1>(bf16_from_f32(1.5f), bf16_from_f32(1), pairs), want);
    EXPECT_EQ(product_of_locals<2>(bf16_from_f32(1.5f), bf16_from_f32(1), pairs), want);
    EXPECT_EQ(product_of_locals<3>(bf16_from_f32(1.5f), bf16_from_f32(1), pairs), want);
  }
#endif
}

}  // namespace
}  // namespace prefix::ops::testing
