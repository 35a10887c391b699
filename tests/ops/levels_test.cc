// Operation by operation: the kernels of same_bits_table() have the same bits at every level.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "ops/cpu/exact_fma.h"
#include "ops/level_tables.h"
#include "ops/rotation.h"
#include "support/cases.h"

namespace prefix::ops::testing {
namespace {

constexpr int64_t kLengths[] = {1,  2,  7,   15,  16,  17,  31,  32,  48,   63,  64,
                                65, 80, 100, 128, 192, 257, 576, 960, 1024, 1041};

class Levels : public ::testing::Test {
 protected:
  // Of very different sizes, some of them 0.
  std::vector<float> numbers(int64_t n) {
    std::vector<float> v(static_cast<size_t>(n));
    std::normal_distribution<float> normal;
    for (float& x : v)
      x = random_() % 16 == 0 ? 0
                              : std::ldexp(normal(random_), static_cast<int>(random_() % 8) - 4);
    return v;
  }
  // make(kernels) returns what they computed; the same numbers of every table.
  template <typename Make>
  void expect_same(const std::string& what, const Make& make) {
    const auto want = make(tables_.front().kernels);
    for (size_t i = 1; i < tables_.size(); ++i) {
      const auto got = make(tables_[i].kernels);
      ASSERT_EQ(got.size(), want.size());
      for (size_t at = 0; at < want.size(); ++at)
        ASSERT_EQ(std::memcmp(&got[at], &want[at], sizeof want[at]), 0)
            << what << ", " << tables_[i].name << ", number " << at << ": " << +got[at]
            << " instead of " << +want[at];
    }
  }

