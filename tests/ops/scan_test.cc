// Convolution and scans over the paths of a step: every CPU level of this machine against float64,
// and the same tokens in other segments, steps and threads against themselves, bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "ops/cpu/scan_walk.h"
#include "ops/op_cpu.h"
#include "ops/scan_reference.h"
#include "support/relative_error.h"

namespace prefix::ops::testing {
namespace {

using testing_support::relative_error;

constexpr double kTolerance = 1e-5;

class Scan : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    for (const IsaLevel& level : cpu_isa_levels())
      if (level.name == GetParam() && !level.available)
        GTEST_SKIP() << GetParam() << ": " << level.reason;
    device_ = device(2);
  }
  static std::unique_ptr<Device> device(int threads) {
    return make_cpu_device({kF32Types, GetParam(), std::make_shared<Threads>(threads)});
  }
  Rng rng_{33};
  std::unique_ptr<Device> device_;
};

INSTANTIATE_TEST_SUITE_P(Levels, Scan,
                         ::testing::Values("scalar", "neon", "avx2", "avx512", "avx512_bf16",
                                           "amx"),
                         [](const auto& level) { return level.param; });

constexpr RecurrentKind kKinds[] = {RecurrentKind::kMamba2, RecurrentKind::kGatedDelta};

void expect_same(const std::vector<float>& a, const std::vector<float>& b,
                 const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  ASSERT_EQ(0, std::memcmp(a.data(), b.data(), a.size() * sizeof(float))) << what;
}

TEST_P(Scan, RandomTreesAgreeWithFloat64) {
  const std::unique_ptr<Device> one = device(1);
  for (const RecurrentKind kind : kKinds) {
    for (int i = 0; i < 80; ++i) {
      const Recurrent model = random_model(kind, rng_);
      const ScanPlan plan = random_plan(model, rng_, static_cast<int>(pick(rng_, 1, 9)), 12);
      SCOPED_TRACE(cat("case ", i, ": ", model.name(), ", segments ", plan.segments.size()));
      const Tokens tokens = random_tokens(model, rows_of(plan), rng_);
      Pool pool(model, plan, rng_);
      const Expected want = float64(model, plan, tokens, pool);
      const Result got = run(i % 2 == 0 ? *device_ : *one, model, plan, tokens, pool);
      ASSERT_LE(relative_error(got.conv, want.conv), kTolerance);
      ASSERT_LE(relative_error(got.y, want.y), kTolerance);
      ASSERT_EQ(got.flags, std::vector<int32_t>(got.flags.size(), 0));
      for (const auto& [state, values] : want.states)
        ASSERT_LE(relative_error(pool.state(model, state), values), kTolerance)
            << "state " << state;
      ASSERT_TRUE(pool.others_untouched(model, want));
    }
  }
}

// A text cut before any token: in one step, and over a stored state.
TEST_P(Scan, CutsChangeNoBit) {
  for (const RecurrentKind kind : kKinds) {
    const Recurrent model = random_model(kind, rng_);
    SCOPED_TRACE(model.name());
    constexpr int32_t kRows = 37;
    const Tokens tokens = random_tokens(model, kRows, rng_);
    // State i is after row i; the last one is what the others are compared with.
    ScanPlan every = make_plan(model, kRows + 2, {{0, kRows, -1, -1}});
    for (int32_t row = 0; row < kRows; ++row) every.writes.push_back({row, row});
    Pool pool(model, every, rng_);
    const Result taken = run(*device_, model, every, tokens, pool);
    const ScanPlan plain = make_plan(model, kRows + 2, {{0, kRows, -1, -1}});
    const Result whole = run(*device_, model, plain, tokens, pool);
    expect_same(taken.y, whole.y, "taking states");
    expect_same(taken.conv, whole.conv, "taking states");
    const std::vector<float> last = pool.state(model, kRows - 1);
    for (int32_t cut = 1; cut < kRows; ++cut) {
      SCOPED_TRACE(cat("cut before ", cut));
      ScanPlan two = make_plan(model, kRows + 2, {{0, cut, -1, -1}, {cut, kRows, 0, -1}});
      two.writes = {{cut - 1, kRows}, {kRows - 1, kRows + 1}};
      const Result inside = run(*device_, model, two, tokens, pool);
      expect_same(inside.y, whole.y, "y of two segments");
      expect_same(inside.conv, whole.conv, "convolution of two segments");
      expect_same(pool.state(model, kRows), pool.state(model, cut - 1), "state at the cut");
      expect_same(pool.state(model, kRows + 1), last, "state at the end");

      ScanPlan first = make_plan(model, kRows + 2, {{0, cut, -1, -1}});
      first.writes = {{cut - 1, kRows}};
      const Result before = run(*device_, model, first, tokens, pool);
      expect_same(before.y, part(whole.y, tokens.rows, 0, cut), "y before the cut");
      expect_same(pool.state(model, kRows), pool.state(model, cut - 1), "state of the first part");
      ScanPlan rest = make_plan(model, kRows + 2, {{0, kRows - cut, -1, kRows}});
      rest.writes = {{kRows - cut - 1, kRows + 1}};
      const Result after = run(*device_, model, rest, tokens.rows_from(cut), pool);
      expect_same(after.y, part(whole.y, tokens.rows, cut, kRows), "y from a stored state");
      expect_same(after.conv, part(whole.conv, tokens.rows, cut, kRows), "convolution from it");
      expect_same(pool.state(model, kRows + 1), last, "state at the end of the second part");
    }
  }
}

