// Segment attention of every CPU level of this machine: against float64, and bit by bit against
// itself over other plans, page ids, companions, chunks and thread counts.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/status.h"
#include "ops/attention_checks.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/step.h"
#include "ops/op_cpu.h"
#include "support/cases.h"

namespace prefix::ops::testing {
namespace {

struct Level {
  std::string isa;
  DType type;
  bool int8 = false;  // keys and values
};

class AttentionLevel : public ::testing::TestWithParam<Level> {
 protected:
  void SetUp() override {
    for (const IsaLevel& level : cpu_isa_levels())
      if (level.name == GetParam().isa && !level.available)
        GTEST_SKIP() << level.name << ": " << level.reason;
    one_ = make_device(1);
    three_ = make_device(3);
  }
  std::unique_ptr<Device> make_device(int threads) const {
    NumericTypes types = types_of(GetParam().type);
    if (GetParam().int8) types.kv = KvType::kInt8;
    return make_cpu_device({types, GetParam().isa, std::make_shared<Threads>(threads)});
  }
  void agrees_with_float64(double bound) const;
  void bits_depend_on_position_and_keys_only() const;
  bool f32() const { return GetParam().type == DType::kF32; }
  double bound() const { return f32() ? 1e-5 : 3e-3; }

  std::unique_ptr<Device> one_;
  std::unique_ptr<Device> three_;
};

// Keys and values in whole numbers.
class WholeAttention : public AttentionLevel {};

std::vector<Level> levels(bool int8) {
  std::vector<Level> all;
  for (const char* isa : {"scalar", "neon", "avx2", "avx512", "avx512_bf16", "amx"})
    for (DType type : {DType::kBf16, DType::kF32})
      if (!int8 || type == DType::kBf16) all.push_back({isa, type, int8});
  return all;
}

std::string level_name(const ::testing::TestParamInfo<Level>& info) {
  return info.param.isa + (info.param.type == DType::kF32 ? "_f32" : "_bf16");
}

INSTANTIATE_TEST_SUITE_P(Levels, AttentionLevel, ::testing::ValuesIn(levels(false)), level_name);
INSTANTIATE_TEST_SUITE_P(Levels, WholeAttention, ::testing::ValuesIn(levels(true)), level_name);

void AttentionLevel::agrees_with_float64(double bound) const {
  Rng rng(11);
  for (const int32_t head_dim : {64, 80, 128}) {
    for (const int32_t group : {1, 2, 4, 5}) {
      Tree tree;
      tree.type = GetParam().type;
      tree.int8 = GetParam().int8;
      tree.kv_heads = 2;
      tree.heads = 2 * group;
      tree.head_dim = head_dim;
      tree.seed = rng();
      grow(tree, rng, 8, 120);
      const std::vector<RowRef> rows = some_rows(tree, 90, rng);
      const Step step = make_step(tree, rows, {}, rng);
      const double error = relative_l2(run_attention(*one_, tree, step), attention_f64(tree, rows));
      EXPECT_LE(error, bound) << "head_dim " << head_dim << " group " << group;
    }
  }
}
TEST_P(AttentionLevel, AgreesWithFloat64) { agrees_with_float64(bound()); }
TEST_P(WholeAttention, AgreesWithFloat64) { agrees_with_float64(0.02); }

TEST_P(AttentionLevel, AgreesWithFloat64OverManyChunks) {
  Rng rng(12);
  Tree tree;
  tree.type = GetParam().type;
  tree.head_dim = 64;
  grow_star(tree, 2 * kKeyChunk + 300, 3, 20);
  const std::vector<RowRef> rows = {{0, 5},         {0, kKeyChunk - 1},
                                    {0, kKeyChunk}, {0, 2 * kKeyChunk},
                                    {1, 4396 + 3},  {2, 4396 + 19}};
  const std::vector<double> want = attention_f64(tree, rows);
  for (const bool split : {false, true}) {
    StepOptions options;
    options.split_chunks = split;
    const Step step = make_step(tree, rows, options, rng);
    EXPECT_LE(relative_l2(run_attention(*three_, tree, step), want), bound());
  }
}

TEST_P(AttentionLevel, SharpScoresStayFinite) {
  Rng rng(13);
  Tree tree;
  tree.type = GetParam().type;
  expect_sharp_scores_stay_finite(
      tree, bound(), rng, [&](const Tree& grown, const std::vector<RowRef>& rows) {
        return run_attention(*one_, grown, make_step(grown, rows, {}, rng));
      });
}

// Scores with a cap, sinks and a window: what some models have of them.
void dress(Tree& tree, Rng& rng, int32_t longest_window) {
  if (pick(rng, 0, 2) > 0) tree.window = static_cast<int32_t>(pick(rng, 1, longest_window));
  if (pick(rng, 0, 2) == 0) tree.soft_cap = static_cast<float>(pick(rng, 1, 50));
  tree.sinks.clear();
  if (pick(rng, 0, 2) == 0)
    for (int32_t head = 0; head < tree.heads; ++head)
      tree.sinks.push_back(static_cast<float>(pick(rng, -40, 40)) / 8);
}

TEST_P(AttentionLevel, AgreesWithFloat64WithWindowsCapsAndSinks) {
  Rng rng(17);
  for (int round = 0; round < 36; ++round) {
    Tree tree;
    tree.type = GetParam().type;
    tree.kv_heads = 2;
    tree.heads = 2 * static_cast<int32_t>(pick(rng, 1, 5));
    tree.head_dim = round % 3 == 0 ? 80 : 64;
    tree.seed = rng();
    tree.query_scale = static_cast<float>(pick(rng, 1, 12));
    grow(tree, rng, 8, 120);
    dress(tree, rng, round % 2 == 0 ? 40 : 300);
    const std::vector<RowRef> rows = some_rows(tree, 90, rng);
    StepOptions options;
    options.cut_head = options.cut_tail = options.nan_keys = true;
    const Step step = make_step(tree, rows, options, rng);
    EXPECT_LE(relative_l2(run_attention(*one_, tree, step), attention_f64(tree, rows)), bound())
        << "window " << tree.window << " cap " << tree.soft_cap << " sinks " << tree.sinks.size();
  }
}

// Texts whose tokens see those behind them, in windows of both sides and without; nothing of what
// lies behind a text's end, or in another text, is seen.
TEST_P(AttentionLevel, AgreesWithFloat64WhereRowsSeeBothSides) {
  Rng rng(19);
  for (int round = 0; round < 24; ++round) {
    Tree tree;
    tree.type = GetParam().type;
    tree.kv_heads = 2;
    tree.heads = 2 * static_cast<int32_t>(pick(rng, 1, 5));
    tree.seed = rng();
    const bool deep = round % 8 == 0;
    grow_texts(tree, rng, deep ? 1 : 6, deep ? kKeyChunk + 300 : 400);
    dress(tree, rng, round % 2 == 0 ? 40 : 300);
    const std::vector<RowRef> rows = some_rows(tree, 90, rng);
    StepOptions options;
    options.cut_head = options.cut_tail = options.nan_keys = true;
    options.split_chunks = round % 16 == 0;
    const Step step = make_step(tree, rows, options, rng);
    EXPECT_LE(relative_l2(run_attention(*one_, tree, step), attention_f64(tree, rows)), bound())
        << "window " << tree.window << " cap " << tree.soft_cap << " sinks " << tree.sinks.size();
  }
}

// A cap far above all scores is none; one far below them leaves the mean of the values.
TEST_P(AttentionLevel, CapsFromOneEndToTheOther) {
  Rng rng(18);
  Tree tree;
  tree.type = GetParam().type;
  grow(tree, rng, 6, 100);
  const std::vector<RowRef> rows = some_rows(tree, 60, rng);
  for (const float cap : {1e-4f, 0.5f, 50.0f, 1e6f}) {
    tree.soft_cap = cap;
    const Step step = make_step(tree, rows, {}, rng);
    EXPECT_LE(relative_l2(run_attention(*one_, tree, step), attention_f64(tree, rows)), bound())
        << "cap " << cap;
  }
}

// The promise. Each case: one tree, a base result, then other ways to compute some of its rows.
void AttentionLevel::bits_depend_on_position_and_keys_only() const {
  Rng rng(14);
  for (int round = 0; round < testing_support::cases(GetParam().int8 ? 70 : 140); ++round) {
    Tree tree;
    tree.type = GetParam().type;
    tree.int8 = GetParam().int8;
    tree.kv_heads = static_cast<int32_t>(pick(rng, 1, 2));
    tree.heads = tree.kv_heads * static_cast<int32_t>(pick(rng, 1, 5));
    tree.head_dim = static_cast<int32_t>(pick(rng, 1, 4) * 16 + (pick(rng, 0, 3) == 0 ? 80 : 0));
    tree.seed = rng();
    tree.query_scale = static_cast<float>(pick(rng, 0, 20));
    // Denormal sums: some units flush them, and the sign of a zero must not tell what was masked.
    if (round % 5 == 0) tree.value_scale = 2e-38f;
    const bool deep = round % 14 == 0;  // two chunks and more
    if (round % 7 == 3) {
      grow_texts(tree, rng, static_cast<int>(pick(rng, 1, 6)), 400);
    } else if (deep) {
      tree.head_dim = 32;
      grow_star(tree, kKeyChunk + static_cast<int>(pick(rng, -40, 300)), 4, 40);
    } else {
      grow(tree, rng, static_cast<int>(pick(rng, 1, 12)), static_cast<int>(pick(rng, 1, 150)));
    }
    // Half of the rounds; windows of deep trees reach over a border of chunks or not.
    if (round % 2 == 0) dress(tree, rng, deep ? kKeyChunk + 200 : round % 4 == 0 ? 40 : 400);
    SCOPED_TRACE(cat("round ", round, " head_dim ", tree.head_dim, " heads ", tree.heads, "/",
                     tree.kv_heads));
    expect_bits_of_position_and_keys_only(
        tree, some_rows(tree, deep ? 24 : 96, rng), 8, rng, [&](int variant, const Step& step) {
          return run_attention(variant % 2 == 0 ? *three_ : *one_, tree, step);
        });
  }
}
TEST_P(AttentionLevel, BitsDependOnPositionAndKeysOnly) { bits_depend_on_position_and_keys_only(); }
TEST_P(WholeAttention, BitsDependOnPositionAndKeysOnly) { bits_depend_on_position_and_keys_only(); }

// A value that is NaN belongs to the rows behind it in its own sequence, to nobody else.
TEST_P(AttentionLevel, NanValueStaysInItsSequence) {
  Rng rng(15);
  Tree tree;
  tree.type = GetParam().type;
  grow_star(tree, 100, 4, 40);
  const std::vector<RowRef> rows = {{0, 99}, {1, 139}, {2, 139}, {3, 139}, {4, 139}};
  StepOptions options;
  options.tile_rows = 8;
  options.ragged = false;
  const Step clean = make_step(tree, rows, options, rng);
  Step dirty = clean;
  const KvLayout kv = tree.layout();
  int32_t page = -1;  // the last page of leaf 2
  for (const AttentionRun& run : clean.plan.runs)
    if (run.row_begin == 2 && run.row_end == 3)
      page = clean.plan.pages[run.page_begin + run.blocks - 1];
  ASSERT_GE(page, 0);
  put(dirty.pool.data() + kv.value_offset(page, 0, 0), value_index(tree.type, 3, 7), tree.type,
      std::numeric_limits<float>::quiet_NaN());
  const std::vector<float> want = run_attention(*one_, tree, clean);
  const std::vector<float> got = run_attention(*one_, tree, dirty);
  const size_t width = static_cast<size_t>(tree.heads) * tree.head_dim;
  for (size_t r = 0; r < rows.size(); ++r) {
    const bool same = std::memcmp(&want[r * width], &got[r * width], width * sizeof(float)) == 0;
    EXPECT_EQ(same, r != 2) << "row " << r;
  }
  EXPECT_TRUE(std::isnan(got[2 * width + 7]));
}

TEST_P(AttentionLevel, MergeAlgebra) {
  const AttentionKernels& kernels = static_cast<CpuDevice&>(*one_).context().kernels->attention;
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  constexpr int64_t kWidth = 32;
  const auto merge = [&](float& m, float& l, std::vector<float>& o, float from_m, float from_l,
                         const std::vector<float>& from_o) {
    MergeArgs args;
    args.m = &m;
    args.l = &l;
    args.o = o.data();
    args.from_m = &from_m;
    args.from_l = &from_l;
    args.from_o = from_o.data();
    args.ldo = args.d = kWidth;
    args.rows = 1;
    kernels.merge(args);
  };
  std::vector<float> zero(kWidth), ones(kWidth, 1.0f), threes(kWidth, 3.0f);
  {  // empty + empty = empty, and finishes as zeros
    float m = kNone, l = 0;
    std::vector<float> o = zero, out(kWidth, 9.0f);
    merge(m, l, o, kNone, 0, zero);
    EXPECT_EQ(m, kNone);
    EXPECT_EQ(l, 0);
    kernels.finish_f32(o.data(), l, kWidth, out.data());
    EXPECT_EQ(out, zero);
  }
  {  // empty is neutral on both sides
    float m = kNone, l = 0;
    std::vector<float> o = zero;
    merge(m, l, o, -5.0f, 2.0f, threes);
    EXPECT_EQ(m, -5.0f);
    EXPECT_EQ(l, 2.0f);
    EXPECT_EQ(o, threes);
    merge(m, l, o, kNone, 0, zero);
    EXPECT_EQ(m, -5.0f);
    EXPECT_EQ(l, 2.0f);
    EXPECT_EQ(o, threes);
  }
  {  // weights relative to the larger maximum, from either side
    float m = 3.0f, l = 1.0f;
    std::vector<float> o = ones;
    merge(m, l, o, 5.0f, 2.0f, threes);
    EXPECT_EQ(m, 5.0f);
    EXPECT_FLOAT_EQ(l, 2.25f);
    EXPECT_FLOAT_EQ(o[0], 3.25f);
    merge(m, l, o, 4.0f, 1.0f, ones);
    EXPECT_EQ(m, 5.0f);
    EXPECT_FLOAT_EQ(l, 2.75f);
    EXPECT_FLOAT_EQ(o[kWidth - 1], 3.75f);
  }
  {  // far apart: the small one vanishes, nothing overflows
    float m = 1e4f, l = 1.0f;
    std::vector<float> o = ones;
    merge(m, l, o, -1e4f, 2.0f, threes);
    EXPECT_EQ(l, 1.0f);
    EXPECT_EQ(o, ones);
  }
}

// The driver with a tile product as coarse as AMX has it: 16 x 16 tiles, bf16 activations, register
// blocks of 32 rows, a configuration that must be loaded. Runs on any machine.
thread_local bool tiles_configured = false;

void emulated_tile(const TileArgs& t) {
  EXPECT_TRUE(tiles_configured);
  EXPECT_EQ(t.kc % 32, 0);
  const int64_t columns = t.b1 == nullptr ? 32 : 64;
  for (int64_t row = 0; row < t.rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      float sum = t.accumulate ? t.c[row * t.ldc + column] : 0.0f;
      for (int64_t chunk = 0; chunk < t.chunks; ++chunk) {
        const auto* const a = static_cast<const uint16_t*>(t.a) + chunk * t.a_chunk + row * t.lda;
        const auto* const b =
            static_cast<const uint16_t*>((column < 32 ? t.b0 : t.b1)[chunk]) + column % 32 * 2;
        for (int64_t k = 0; k < t.kc; ++k)
          sum += from_bf16(a[k]) * from_bf16(b[k / 2 * 64 + k % 2]);
      }
      t.c[row * t.ldc + column] = sum;
    }
  }
}

TEST(AttentionDriver, ServesTilesOf32RowsAndBf16Activations) {
  const std::unique_ptr<Device> memory = make_cpu_device({kBf16Types, "scalar"});
  KernelTable table = kernel_table(Isa::kScalar);
  table.gemm.tile_bf16 = emulated_tile;
  table.gemm.act_is_bf16 = true;
  table.gemm.row_step = 32;
  table.gemm.begin = [] { tiles_configured = true; };
  table.gemm.end = [] { tiles_configured = false; };
  Threads threads(2);
  Scratch scratch[2], partials;
  std::vector<int32_t> not_finite;
  const CpuContext context{.threads = &threads,
                           .kernels = &table,
                           .types = kBf16Types,
                           .scratch = scratch,
                           .partials = &partials};
  const auto run = [&](const Tree& tree, const Step& step) {
    const int64_t ld = static_cast<int64_t>(tree.heads) * tree.head_dim + 7;
    return run_attention(*memory, DType::kBf16, ld, tree, step,
                         [&](const StepArrays& arrays, const AttentionArgs& args) {
                           CpuStep(context, arrays, not_finite).attention(args);
                         });
  };
  Rng rng(16);
  for (int round = 0; round < 10; ++round) {
    Tree tree;
    tree.heads = 4;
    tree.kv_heads = 2;
    tree.head_dim = round % 2 == 0 ? 64 : 80;
    tree.seed = rng();
    grow(tree, rng, 10, 90);
    const std::vector<RowRef> rows = some_rows(tree, 80, rng);
    const std::vector<float> want = run(tree, make_step(tree, rows, {}, rng));
    EXPECT_LE(relative_l2(want, attention_f64(tree, rows)), 3e-3);
    for (const int32_t tile_rows : {1, 7, 64}) {
      StepOptions options;
      options.tile_rows = tile_rows;
      options.sharing = Sharing::kPerNode;
      options.cut_tail = true;
      options.nan_keys = true;
      const std::vector<float> got = run(tree, make_step(tree, rows, options, rng));
      ASSERT_EQ(0, std::memcmp(got.data(), want.data(), want.size() * sizeof(float)));
    }
  }
  // Chunks that are items of their own leave their states in `partials`.
  Tree deep;
  deep.heads = 4;
  deep.kv_heads = 2;
  deep.head_dim = 32;
  grow_star(deep, kKeyChunk + 100, 3, 20);
  const std::vector<RowRef> rows = {
      {0, 5}, {0, kKeyChunk - 1}, {0, kKeyChunk}, {1, kKeyChunk + 105}, {2, kKeyChunk + 119}};
  const std::vector<float> want = run(deep, make_step(deep, rows, {}, rng));
  StepOptions options;
  options.split_chunks = true;
  const Step split = make_step(deep, rows, options, rng);
  ASSERT_GT(split.plan.partial_slots, 0);
  const std::vector<float> got = run(deep, split);
  EXPECT_EQ(0, std::memcmp(got.data(), want.data(), want.size() * sizeof(float)));
}

TEST_P(AttentionLevel, EmptyPlanDoesNothing) {
  Tree tree;
  tree.type = GetParam().type;
  Step step;
  step.pool.resize(64);
  EXPECT_TRUE(run_attention(*one_, tree, step).empty());
}

}  // namespace
}  // namespace prefix::ops::testing