  std::vector<LevelTable> tables_ = level_tables();
  std::mt19937 random_{7};
};

// Columns of A in pieces that lie apart, each with panels of its own, more of them than any
// level takes at a time; few rows and many, one panel and two, onto sums that are there and
// in their place.
TEST_F(Levels, TilesOfWholeNumbersInChunks) {
  struct alignas(64) Line {
    uint8_t bytes[64];
  };
  constexpr int64_t kMaxRows = 39, kColumns = 320, kChunks = 2, kStride = kChunks * kColumns;
  std::vector<int8_t> a(kMaxRows * kStride);
  for (int8_t& x : a) x = static_cast<int8_t>(random_() % 255 - 127);
  std::vector<Line> b(kChunks * kColumns);  // two panels of 32 columns a chunk
  for (Line& line : b)
    for (uint8_t& x : line.bytes) x = static_cast<uint8_t>(1 + random_() % 255);
  for (const int64_t rows : {int64_t{1}, int64_t{3}, int64_t{4}, int64_t{13}, kMaxRows}) {
    for (const bool both : {true, false}) {
      for (const bool accumulate : {true, false}) {
        expect_same(std::to_string(rows) + " rows in chunks", [&](const KernelTable& kernels) {
          const Int8Operand operand(kernels.gemm, a.data(), kMaxRows * kStride);
          const void* left[] = {&b[0], &b[kColumns]};
          const void* right[] = {&b[kColumns / 2], &b[kColumns + kColumns / 2]};
          std::vector<float> sums(kMaxRows * 64);
          for (size_t i = 0; i < sums.size(); ++i)
            sums[i] = std::bit_cast<float>(static_cast<int32_t>(i));
          TileArgs tile;
          tile.a = operand.data();
          tile.lda = kStride;
          tile.a_chunk = kColumns;
          tile.b0 = left;
          tile.b1 = both ? right : nullptr;
          tile.kc = kColumns;
          tile.chunks = kChunks;
          tile.c = sums.data();
          tile.ldc = 64;
          tile.rows = rows;
          tile.accumulate = accumulate;
          if (kernels.gemm.begin != nullptr) kernels.gemm.begin();
          kernels.gemm.tile_int8(tile);
          if (kernels.gemm.end != nullptr) kernels.gemm.end();
          return sums;
        });
      }
    }
  }
}

TEST(ExactFma, IsRoundedOnce) {
  std::mt19937 random(3);
  const auto same = [](float a, float b, float c) {
    const float got = exact_fma(a, b, c), want = std::fma(a, b, c);
    return (std::isnan(got) && std::isnan(want)) ||
           std::bit_cast<uint32_t>(got) == std::bit_cast<uint32_t>(want);
  };
  const auto any = [&] { return std::bit_cast<float>(static_cast<uint32_t>(random())); };
  const int count = testing_support::cases(2'000'000);
  for (int i = 0; i < count; ++i) {
    float a = any(), b = any(), c = any();
    if (i % 4 != 0) {  // sums that meet
      a = std::ldexp(static_cast<float>(random() >> 8), -20);
      b = std::ldexp(static_cast<float>(random() >> 8), -30);
      c = -a * b * (i % 4 == 1 ? 1.0f : std::ldexp(1.0f, static_cast<int>(random() % 60) - 30));
    }
    ASSERT_TRUE(same(a, b, c)) << a << ' ' << b << ' ' << c;
  }
  // Half of a unit in the last place, and a little more or less of it than double precision holds.
  const float one = 1 + 0x1p-23f, tiny = 0x1p-100f;
  for (const float c : {tiny, -tiny, 0.0f, 0x1p-24f, -0x1p-24f}) {
    EXPECT_TRUE(same(one, 0x1p-24f, 1.0f + c));
    EXPECT_TRUE(same(1 + 0x1p-12f, 1 - 0x1p-12f, c));
    EXPECT_TRUE(same(0x1.fffffep0f, 0x1.fffffep0f, c));
    EXPECT_TRUE(same(0x1p-70f, 0x1.8p-79f, c));  // of no normal size
  }
  const float inf = std::numeric_limits<float>::infinity();
  for (const float c : {inf, -inf, NAN, 1.0f}) EXPECT_TRUE(same(inf, 2, c) && same(2, 3, c));
  EXPECT_TRUE(same(0x1.8p127f, 2, -1) && same(0x1.8p127f, 2, -0x1.8p127f));
}

TEST_F(Levels, SumsOfSquaresAndNorms) {
  for (const int64_t n : kLengths) {
    const std::vector<float> x = numbers(n), weight = numbers(n), start = numbers(n);
    const std::string what = "n " + std::to_string(n);
    expect_same(what, [&](const KernelTable& k) {
      std::vector<float> out(1, k.rows.sum_squares(x.data(), n)), y = start;
      out.resize(static_cast<size_t>(1 + n));
      k.rows.scale_f32(x.data(), 0.37f, weight.data(), n, out.data() + 1);
      k.rows.scale_add(x.data(), 0.37f, weight.data(), n, y.data());
      out.insert(out.end(), y.begin(), y.end());
      return out;
    });
  }
}

TEST_F(Levels, Activations) {
  for (const int64_t n : kLengths) {
    const std::vector<float> x = numbers(n), z = numbers(n), start = numbers(n);
    expect_same("n " + std::to_string(n), [&](const KernelTable& k) {
      std::vector<float> all;
      const auto take = [&](std::vector<float> y) { all.insert(all.end(), y.begin(), y.end()); };
      const auto each = [&](const auto& work) {
        std::vector<float> y = start;
        work(y.data());
        take(y);
      };
      each([&](float* y) { k.rows.multiply_silu(x.data(), z.data(), n, y); });
      each([&](float* y) { k.rows.multiply_sigmoid_f32(y, z.data(), n); });
      each([&](float* y) { k.rows.multiply(x.data(), n, y); });
      each([&](float* y) { k.rows.add_scaled(x.data(), 0.7f, n, y); });
      each([&](float* y) { k.rows.soft_cap(y, n, 3.0f); });
      each([&](float* y) { k.rows.squared_relu_f32(x.data(), n, y); });
      return all;
    });
  }
}

TEST_F(Levels, HeadsAreNormedAndTurned) {
  for (const int64_t d : {16, 32, 48, 64, 80, 96, 128, 256}) {
    for (const int64_t rotary : {int64_t{0}, d / 2, d}) {
      const std::vector<float> x = numbers(d), weight = numbers(d), cos = numbers(d),
                               sin = numbers(d);
      for (const bool norm : {false, true})
        expect_same("head " + std::to_string(d), [&](const KernelTable& k) {
          std::vector<float> out(static_cast<size_t>(d), 5.0f);
          HeadArgs args;
          args.x = x.data();
          args.weight = norm ? weight.data() : nullptr;
          args.scale = 1.3f;
          args.head_dim = d;
          args.rotary_dim = rotary / 2 * 2;
          args.cos = cos.data();
          args.sin = sin.data();
          args.out = out.data();
          k.rows.head(args);
          return out;
        });
    }
  }
}

TEST_F(Levels, RowsInWholeNumbers) {
  for (const int64_t n : kLengths) {
    const std::vector<float> x = numbers(n);
    std::vector<float> signs(x.size());
    fill_rotation_signs(n, signs.data());
    expect_same("n " + std::to_string(n), [&](const KernelTable& k) {
      std::vector<float> work(x.size());
      std::vector<int8_t> out(static_cast<size_t>((n + 63) / 64 * 64)), rest = out;
      QuantiseArgs args;
      args.x = x.data();
      args.k = n;
      args.block = rotation_block(n);
      args.signs = signs.data();
      args.work = work.data();
      args.out = out.data();
      args.rest = rest.data();
      args.k_padded = static_cast<int64_t>(out.size());
      const QuantisedRow made = k.rows.quantise(args);
      std::vector<float> all = {made.scale, static_cast<float>(made.sum),
                                static_cast<float>(made.rest_sum)};
      all.insert(all.end(), out.begin(), out.end());
      all.insert(all.end(), rest.begin(), rest.end());
      return all;
    });
  }
}

// Bytes of any value in panels, and scales that are not.
TEST_F(Levels, Products) {
  for (const int64_t rows : {1, 2, 5, 6, 7, 33, 70}) {
    const int64_t kc = 192;
    std::vector<uint8_t> bytes(static_cast<size_t>(2 * kc * 32));
    std::vector<uint16_t> halves(bytes.size());
    for (uint8_t& b : bytes) b = static_cast<uint8_t>(random_());
    const std::vector<float> floats = numbers(2 * kc * 32), a = numbers(rows * kc);
    for (size_t i = 0; i < halves.size(); ++i)
      halves[i] = static_cast<uint16_t>(std::bit_cast<uint32_t>(floats[i]) >> 16);
    std::vector<int8_t> whole(a.size());
    for (int8_t& x : whole) x = static_cast<int8_t>(random_() % 255 - 127);
    const std::vector<float> scales = numbers(64), row_scales = numbers(rows), bias = numbers(64);
    const std::vector<int32_t> corrections(static_cast<size_t>(rows), 77);
    const auto multiply = [&](const GemmKernels& g, TileFn fn, const auto& x, const auto& b) {
      const void* const left = b.data();
      const void* const right = b.data() + kc * 32;
      std::vector<float> c(static_cast<size_t>(rows * 64));
      TileArgs t;
      t.a = x.data();
      t.lda = kc;
      t.b0 = &left;
      t.b1 = &right;
      t.chunks = 1;
      t.kc = kc;
      t.c = c.data();
      t.ldc = 64;
      t.rows = rows;
      g.begin();
      fn(t);
      g.end();
      return c;
    };
    const std::string what = "rows " + std::to_string(rows);
    expect_same(
        what, [&](const KernelTable& k) { return multiply(k.gemm, k.gemm.tile_bf16, a, halves); });
    expect_same(what,
                [&](const KernelTable& k) { return multiply(k.gemm, k.gemm.tile_f32, a, floats); });
    const auto whole_sums = [&](const KernelTable& k) {
      const Int8Operand operand(k.gemm, whole.data(), rows * kc);
      return multiply(k.gemm, k.gemm.tile_int8, operand, bytes);
    };
    const WholeSums scaling{corrections.data(), row_scales.data(), scales.data()};
    const auto scaled = [&](const KernelTable& k) {
      std::vector<float> c = whole_sums(k);
      ScaleSumsArgs args;
      args.c = c.data();
      args.ldc = 64;
      args.rows = rows;
      args.columns = 64;
      args.whole = scaling;
      k.gemm.scale_sums(args);
      return c;
    };
    expect_same(what, scaled);
    // Sums of whole numbers, or those that scaled() has made numbers of.
    const auto gated = [&](const KernelTable& k, const WholeSums* of, ActivationFn fn,
                           int64_t columns) {
      const std::vector<float> c = of == nullptr ? scaled(k) : whole_sums(k);
      std::vector<float> out(static_cast<size_t>(rows * 32));
      GatedArgs args;
      args.c = c.data();
      args.ldc = 64;
      args.whole = of;
      args.bias_gate = args.bias_up = bias.data();
      args.out = out.data();
      args.ldo = 32;
      args.rows = rows;
      args.columns = columns;
      args.fn = fn;
      k.gemm.gated_f32(args);
      return out;
    };
    const auto stored = [&](const KernelTable& k, const WholeSums* of, int64_t columns, bool add) {
      const std::vector<float> c = of == nullptr ? scaled(k) : whole_sums(k);
      std::vector<float> y(bias);
      y.resize(c.size(), 3);
      StoreArgs args;
      args.c = c.data();
      args.ldc = 64;
      args.whole = of;
      args.bias = add ? bias.data() : nullptr;
      args.y = y.data();
      args.ldy = 64;
      args.rows = rows;
      args.columns = columns;
      args.add = add;
      k.gemm.store(args);
      return y;
    };
    const auto expect_one_way = [&](const auto& finished) {
      expect_same(what, [&](const KernelTable& k) { return finished(k, nullptr); });
      for (const LevelTable& table : tables_)
        EXPECT_EQ(finished(table.kernels, &scaling), finished(table.kernels, nullptr)) << what;
    };
    for (const int64_t columns : {32, 19}) {
      for (const ActivationFn fn :
           {ActivationFn::kSilu, ActivationFn::kGeluTanh, ActivationFn::kClampedSwiglu}) {
        expect_one_way(
            [&](const KernelTable& k, const WholeSums* of) { return gated(k, of, fn, columns); });
      }
    }
    for (const int64_t columns : {64, 51}) {
      for (const bool add : {false, true}) {
        expect_one_way(
            [&](const KernelTable& k, const WholeSums* of) { return stored(k, of, columns, add); });
      }
    }
  }
}

// What a key block leaves of int8 keys and values: m, l, o, and weights in whole numbers.
TEST_F(Levels, Attention) {
  const int64_t lds = 272, d = 96, ldo = d + 16;
  for (int round = 0; round < 40; ++round) {
    const int64_t rows = round % 4 < 2 ? 13 : 33;  // fewer than tiles have, and one more
    std::vector<int32_t> sums(static_cast<size_t>(rows * lds));
    for (int32_t& s : sums) s = static_cast<int32_t>(random_() % 400001) - 200000;
    std::vector<int32_t> first, last;
    for (int64_t r = 0; r < rows; ++r) {
      first.push_back(round % 2 == 0 ? 0 : static_cast<int32_t>(random_() % 200));
      last.push_back(first.back() + static_cast<int32_t>(random_() % 256) - 1);
    }
    const std::vector<float> o = numbers(rows * ldo);
    std::vector<float> l, m, q_scales, k_scales, v_scales;
    for (int64_t r = 0; r < rows; ++r) {
      m.push_back(r % 3 == 0 ? -INFINITY : static_cast<float>(r) - 5);
      l.push_back(r % 3 == 0 ? 0.0f : 1.5f);
      q_scales.push_back(r == 5 ? 0.0f : 0.01f * static_cast<float>(1 + random_() % 9));
    }
    for (int64_t i = 0; i < 256; ++i) {
      k_scales.push_back(0.001f * static_cast<float>(random_() % 10));
      v_scales.push_back(i % 40 == 0 ? 0.0f : 0.02f * static_cast<float>(1 + random_() % 30));
    }
    std::vector<const float*> key_scales, value_scales;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t page = 0; page < kBlockPages; ++page) {
        key_scales.push_back(k_scales.data() + page * 32);
        value_scales.push_back(v_scales.data() + page * 32);
      }
    std::vector<std::byte> values(static_cast<size_t>(kBlockPages * 32 * d));
    for (std::byte& v : values) v = static_cast<std::byte>(random_());
    expect_same("round " + std::to_string(round), [&](const KernelTable& k) {
      std::vector<float> s(sums.size()), now_m = m, now_l = l, now_o = o;
      std::memcpy(s.data(), sums.data(), sums.size() * sizeof(float));
      std::vector<uint8_t> p(static_cast<size_t>(rows * 272), 9);
      std::vector<float> p_scales(static_cast<size_t>(rows * kBlockSpans));
      std::vector<int32_t> corrections(static_cast<size_t>(rows), 4096);
      WholeSoftmaxArgs args;
      args.rows.s = s.data();
      args.rows.lds = lds;
      args.rows.first = first.data();
      args.rows.last = last.data();
      args.rows.scale = round % 3 == 0 ? 12.0f : 0.2f;
      args.rows.cap_scale = round % 3 == 0 ? 0.01f : 0;
      args.rows.m = now_m.data();
      args.rows.l = now_l.data();
      args.rows.o = now_o.data();
      args.rows.ldo = ldo;
      args.rows.d = d;
      args.rows.rows = rows;
      args.corrections = corrections.data();
      args.q_scales = q_scales.data();
      args.key_scales = key_scales.data();
      args.value_scales = value_scales.data();
      args.p = p.data();
      args.ldp = 272;
      args.p_scales = p_scales.data();
      k.attention.softmax_int8(args);
      std::vector<const std::byte*> blocks;
      for (int64_t page = 0; page < kBlockPages; ++page)
        blocks.push_back(values.data() + page * 32 * d);
      k.gemm.begin();
      for (int64_t span = 0; span < kBlockSpans; ++span) {
        ValueTileArgs tile;
        tile.p = p.data() + span * kSpanPages * 32;
        tile.ldp = 272;
        tile.p_scales = p_scales.data() + span;
        tile.blocks = blocks.data() + span * kSpanPages;
        tile.pages = 1 + (round / 2 + span) % kSpanPages;  // not always all
        tile.o = now_o.data();
        tile.ldo = ldo;
        tile.d = d;
        tile.rows = rows;
        k.gemm.tile_values(tile);
      }
      k.gemm.end();
      MergeArgs merge;
      std::vector<float> total_m = m, total_l = l, total_o = o;
      merge.m = total_m.data();
      merge.l = total_l.data();
      merge.o = total_o.data();
      merge.from_m = now_m.data();
      merge.from_l = now_l.data();
      merge.from_o = now_o.data();
      merge.ldo = ldo;
      merge.d = d;
      merge.rows = rows;
      k.attention.merge(merge);
      std::vector<float> all = now_m, finished(static_cast<size_t>(d));
      for (int64_t r = 0; r < rows; ++r) {
        k.attention.finish_f32(total_o.data() + r * ldo, total_l[static_cast<size_t>(r)], d - 5,
                               finished.data());
        all.insert(all.end(), finished.begin(), finished.end());
        EXPECT_TRUE(std::isfinite(now_l[static_cast<size_t>(r)]));
      }
      for (const auto* more : {&now_l, &now_o, &p_scales, &total_m, &total_l, &total_o})
        all.insert(all.end(), more->begin(), more->end());
      all.insert(all.end(), p.begin(), p.end());
      return all;
    });
  }
}

TEST_F(Levels, RecurrentLayers) {
  const int64_t tokens = 11;
  for (const int64_t columns : {7, 16, 24, 32}) {
    for (const int64_t state : {5, 16, 33}) {
      const int64_t lds = 32;
      const std::vector<float> s = numbers(state * lds), x = numbers(tokens * columns),
                               b = numbers(tokens * state), c = numbers(tokens * state),
                               gates = numbers(tokens), bias = numbers(tokens);
      expect_same("columns " + std::to_string(columns), [&](const KernelTable& k) {
        std::vector<float> dt(gates.size()), decay(gates.size()), y(x.size()), now = s, all;
        k.scan.mamba2_gates(gates.data(), bias.data(), bias.data(), 0.01f, 2.0f, tokens, dt.data(),
                            decay.data());
        for (float& f : decay) f = f > 1 ? 1 / f : f;
        Mamba2Kernel mamba;
        mamba.s = now.data();
        mamba.lds = lds;
        mamba.state = state;
        mamba.columns = columns;
        mamba.tokens = tokens;
        mamba.x = x.data();
        mamba.ldx = columns;
        mamba.b = b.data();
        mamba.c = c.data();
        mamba.ld_bc = state;
        mamba.dt = dt.data();
        mamba.decay = decay.data();
        mamba.ld_gates = 1;
        mamba.d = 0.3f;
        mamba.y = y.data();
        mamba.ldy = columns;
        k.scan.mamba2(mamba);
        for (const auto* more : {&dt, &decay, &y, &now})
          all.insert(all.end(), more->begin(), more->end());
        return all;
      });
      expect_same("columns " + std::to_string(columns), [&](const KernelTable& k) {
        std::vector<float> gate(gates.size()), decay(gates.size()), y(x.size()), now = s, all;
        const std::vector<float> scale(gates.size(), -0.3f);
        k.scan.gated_delta_gates(gates.data(), bias.data(), scale.data(), bias.data(), tokens,
                                 decay.data(), gate.data());
        GatedDeltaKernel delta;
        delta.s = now.data();
        delta.lds = lds;
        delta.key_dim = state;
        delta.columns = columns;
        delta.tokens = tokens;
        delta.q = b.data();
        delta.k = c.data();
        delta.v = x.data();
        delta.ld = std::min(columns, state);
        delta.q_scale = delta.k_scale = gate.data();
        delta.ld_scales = 1;
        delta.decay = decay.data();
        delta.b = gate.data();
        delta.ld_gates = 1;
        delta.y = y.data();
        delta.ldy = columns;
        k.scan.gated_delta(delta);
        for (const auto* more : {&decay, &gate, &y})
          all.insert(all.end(), more->begin(), more->end());
        for (int64_t i = 0; i < state; ++i)
          all.insert(all.end(), now.begin() + i * lds, now.begin() + i * lds + columns);
        return all;
      });
    }
    const int64_t n = columns * 5;
    const std::vector<float> taps = numbers(4 * n), weight = numbers(4 * n), bias = numbers(n);
    expect_same("conv", [&](const KernelTable& k) {
      std::vector<float> out(static_cast<size_t>(n));
      const float* x[] = {&taps[0], &taps[static_cast<size_t>(n)],
                          &taps[static_cast<size_t>(2 * n)], &taps[static_cast<size_t>(3 * n)]};
      ConvKernel conv;
      conv.x = x;
      conv.weight = weight.data();
      conv.ld_weight = n;
      conv.width = 4;
      conv.bias = bias.data();
      conv.silu = true;
      conv.n = n;
      conv.out = out.data();
      k.scan.conv(conv);
      return out;
    });
  }
}

// Weights times values as plain lines compute them.
TEST_F(Levels, ValuesOfAllPagesAreOneSum) {
  for (const int64_t rows : {1, 2, 3, 4, 5, 6, 7, 16, 20, 32, 47, 65, 99}) {
    const int64_t d = rows % 3 == 0 ? 128 : 96, ldo = d + 16, pages = 1 + rows % 4, ldp = 272;
    std::vector<uint8_t> p(static_cast<size_t>(rows * ldp));
    for (uint8_t& x : p) x = static_cast<uint8_t>(random_());
    const std::vector<float> scales = numbers(rows * kBlockSpans), start = numbers(rows * ldo);
    std::vector<int8_t> v(static_cast<size_t>(pages * 32 * d));
    for (int8_t& x : v) x = static_cast<int8_t>(random_());
    std::vector<const std::byte*> blocks;
    for (int64_t page = 0; page < pages; ++page)
      blocks.push_back(reinterpret_cast<const std::byte*>(v.data()) + page * 32 * d);
    std::vector<float> want = start;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < d; ++c) {
        int32_t sum = 0;
        for (int64_t key = 0; key < pages * 32; ++key)
          sum += p[static_cast<size_t>(r * ldp + key)] *
                 v[static_cast<size_t>(key / 32 * 32 * d + c / 32 * 1024 +
                                       (key % 32 / 4 * 32 + c % 32) * 4 + key % 4)];
        float& o = want[static_cast<size_t>(r * ldo + c)];
        o = std::fma(static_cast<float>(sum), scales[static_cast<size_t>(r * kBlockSpans)], o);
      }
    for (const LevelTable& level : tables_) {
      std::vector<float> o = start;
      ValueTileArgs tile;
      tile.p = p.data();
      tile.ldp = ldp;
      tile.p_scales = scales.data();
      tile.blocks = blocks.data();
      tile.pages = pages;
      tile.o = o.data();
      tile.ldo = ldo;
      tile.d = d;
      tile.rows = rows;
      level.kernels.gemm.begin();
      level.kernels.gemm.tile_values(tile);
      level.kernels.gemm.end();
      ASSERT_EQ(std::memcmp(o.data(), want.data(), o.size() * sizeof(float)), 0)
          << level.name << ", rows " << rows;
    }
  }
}

}  // namespace
}  // namespace prefix::ops::testing