TEST_P(Scan, ThreadsChangeNoBit) {
  const std::unique_ptr<Device> others[] = {device(1), device(3)};
  for (const RecurrentKind kind : kKinds) {
    for (int i = 0; i < 6; ++i) {
      const Recurrent model = random_model(kind, rng_);
      SCOPED_TRACE(model.name());
      const ScanPlan plan = random_plan(model, rng_, 7, 20);
      const Tokens tokens = random_tokens(model, rows_of(plan), rng_);
      Pool pool(model, plan, rng_);
      const std::vector<std::byte> before = pool.bytes();
      const Result want = run(*device_, model, plan, tokens, pool);
      const std::vector<std::byte> after = pool.bytes();
      for (const auto& other : others) {
        pool.set(before);
        const Result got = run(*other, model, plan, tokens, pool);
        expect_same(got.y, want.y, "y");
        expect_same(got.conv, want.conv, "convolution");
        ASSERT_EQ(pool.bytes(), after);
      }
    }
  }
}

TEST_P(Scan, PathsAloneAreAsInTheTree) {
  for (const RecurrentKind kind : kKinds) {
    for (int i = 0; i < 6; ++i) {
      const Recurrent model = random_model(kind, rng_);
      SCOPED_TRACE(model.name());
      ScanPlan plan = random_plan(model, rng_, 9, 6);
      plan.writes.clear();
      const Tokens tokens = random_tokens(model, rows_of(plan), rng_);
      Pool pool(model, plan, rng_);
      const Result tree = run(*device_, model, plan, tokens, pool);
      for (int32_t s = 0; s < static_cast<int32_t>(plan.segments.size()); ++s) {
        const std::vector<int32_t> path = path_rows(plan, s);
        ScanPlan one = plan;
        one.segments = {{0, static_cast<int32_t>(path.size()), -1, from_of(plan, s)}};
        const Result alone = run(*device_, model, one, tokens.only(path), pool);
        expect_same(alone.y, tokens.pick_rows(tree.y, path), cat("y of the path to ", s));
        expect_same(alone.conv, tokens.pick_rows(tree.conv, path), cat("convolution of ", s));
      }
    }
  }
}

