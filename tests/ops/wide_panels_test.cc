// Panels of bf16 that become f32 while others are multiplied: the sums have the bits of tile_bf16,
// whatever comes after what, and memory behind the panels is left as it is.
#include "ops/cpu/wide_panels.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string_view>
#include <vector>

#include "ops/cpu/isa.h"
#include "ops/cpu/kernels.h"

namespace prefix::ops {
namespace {

constexpr int64_t kColumns = 2 * kPanelColumns;

struct Line {
  alignas(64) uint16_t at[32];
};

class WidePanelsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string_view why = isa_obstacle(Isa::kAvx512, detect_cpu_features());
        !why.empty())
      GTEST_SKIP() << "avx512: " << why;
    gemm_ = kernel_table(Isa::kAvx512).gemm;
    ASSERT_NE(gemm_.tile_wide, nullptr);
  }

  // Panels of k x 32 numbers, any bits but those of NaN.
  const void* panel(int64_t k) {
    std::vector<Line>& lines = panels_.emplace_back(static_cast<size_t>(k));
    for (Line& line : lines) {
      for (uint16_t& x : line.at) {
        x = static_cast<uint16_t>(random_());
        if ((x & 0x7f80) >= 0x6000) x = static_cast<uint16_t>(x & 0x8fff);
      }
    }
    return lines.data();
  }
  std::vector<float> rows(int64_t count, int64_t k) {
    std::vector<float> x(static_cast<size_t>(count * k));
    for (float& v : x) v = std::uniform_real_distribution<float>(-1, 1)(random_);
    return x;
  }

  struct Tile {
    std::vector<const void*> left, right;  // right may be empty
    int64_t kc;
    Panels panels() const {
      return {left.data(), right.empty() ? nullptr : right.data(),
              static_cast<int64_t>(left.size()), kc};
    }
  };
  Tile tile(int64_t chunks, int64_t kc, bool both = true) {
    Tile t{{}, {}, kc};
    for (int64_t i = 0; i < chunks; ++i) {
      t.left.push_back(panel(kc));
      if (both) t.right.push_back(panel(kc));
    }
    return t;
  }

  // By `wide`, then by tile_bf16.
  void expect_same(WidePanels& wide, const Tile& t, int64_t count, const Panels& next) {
    const Panels panels = t.panels();
    const std::vector<float> x = rows(count, panels.chunks * t.kc);
    TileArgs args;
    args.a = x.data();
    args.lda = panels.chunks * t.kc;
    args.a_chunk = t.kc;
    args.b0 = panels.b0;
    args.b1 = panels.b1;
    args.chunks = panels.chunks;
    args.kc = t.kc;
    args.ldc = kColumns;
    args.rows = count;
    args.accumulate = true;
    std::vector<float> got(static_cast<size_t>(count * kColumns), 0.5f), want = got;
    args.c = got.data();
    wide.multiply(args, next);
    args.c = want.data();
    gemm_.tile_bf16(args);
    ASSERT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)), 0)
        << count << " rows, " << panels.chunks << " x " << t.kc << ", next " << next.chunks << " x "
        << next.kc;
  }

  GemmKernels gemm_;
  std::minstd_rand random_{7};
  std::vector<std::vector<Line>> panels_;
  Scratch memory_;
};

