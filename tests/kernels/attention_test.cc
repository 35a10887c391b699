// Segment attention of the GPU backend against float64: on the emulator everywhere, on a GPU where
// there is one. The emulator executes the launches that a GPU would get, blocks in any order.
#include <set>

#include "kernels/gpu_support.h"
#include "support/cases.h"

namespace prefix::ops::testing {
namespace {

class GpuAttention : public GpuTest {};
INSTANTIATE_TEST_SUITE_P(Backends, GpuAttention, ::testing::ValuesIn(kBackends), backend_name);

TEST_P(GpuAttention, AgreesWithFloat64) {
  Rng rng(31);
  double worst = 0;
  for (const int32_t head_dim : {16, 20, 64, 80, 128, 160, 256}) {
    for (const int32_t group : {1, 2, 5, 16}) {
      if (testing_support::quick() && (head_dim + group) % 3 != 0) continue;
      Tree tree = gpu_tree(2 * group, 2, head_dim, rng, type());
      grow(tree, rng, 7, 90);
      const std::vector<RowRef> rows = some_rows(tree, 60, rng);
      const StepOptions options{
          .tile_rows = static_cast<int32_t>(pick(rng, 1, 64)), .cut_tail = true, .nan_keys = true};
      const Step step = make_step(tree, rows, options, rng);
      const double error =
          relative_l2(run_attention(*device_, tree, step), attention_f64(tree, rows));
      EXPECT_LE(error, bound()) << "head_dim " << head_dim << " group " << group;
      worst = std::max(worst, error);
    }
  }
  RecordProperty("relative", std::to_string(worst));  // tools/gpu_check shows it
}

// Answers below a long shared context: wide and narrow items, split and merged.
TEST_P(GpuAttention, AgreesWithFloat64WhereItemsAreMerged) {
  Rng rng(32);
  Tree tree = gpu_tree(4, 2, 64, rng, type());
  grow_star(tree, 700, 24, 40);
  std::vector<RowRef> rows;
  for (int32_t leaf = 1; leaf <= 24; ++leaf) rows.push_back({leaf, 700 + leaf});
  const Scene scene(tree, rows, rng);
  for (const int processors : {1, 8, 132}) {
    const auto device = make(processors, rng());
    EXPECT_LE(scene.error(run_attention(*device, scene)), bound());
    if (f32()) continue;
    const gpu::DevicePlan& plan = device->attention_plan();
    EXPECT_EQ(plan.groups.size(), 1u);
    // One wide item over the context and three narrow ones over the leaves, at least.
    EXPECT_GE(plan.items.size(), processors == 132 ? 5u : 4u);
  }
}

// More items in a group than a warp has lanes, and rows that only some of them have.
TEST_P(GpuAttention, AgreesWithFloat64WhereManyItemsAreMerged) {
  if (f32()) GTEST_SKIP() << "f32 has no items";
  Rng rng(38);
  for (const int32_t head_dim : {20, 72, 160}) {
    Tree tree = gpu_tree(2, 1, head_dim, rng, type());
    const int32_t context = 35 * gpu::kSplitPages * kPageTokens;
    grow_star(tree, context, 3, 70);
    std::vector<RowRef> rows;
    for (int32_t leaf = 1; leaf <= 3; ++leaf)
      for (int32_t i = 0; i < 6; ++i) rows.push_back({leaf, context + 10 * i + leaf});
    const auto device = make(1000, 5);
    const Scene scene(tree, rows, rng);
    EXPECT_LE(scene.error(run_attention(*device, scene)), bound());
    if (!emulated()) continue;
    const gpu::DevicePlan& plan = device->attention_plan();
    ASSERT_EQ(plan.groups.size(), 1u);
    EXPECT_GT(plan.groups[0].item_end - plan.groups[0].item_begin, 35);
  }
}

// The order in which blocks run must not show: the emulator shuffles it by its seed.
TEST_P(GpuAttention, IsDeterministic) {
  Rng rng(33);
  Tree tree = gpu_tree(8, 2, 64, rng, type());
  grow_star(tree, 600, 20, 50);
  const Step step = make_step(tree, some_rows(tree, 70, rng), {}, rng);
  const std::vector<float> want = run_attention(*device_, tree, step);
  for (uint64_t seed = 2; seed < 8; ++seed) {
    const std::vector<float> got = run_attention(*make(4, seed), tree, step);
    EXPECT_EQ(std::memcmp(got.data(), want.data(), want.size() * sizeof(float)), 0);
  }
}

TEST_P(GpuAttention, InvariantBitsDependOnPositionAndKeysOnly) {
  Rng rng(34);
  for (int round = 0; round < 8; ++round) {
    SCOPED_TRACE(cat("round ", round));
    Tree tree = gpu_tree(4, round % 2 ? 4 : 2, round % 3 ? 64 : 72, rng, type());
    if (round == 0) {
      grow_star(tree, kKeyChunk + 70, 3, 30);
    } else {
      grow(tree, rng, 8, 100);
    }
    expect_bits_of_position_and_keys_only(
        tree, some_rows(tree, 40, rng), 5, rng, [&](int variant, const Step& step) {
          return run_attention(*make(variant == 1 || variant == 3 ? 2 : 132, rng(), true), tree,
                               step);
        });
  }
}

TEST_P(GpuAttention, SharpScoresStayFinite) {
  Rng rng(35);
  expect_sharp_scores_stay_finite(gpu_tree(2, 1, 64, rng, type()), bound(), rng,
                                  [&](const Tree& tree, const std::vector<RowRef>& rows) {
                                    return run_attention(*device_, Scene(tree, rows, rng, false));
                                  });
}

gpu::DevicePlan plan_of(const Step& step, const gpu::AttentionShape& shape) {
  gpu::DevicePlan plan;
  gpu::plan_attention(step.plan, step.positions, shape, plan);
  return plan;
}
std::span<const gpu::KvRun> runs_of(const gpu::DevicePlan& plan, const gpu::WorkItem& item) {
  return std::span(plan.runs).subspan(item.run_begin, item.run_end - item.run_begin);
}
int32_t pages_of(const gpu::DevicePlan& plan, const gpu::WorkItem& item) {
  int32_t pages = 0;
  for (const gpu::KvRun& run : runs_of(plan, item)) pages += run.blocks;
  return pages;
}

// The whole step is one launch for a layer, and the plan covers every row and page once.
TEST(GpuAttentionPlan, CoversEachRowAndPageOnce) {
  Rng rng(37);
  for (int round = 0; round < 200; ++round) {
    Tree tree = gpu_tree(4, 2, 16, rng);
    const Step step = any_step(tree, rng);
    const gpu::AttentionShape shape{.kv_heads = 2,
                                    .group_heads = 2,
                                    .warps = pick(rng, 0, 1) ? 4 : 8,
                                    .processors = static_cast<int32_t>(pick(rng, 1, 132)),
                                    .invariant = pick(rng, 0, 3) == 0,
                                    .warpgroups = pick(rng, 0, 1) == 0};
    const gpu::DevicePlan plan = plan_of(step, shape);
    std::set<std::pair<int32_t, int32_t>> read;  // (packed row, block)
    std::map<int32_t, int> writers;
    for (const gpu::WorkItem& item : plan.items) {
      EXPECT_LE(item.rows, item.narrow ? 16 : 16 * shape.warps);
      EXPECT_EQ(item.partial >= 0, item.group >= 0);
      if (item.partial < 0)
        for (int32_t r = 0; r < item.rows; ++r) ++writers[item.row_begin + r];
      for (const gpu::KvRun& run : runs_of(plan, item)) {
        EXPECT_GT(run.blocks, 0);
        EXPECT_GE(run.row_begin, item.row_begin);
        EXPECT_LE(run.row_end, item.row_begin + item.rows);
        for (int32_t row = run.row_begin; row < run.row_end; ++row)
          for (int32_t b = 0; b < run.blocks; ++b)
            EXPECT_TRUE(read.emplace(row, run.block_begin + b).second);
      }
    }
    for (const gpu::ReductionGroup& group : plan.groups)
      for (int32_t r = 0; r < group.rows; ++r) ++writers[group.row_begin + r];
    const auto packed = static_cast<int32_t>(step.rows.size()) * 2;
    ASSERT_EQ(static_cast<int32_t>(writers.size()), packed);
    for (const auto& [row, count] : writers) EXPECT_EQ(count, 1) << "row " << row;
    for (int32_t row = 0; row < packed; ++row)
      for (int32_t b = 0; b <= step.positions[row / 2] / kPageTokens; ++b)
        EXPECT_TRUE(read.contains({row, b})) << "row " << row << " block " << b;
  }
}

// By warpgroups: merging would take longer than some pages more for all rows of a block.
TEST(GpuAttentionPlan, AFewNarrowPagesAreDoneWithTheWideOnes) {
  Rng rng(38);
  // 10 and 100 packed rows of a leaf: blocks of 128 cut both.
  for (const int32_t own : {5, 50}) {
    Tree tree = gpu_tree(16, 8, 16, rng);
    grow_star(tree, 2048, 300, own);
    std::vector<RowRef> rows;
    for (int32_t leaf = 1; leaf <= 300; ++leaf)
      for (int32_t p = 0; p < own; ++p) rows.push_back({leaf, 2048 + p});
    const Step step = gpu_step(tree, rows, rng);
    gpu::AttentionShape shape{8, 2, 8, 132, false};
    for (const bool warpgroups : {false, true}) {
      shape.warpgroups = warpgroups;
      const gpu::DevicePlan plan = plan_of(step, shape);
      EXPECT_EQ(std::ranges::all_of(plan.items, [](const auto& item) { return !item.narrow; }),
                warpgroups)
          << own;
      EXPECT_EQ(plan.groups.empty(), warpgroups) << own;
    }
    // Where each piece is short, none is to become several times as long.
    shape.processors = 100000;
    const gpu::DevicePlan plan = plan_of(step, shape);
    for (const gpu::WorkItem& item : plan.items)
      EXPECT_LE(pages_of(plan, item), gpu::kSplitPages) << own;
  }
}

// The longest item decides how long a step takes: leaves below a context are not heaped onto one.
TEST(GpuAttentionPlan, CutsLeavesIntoItemsOfTheirOwnRows) {
  Rng rng(39);
  for (const Sharing sharing : {Sharing::kTree, Sharing::kPerRow}) {
    const Scene scene =
        Scene::of_answers(gpu_tree(16, 8, 16, rng), 2048, 32, 64, rng, true, sharing);
    const gpu::DevicePlan plan = plan_of(scene.step, {8, 2, 4, 100000, false});
    for (const gpu::WorkItem& item : plan.items) {
      int32_t low = INT32_MAX, high = 0;
      for (const gpu::KvRun& run : runs_of(plan, item)) {
        low = std::min(low, run.row_begin);
        high = std::max(high, run.row_end);
      }
      EXPECT_LE(pages_of(plan, item), gpu::kSplitPages);
      EXPECT_EQ(std::pair(item.row_begin, item.rows), std::pair(low, high - low));
    }
    if (sharing == Sharing::kTree) {
      EXPECT_EQ(plan.groups.size(), 1u);  // all see the context
      continue;
    }
    // Rows without anything in common are not merged together.
    EXPECT_EQ(plan.groups.size(), 32u);
    for (const gpu::ReductionGroup& group : plan.groups) EXPECT_EQ(group.rows, 2);
  }
}

}  // namespace
}  // namespace prefix::ops::testing