// States 0 and 1 are exchanged: each text begins with one and ends in the other; a third one begins
// with what the first has overwritten by then.
TEST_P(Scan, StatesAreReadBeforeTheyAreWritten) {
  for (const RecurrentKind kind : kKinds) {
    const Recurrent model = random_model(kind, rng_);
    SCOPED_TRACE(model.name());
    ScanPlan plan =
        make_plan(model, 6, {{0, 3, -1, 0}, {3, 4, -1, 1}, {4, 9, -1, 1}, {9, 10, -1, 2}});
    const Tokens tokens = random_tokens(model, 10, rng_);
    Pool pool(model, plan, rng_);
    const std::vector<std::byte> before = pool.bytes();
    plan.writes = {{2, 3}, {3, 4}, {8, 5}};
    const Result want = run(*device_, model, plan, tokens, pool);
    const std::vector<float> states[] = {pool.state(model, 3), pool.state(model, 4),
                                         pool.state(model, 5)};
    pool.set(before);
    plan.writes = {{2, 1}, {3, 0}, {8, 2}, {9, 2}};
    const Result got = run(*device_, model, plan, tokens, pool);
    expect_same(got.y, want.y, "y");
    expect_same(got.conv, want.conv, "convolution");
    expect_same(pool.state(model, 1), states[0], "what row 2 leaves");
    expect_same(pool.state(model, 0), states[1], "what row 3 leaves");
    // In place, token by token.
    pool.set(before);
    for (int32_t row = 4; row < 9; ++row) {
      ScanPlan step = make_plan(model, 6, {{0, 1, -1, 1}});
      step.writes = {{0, 1}};
      const Result one = run(*device_, model, step, tokens.only({row}), pool);
      expect_same(one.y, part(want.y, 10, row, row + 1), cat("row ", row));
    }
    expect_same(pool.state(model, 1), states[2], "in place");
  }
}

// A row that replaces the state it begins with goes over it where it is stored, as far as heads lie
// in one page there. A row whose state goes elsewhere leaves the one it begins with alone, and a
// row that another follows (the last text's) goes through a slot.
TEST_P(Scan, StepsInPlaceAreAsThroughSlots) {
  constexpr int32_t kTexts = 4;
  const std::unique_ptr<Device> one = device(1);
  for (const RecurrentKind kind : kKinds) {
    for (int i = 0; i < 24; ++i) {
      Recurrent model;
      model.kind = kind;
      model.key_heads = static_cast<int32_t>(pick(rng_, 1, 2));
      model.heads = model.key_heads * static_cast<int32_t>(pick(rng_, 1, 9));
      model.head_dim = 16 * static_cast<int32_t>(pick(rng_, 1, 4));
      model.inner_dim = static_cast<int32_t>(pick(rng_, 0, 3) == 0 ? pick(rng_, 1, 33) : 16);
      model.channels = 16 * static_cast<int32_t>(pick(rng_, 1, 9));
      model.fill_constants(rng_);
      SCOPED_TRACE(cat("case ", i, ": ", model.name()));
      Device& device = i % 2 == 0 ? *device_ : *one;
      ScanPlan plan = make_plan(model, 2 * kTexts, {});
      for (int32_t t = 0; t < kTexts; ++t) plan.segments.push_back({t, t + 1, -1, t});
      plan.segments.push_back({kTexts, kTexts + 1, kTexts - 1, -1});
      const Tokens tokens = random_tokens(model, kTexts + 1, rng_);
      Pool pool(model, plan, rng_);
      const std::vector<std::byte> before = pool.bytes();
      for (int32_t t = 0; t < kTexts; ++t) plan.writes.push_back({t, kTexts + t});
      const Result want = run(device, model, plan, tokens, pool);
      std::vector<std::vector<float>> states;
      for (int32_t t = 0; t < kTexts; ++t) states.push_back(pool.state(model, kTexts + t));
      const std::vector<float> kept = pool.state(model, 1);
      pool.set(before);
      for (int32_t t = 0; t < kTexts; ++t) plan.writes[static_cast<size_t>(t)].state = t;
      plan.writes[1].state = kTexts;
      const Result got = run(device, model, plan, tokens, pool);
      expect_same(got.y, want.y, "y");
      expect_same(pool.state(model, 0), states[0], "state 0");
      expect_same(pool.state(model, 1), kept, "state 1, which is not written");
      expect_same(pool.state(model, kTexts), states[1], "what row 1 leaves");
      expect_same(pool.state(model, 2), states[2], "state 2");
      expect_same(pool.state(model, 3), states[3], "state 3");
    }
  }
}