TEST_F(WidePanelsTest, BitsAreThoseOfTileBf16WhateverFollows) {
  panels_.reserve(1000);
  std::vector<Tile> tiles;
  for (const int64_t kc : {32, 64, 96, 320}) tiles.push_back(tile(1, kc));
  tiles.push_back(tile(1, 64, false));
  for (const int64_t chunks : {2, 3, 8}) tiles.push_back(tile(chunks, 32));
  tiles.push_back(tile(3, 32, false));
  Tile other = tiles[6];  // which begins with the same page
  other.left[1] = panel(32);
  tiles.push_back(other);
  WidePanels wide(gemm_, memory_, 320);
  const auto any = [&](int64_t n) {
    return std::uniform_int_distribution<int64_t>(0, n - 1)(random_);
  };
  for (int i = 0; i < 600; ++i) {
    const Tile& t = tiles[static_cast<size_t>(any(std::ssize(tiles)))];
    const Tile& next = tiles[static_cast<size_t>(any(std::ssize(tiles)))];
    const int64_t count = 1 + any(52);
    ASSERT_NO_FATAL_FAILURE(expect_same(wide, t, count, any(4) == 0 ? Panels{} : next.panels()));
    // As it was said, most of the time; some of it in pieces of its rows.
    if (any(3) != 0) {
      ASSERT_NO_FATAL_FAILURE(expect_same(wide, next, 1 + any(52), t.panels()));
      ASSERT_NO_FATAL_FAILURE(expect_same(wide, next, 24, t.panels()));
    }
  }
}

TEST_F(WidePanelsTest, NextPanelsAreThereAfterATileOf24Rows) {
  const Tile first = tile(1, 64), second = tile(1, 64), third = tile(1, 64);
  GemmKernels counted = gemm_;
  static int widened;
  static decltype(gemm_.widen) widen;
  widen = gemm_.widen;
  widened = 0;
  counted.widen = [](const void* from, int64_t begin, int64_t end, float* to) {
    if (begin < end) ++widened;
    widen(from, begin, end, to);
  };
  WidePanels wide(counted, memory_, 64);
  expect_same(wide, first, kWideningRows, second.panels());
  EXPECT_EQ(widened, 2);  // of the first tile, before it
  expect_same(wide, second, kWideningRows, first.panels());
  expect_same(wide, second, 6, first.panels());
  expect_same(wide, first, 1, {});
  EXPECT_EQ(widened, 2);
  expect_same(wide, first, kWideningRows - 1, third.panels());
  expect_same(wide, third, 6, {});
  EXPECT_EQ(widened, 4);  // fewer rows prepare nothing
}

TEST_F(WidePanelsTest, WhatLiesBehindThePanelsStays) {
  constexpr int64_t kK = 64;
  const Tile now = tile(1, kK), next = tile(1, kK);
  std::vector<Line> wide(2 * kK * 2 + 1);
  std::memset(wide.data(), 0, wide.size() * sizeof(Line));
  std::memset(&wide.back(), 0x5a, sizeof(Line));
  const std::vector<float> x = rows(kWideningRows, kK);
  std::vector<float> f32(static_cast<size_t>(kColumns * kK)), c(kColumns * kWideningRows);
  gemm_.widen(now.left[0], 0, kK, f32.data());
  gemm_.widen(now.right[0], 0, kK, f32.data() + kK * kPanelColumns);
  const void* const left = f32.data();
  const void* const right = f32.data() + kK * kPanelColumns;
  TileArgs args;
  args.a = x.data();
  args.lda = kK;
  args.b0 = &left;
  args.b1 = &right;
  args.chunks = 1;
  args.kc = kK;
  args.c = c.data();
  args.ldc = kColumns;
  args.rows = kWideningRows;
  args.widen0 = next.left.data();
  args.widen1 = next.right.data();
  args.widen_kc = kK;
  args.wide = reinterpret_cast<float*>(wide.data());
  gemm_.tile_wide(args);
  Line untouched;
  std::memset(&untouched, 0x5a, sizeof untouched);
  EXPECT_EQ(std::memcmp(&wide.back(), &untouched, sizeof untouched), 0);
  std::vector<float> want(static_cast<size_t>(kColumns * kK));
  gemm_.widen(next.left[0], 0, kK, want.data());
  gemm_.widen(next.right[0], 0, kK, want.data() + kK * kPanelColumns);
  EXPECT_EQ(std::memcmp(wide.data(), want.data(), want.size() * sizeof(float)), 0);
}

}  // namespace
}  // namespace prefix::ops