TEST_P(Scan, WhatIsNotFiniteStaysOnItsPath) {
  for (const RecurrentKind kind : kKinds) {
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      Recurrent model = random_model(kind, rng_);
      SCOPED_TRACE(model.name());
      // 0 ─┬─ 1 ─── 2        the bad row is the second of 1
      //    └─ 3              4: another text
      ScanPlan plan = make_plan(
          model, 2,
          {{0, 4, -1, 0}, {4, 8, 0, -1}, {8, 10, 1, -1}, {10, 14, 0, -1}, {14, 17, -1, 0}});
      plan.writes = {{13, 1}};
      Tokens tokens = random_tokens(model, 17, rng_);
      Pool pool(model, plan, rng_);
      const Result clean = run(*device_, model, plan, tokens, pool);
      const std::vector<float> state = pool.state(model, 1);
      // The last x of the last head, or the last value: one unit alone meets it.
      tokens.scan[static_cast<size_t>(5 * model.scan_ld() + model.last_input())] = bad;
      tokens.conv[static_cast<size_t>(5 * model.channels)] = bad;
      const Result got = run(*device_, model, plan, tokens, pool);
      std::vector<int32_t> marked(17, 0);
      for (int32_t row = 5; row < 10; ++row) marked[static_cast<size_t>(row)] = 1;
      EXPECT_EQ(got.flags, marked);
      expect_same(part(got.y, 17, 10, 17), part(clean.y, 17, 10, 17), "siblings");
      expect_same(part(got.conv, 17, 10, 17), part(clean.conv, 17, 10, 17), "siblings");
      expect_same(part(got.y, 17, 0, 5), part(clean.y, 17, 0, 5), "rows before");
      expect_same(pool.state(model, 1), state, "a sibling's state");
    }
  }
}

// Where no scan follows, the convolution says which rows are wrong: as far as its filter reaches.
TEST_P(Scan, ConvolutionsAloneMarkWhatIsNotFinite) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const Recurrent model = random_model(RecurrentKind::kMamba2, rng_);
    SCOPED_TRACE(model.name());
    // 0 ─┬─ 1      the bad row is the last but one of 0
    //    └─ 2
    const ScanPlan plan = make_plan(model, 1, {{0, 4, -1, -1}, {4, 14, 0, -1}, {14, 24, 0, -1}});
    Tokens tokens = random_tokens(model, 24, rng_);
    tokens.conv[static_cast<size_t>(3 * model.channels - 1)] = bad;
    const std::vector<KvSlot> slots(24, KvSlot{-1, 0});
    StepArrays arrays;
    arrays.slots = slots;
    arrays.scan = &plan;
    arrays.state = model.layout();
    std::vector<float> out(static_cast<size_t>(24 * model.channels));
    ConvArgs conv;
    conv.x = tokens.conv.data();
    conv.ld = conv.ld_out = model.channels;
    conv.weight = model.conv_weight.data();
    conv.out = out.data();
    std::vector<int32_t> marked(24, 0);
    const auto flags = [&] {
      const std::unique_ptr<ops::Step> step = device_->begin_step(arrays);
      step->conv(conv);
      return std::vector<int32_t>(step->not_finite().begin(), step->not_finite().end());
    };
    EXPECT_EQ(flags(), marked);  // a scan would look at it
    arrays.state.scan_floats = 0;
    for (int32_t after = 0; after < arrays.state.conv_width; ++after) {
      marked[static_cast<size_t>(2 + after)] = 1;
      if (after >= 2) marked[static_cast<size_t>(12 + after)] = 1;
    }
    EXPECT_EQ(flags(), marked);
  }
}

// A spine whose segments have three leaves each, before or after the rest of the spine.
TEST_P(Scan, LiveStatesAreThoseThatWaitForAChild) {
  const std::unique_ptr<Device> one = device(1);
  for (const RecurrentKind kind : kKinds) {
    Recurrent model;
    model.kind = kind;
    model.heads = 4;
    model.head_dim = 32;
    model.inner_dim = 32;
    model.fill_constants(rng_);
    const auto layer = model.layout().scan_floats * static_cast<int64_t>(sizeof(float));
    Pool pool(model, make_plan(model, 1, {}), rng_);
    const auto live = [&](Device& device, std::vector<ScanSegment> segments) {
      const ScanPlan plan = make_plan(model, 1, std::move(segments));
      return run(device, model, plan, random_tokens(model, rows_of(plan), rng_), pool).bytes;
    };
    // Four units, of a head each: one thread has a quarter of a state at a time.
    const int64_t state = live(*one, {{0, 3, -1, -1}});
    EXPECT_EQ(state, layer / 4);
    EXPECT_EQ(live(*one, {{0, 1, -1, -1}, {1, 2, 0, -1}, {2, 3, 1, -1}}), state);  // taken over
    for (const int32_t depth : {2, 5}) {
      std::vector<ScanSegment> before, after;
      int32_t row = 0, spine = -1;
      const auto add = [&](std::vector<ScanSegment>& to, int32_t parent) {
        to.push_back({row, row + 1, parent, -1});
        ++row;
        return static_cast<int32_t>(to.size()) - 1;
      };
      for (int32_t level = 0; level < depth; ++level) {
        spine = add(before, spine);
        for (int i = 0; i < 3 && level + 1 < depth; ++i) add(before, spine);
      }
      EXPECT_EQ(live(*one, before), 2 * state) << "depth " << depth;
      row = 0;
      for (int32_t level = 0; level < depth; ++level) add(after, level - 1);
      for (int32_t level = depth - 2; level >= 0; --level)
        for (int i = 0; i < 3; ++i) add(after, level);
      EXPECT_EQ(live(*one, after), depth * state) << "depth " << depth;
      EXPECT_LE(live(*device_, after), (depth + 1) * layer);
    }
  }
}

// However many segments begin with a stored state, what the convolution reads of it is there once.
TEST(ScanWalk, AStateIsLoadedOnce) {
  ScanPlan plan;
  plan.state_pages = 1;
  plan.pages = {7, 8};
  plan.segments = {{0, 2, -1, 1}, {2, 4, -1, 0}, {4, 5, -1, 1}, {5, 6, 2, -1}, {6, 7, -1, -1}};
  const ScanWalk walk = make_scan_walk(plan, 3);
  EXPECT_EQ(walk.loaded, (std::vector<int32_t>{1, 0}));
  const std::vector<int32_t> of_row(walk.taps.begin() + 2 * 4, walk.taps.begin() + 2 * 5);
  EXPECT_EQ(of_row,
            (std::vector<int32_t>{ScanWalk::loaded_tap(0, 0, 3), ScanWalk::loaded_tap(0, 1, 3)}))
      << "as those of row 0";
  EXPECT_TRUE(std::equal(of_row.begin(), of_row.end(), walk.taps.begin()));
}

TEST_P(Scan, GatesAreRightFarFromZero) {
  const auto cpu =
      std::make_unique<CpuDevice>(CpuOptions{kF32Types, GetParam(), std::make_shared<Threads>(1)});
  const ScanKernels& kernels = cpu->context().kernels->scan;
  for (const float x : {-80.0f, -30.0f, -20.5f, -5.0f, -1e-3f, 0.0f, 1e-6f, 0.7f, 3.0f, 15.0f,
                        20.5f, 30.0f, 100.0f, 1e4f}) {
    SCOPED_TRACE(cat("x ", x));
    constexpr int64_t kHeads = 21;
    const std::vector<float> raw(kHeads, x), zeros(kHeads, 0.0f), a(kHeads, -0.5f);
    std::vector<float> dt(kHeads), decay(kHeads), gate(kHeads);
    const double want = x > 30 ? x : std::log1p(std::exp(double{x}));
    kernels.mamba2_gates(raw.data(), zeros.data(), a.data(), 0, 0, kHeads, dt.data(), decay.data());
    EXPECT_NEAR(dt[0], want, 1e-6 * std::max(1.0, std::abs(double{x})) * want);
    EXPECT_NEAR(decay[0], std::exp(-0.5 * want), 1e-6);
    for (int64_t i = 1; i < kHeads; ++i) {
      EXPECT_EQ(dt[0], dt[static_cast<size_t>(i)]);
      EXPECT_EQ(decay[0], decay[static_cast<size_t>(i)]);
    }
    kernels.mamba2_gates(raw.data(), zeros.data(), a.data(), 0.01f, 2.0f, kHeads, dt.data(),
                         decay.data());
    EXPECT_NEAR(dt[20], std::clamp(want, 0.01, 2.0), 1e-5);
    kernels.gated_delta_gates(raw.data(), zeros.data(), a.data(), raw.data(), kHeads, decay.data(),
                              gate.data());
    EXPECT_NEAR(decay[20], std::exp(-0.5 * want), 1e-6);
    EXPECT_NEAR(gate[20], 1 / (1 + std::exp(-double{x})), 1e-6);
  }
}

}  // namespace
}  // namespace prefix::ops::testing
