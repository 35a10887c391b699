// Attention of small steps by clusters (body/attention_decode.h): its plan, the kernel against
// float64, and that the emulator would have noticed a wait or a barrier that is missing.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "kernels/gpu_support.h"
#include "ops/gpu/decode_schedule.h"
#include "support/cases.h"

namespace prefix::ops::testing {
namespace {

using gpu::DecodePage;
using gpu::DecodePlan;
using gpu::DecodeSplit;
using gpu::EmulatedRuntime;
using gpu::Kernel;
using gpu::Sabotage;
using testing_support::cases;
using testing_support::quick;

// Clusters of 1 to 8 blocks that run at once: an H200 whose parts have 18, 18, 18, 16, 16, 16, 16
// and 14 processors, and a die on which eights waste none, with the sizes that are powers of two.
constexpr int32_t kH200[] = {132, 66, 42, 31, 23, 19, 16, 15};
constexpr int32_t kEvenDie[] = {132, 66, 0, 33, 0, 0, 0, 16};

constexpr double kBound = 3e-3;

// --- the plan ------------------------------------------------------------------------------------

// Warps with the same rows take about as many pages of a split: alone, and in groups.
void expect_turns(std::span<const DecodePage> pages, int32_t tiles) {
  int32_t alone[gpu::kDecodeWarps] = {}, together[gpu::kDecodeWarps] = {};
  for (const DecodePage& page : pages)
    for (int32_t warp = 0; warp < gpu::kDecodeWarps; ++warp) {
      const int32_t group = gpu::decode_group(warp / 4);
      if ((page.warps & group) == group)
        ++together[warp];
      else if ((page.warps >> warp & 1) != 0)
        ++alone[warp];
    }
  for (int32_t warp = tiles; warp < gpu::kDecodeWarps; ++warp) {
    EXPECT_LE(std::abs(alone[warp] - alone[warp % tiles]), 1);
    EXPECT_LE(std::abs(together[warp] - together[warp % tiles]), 1);
  }
}

// Each row that a page belongs to has one warp that takes it: alone, where no other row tile of its
// group is concerned or there are only two, and with the rest of its group else.
void expect_takers(const DecodePage& page, int32_t rows) {
  const int32_t tiles = gpu::decode_tiles(rows);
  for (int32_t row = page.low; row < page.high; ++row) {
    int32_t takers = 0;
    for (int32_t warp = row / 16; warp < gpu::kDecodeWarps; warp += tiles) {
      if ((page.warps >> warp & 1) == 0) continue;
      ++takers;
      const int32_t group = gpu::decode_group(warp / 4);
      const int32_t begin = std::max<int32_t>(page.low, row / 64 * 64);
      const int32_t end = std::min<int32_t>(page.high, row / 64 * 64 + 64);
      if (tiles < 4) {
        EXPECT_NE(page.warps & group, group);
      } else {
        EXPECT_EQ(page.warps & group, begin / 16 == (end - 1) / 16 ? 1 << warp : group);
      }
    }
    EXPECT_EQ(takers, 1);
  }
}

TEST(DecodePlan, CoversEachRowAndPageOnce) {
  Rng rng(61);
  int made = 0;
  std::set<size_t> sizes;
  for (int round = 0; round < 200; ++round) {
    const auto group = static_cast<int32_t>(pick(rng, 1, 8));
    Tree tree = gpu_tree(DType::kBf16, 2 * group, 2, 16, rng);
    grow(tree, rng, static_cast<int>(pick(rng, 1, 20)), static_cast<int>(pick(rng, 1, 400)));
    const std::vector<RowRef> rows = some_rows(tree, static_cast<size_t>(pick(rng, 1, 150)), rng);
    StepOptions options;
    options.tile_rows = static_cast<int32_t>(pick(rng, 1, 80));
    options.split_runs = true;
    const Step step = make_step(tree, rows, options, rng);
    const int32_t processors = static_cast<int32_t>(pick(rng, 1, 400));
    int32_t clusters[gpu::kMaxCluster];
    for (int32_t i = 0; i < gpu::kMaxCluster; ++i) clusters[i] = processors / (i + 1);
    DecodePlan plan;
    plan.splits.resize(3);  // of another step
    if (!gpu::plan_decode(step.plan, step.positions, {2, group, clusters}, plan)) continue;
    ++made;
    const auto cluster = static_cast<size_t>(plan.cluster);
    ASSERT_TRUE(cluster >= 1 && cluster <= gpu::kMaxCluster);
    sizes.insert(cluster);
    ASSERT_EQ(plan.splits.size() % cluster, 0u);
    EXPECT_LE(static_cast<int32_t>(plan.splits.size() / cluster) * 2, clusters[cluster - 1]);
    std::map<std::pair<int32_t, int32_t>, int32_t> page_of;  // (packed row, block) -> page
    int32_t next_row = 0, next_page = 0;
    for (size_t i = 0; i < plan.splits.size(); ++i) {
      const DecodeSplit& split = plan.splits[i];
      if (split.rows == 0) {
        EXPECT_EQ(split.page_begin, split.page_end);
        continue;
      }
      const DecodeSplit& first = plan.splits[i / cluster * cluster];
      if (i % cluster == 0) {
        EXPECT_EQ(split.row_begin, next_row);
        next_row += split.rows;
      }
      EXPECT_EQ(std::pair(split.row_begin, split.rows), std::pair(first.row_begin, first.rows));
      EXPECT_LE(split.rows, gpu::kDecodeRows);
      EXPECT_EQ(split.page_begin, next_page);
      next_page = split.page_end;
      const int32_t fewer = first.page_end - first.page_begin - (split.page_end - split.page_begin);
      EXPECT_TRUE(fewer == 0 || fewer == 1);
      expect_turns(std::span(plan.pages)
                       .subspan(static_cast<size_t>(split.page_begin),
                                static_cast<size_t>(split.page_end - split.page_begin)),
                   gpu::decode_tiles(split.rows));
      for (int32_t p = split.page_begin; p < split.page_end; ++p) {
        const DecodePage& page = plan.pages[static_cast<size_t>(p)];
        EXPECT_LT(page.low, page.high);
        EXPECT_LE(page.high, split.rows);
        expect_takers(page, split.rows);
        for (int32_t row = page.low; row < page.high; ++row)
          EXPECT_TRUE(
              page_of.emplace(std::pair(split.row_begin + row, page.block), page.page).second);
      }
    }
    EXPECT_EQ(next_row, static_cast<int32_t>(rows.size()) * group);
    EXPECT_EQ(next_page, static_cast<int32_t>(plan.pages.size()));
    // What each row reads, from the plan of the step.
    for (const AttentionTile& tile : step.plan.tiles)
      for (int32_t i = tile.run_begin; i < tile.run_end; ++i) {
        const AttentionRun& run = step.plan.runs[static_cast<size_t>(i)];
        for (int32_t row = run.row_begin; row < run.row_end; ++row)
          for (int32_t b = 0; b < run.blocks; ++b) {
            if (run.block_begin + b > step.positions[static_cast<size_t>(row)] / kPageTokens)
              continue;
            for (int32_t g = 0; g < group; ++g) {
              const auto found = page_of.find({row * group + g, run.block_begin + b});
              ASSERT_TRUE(found != page_of.end());
              EXPECT_EQ(found->second, step.plan.pages[static_cast<size_t>(run.page_begin + b)]);
            }
          }
      }
  }
  EXPECT_GT(made, 100);
  EXPECT_EQ(sizes.size(), size_t{gpu::kMaxCluster});
}

struct Shape {
  int32_t answers, context, own, group;
  int32_t splits, cluster, longest;  // pages of a split
};

// The shapes that are measured: most processors of an H200 have a split, 112 or 120 of 132.
TEST(DecodePlan, UsesTheWholeGpu) {
  Rng rng(62);
  for (const Shape& s : {Shape{32, 2048, 64, 2, 14, 7, 14}, Shape{128, 1024, 64, 2, 15, 3, 28},
                         Shape{32, 8192, 64, 2, 14, 7, 42}, Shape{32, 2048, 64, 4, 14, 7, 14},
                         Shape{32, 8192, 64, 8, 15, 3, 90}, Shape{1, 300, 40, 2, 8, 8, 2},
                         Shape{256, 96, 40, 8, 16, 1, 35}}) {
    Tree tree = gpu_tree(DType::kBf16, 8 * s.group, 8, 16, rng);
    grow_star(tree, s.context, s.answers, s.own);
    const Step step = gpu_step(tree, last_rows(tree), rng);
    DecodePlan plan;
    ASSERT_TRUE(gpu::plan_decode(step.plan, step.positions, {8, s.group, kH200}, plan));
    EXPECT_EQ(static_cast<int32_t>(plan.splits.size()), s.splits) << s.answers << " " << s.group;
    EXPECT_EQ(plan.cluster, s.cluster);
    int32_t longest = 0;
    for (const DecodeSplit& split : plan.splits)
      longest = std::max(longest, split.page_end - split.page_begin);
    EXPECT_LE(longest, s.longest) << s.answers << " x " << s.context;
  }
}

// What the longest split of a star takes, by the planner's estimate, in half pages: the least of
// all plans that the kernel could run. They cut the rows anywhere, into blocks of any sizes, with
// clusters of any size, in one round or in several; `own` pages belong to each answer alone.
int64_t least_cost(std::span<const int32_t> clusters, int32_t answers, int32_t shared, int32_t own,
                   int32_t kv_heads, int32_t group) {
  const int32_t rows = answers * group;
  const auto pages = [&](int32_t begin, int32_t end) {
    return shared + own * ((end - 1) / group - begin / group + 1);
  };
  int64_t least = INT64_MAX;
  for (int32_t tiles = 1; tiles <= gpu::kDecodeRows / 16; ++tiles) {
    // most[r]: pages of the largest of the blocks that have rows [0, r).
    std::vector<int32_t> most(static_cast<size_t>(rows) + 1, INT32_MAX);
    most[0] = 0;
    for (int32_t blocks = 1; blocks <= 32; ++blocks) {
      std::vector<int32_t> next(most.size(), INT32_MAX);
      for (int32_t end = 1; end <= rows; ++end)
        for (int32_t begin = std::max(0, end - 16 * tiles); begin < end; ++begin)
          next[end] = std::min(next[end], std::max(most[begin], pages(begin, end)));
      most = next;
      if (most[rows] == INT32_MAX) continue;
      for (int32_t size = 1; size <= gpu::kMaxCluster; ++size) {
        const int32_t at_once = clusters[size - 1];
        if (at_once == 0) continue;
        const int64_t rounds = (blocks * kv_heads + at_once - 1) / at_once;
        const int64_t longest = (most[rows] + size - 1) / size;
        const int64_t half_pages = (tiles > 4 ? 4 : 2) * longest;  // the other four take as long
        least = std::min(least, rounds * (half_pages + (size > 1 ? 3 * tiles : 0)));
      }
    }
  }
  return least;
}

// On a die that runs 15 clusters of eight and on one that runs 16: clusters of seven instead of
// half of the GPU, five blocks of rows where 32 clusters of four are wanted and 31 run. No plan is
// within 1.15 for 32 x 8192 with two heads a group: 288 pages in seven parts are 42.
TEST(DecodePlan, AnUnevenDieCostsLittleAndNoPlanCostsLess) {
  struct Shape {
    int32_t answers, context, group;
    int64_t even, h200;
  };
  Rng rng(73);
  for (const Shape& s :
       {Shape{32, 2048, 2, 30, 34}, Shape{128, 1024, 2, 60, 68}, Shape{32, 8192, 2, 78, 90},
        Shape{32, 2048, 4, 36, 40}, Shape{128, 1024, 4, 76, 76}, Shape{32, 8192, 4, 84, 96}}) {
    Tree tree = gpu_tree(DType::kBf16, 8 * s.group, 8, 16, rng);
    grow_star(tree, s.context, s.answers, 64);
    const Step step = gpu_step(tree, last_rows(tree), rng);
    const auto cost = [&](std::span<const int32_t> clusters) {
      DecodePlan plan;
      EXPECT_TRUE(gpu::plan_decode(step.plan, step.positions, {8, s.group, clusters}, plan));
      EXPECT_EQ(plan.cost, least_cost(clusters, s.answers, s.context / kPageTokens,
                                      64 / kPageTokens, 8, s.group));
      return plan.cost;
    };
    EXPECT_EQ(cost(kEvenDie), s.even) << s.answers << " x " << s.context << ", " << s.group;
    EXPECT_EQ(cost(kH200), s.h200) << s.answers << " x " << s.context << ", " << s.group;
  }
}

TEST(DecodePlan, LeavesOtherStepsToTheOtherPlan) {
  Rng rng(63);
  const auto suits = [&](int32_t answers, int32_t context, int32_t kv_heads, int32_t group,
                         std::span<const int32_t> clusters = kH200) {
    Tree tree = gpu_tree(DType::kBf16, kv_heads * group, kv_heads, 16, rng);
    grow_star(tree, context, answers, 33);
    const Step step = gpu_step(tree, last_rows(tree), rng);
    DecodePlan plan;
    const bool made =
        gpu::plan_decode(step.plan, step.positions, {kv_heads, group, clusters}, plan);
    EXPECT_EQ(made, plan.cluster > 0);
    EXPECT_EQ(made, !plan.splits.empty());
    return made;
  };
  EXPECT_TRUE(suits(256, 100, 8, 2));
  EXPECT_FALSE(suits(257, 100, 8, 2));
  EXPECT_FALSE(suits(256, 100, 16, 8));  // more blocks than processors
  EXPECT_TRUE(suits(1, 16000, 1, 1));
  EXPECT_FALSE(suits(1, 17000, 1, 1));  // eight processors for 528 pages
  constexpr int32_t kNone[gpu::kMaxCluster] = {};
  EXPECT_FALSE(suits(4, 100, 1, 1, kNone));
}

TEST(DecodePlan, HasRoomForSoManyPages) {
  constexpr int32_t kOne[gpu::kMaxCluster] = {1};
  for (const int32_t blocks : {gpu::kMaxDecodePages, gpu::kMaxDecodePages + 1}) {
    AttentionPlan attention;
    attention.pages.resize(static_cast<size_t>(blocks));
    attention.runs.push_back({0, 0, blocks, 0, 1});
    const int32_t position = blocks * kPageTokens - 1;
    attention.tiles.push_back({0, 1, 0, 1, position});
    DecodePlan plan;
    const bool made = gpu::plan_decode(attention, std::span(&position, 1), {1, 1, kOne}, plan);
    EXPECT_EQ(made, blocks == gpu::kMaxDecodePages);
  }
}

// As long as rows and tiles are the same and no row begins a page, so is the grid.
TEST(DecodePlan, StepsOfAnAnswerLookAlike) {
  Rng rng(64);
  std::map<int32_t, std::pair<size_t, int32_t>> grids;  // by the page of the last token
  for (int32_t own = 1; own < 100; own += 7) {
    Tree tree = gpu_tree(DType::kBf16, 16, 8, 16, rng);
    grow_star(tree, 1000, 48, own);
    const Step step = gpu_step(tree, last_rows(tree), rng);
    DecodePlan plan;
    ASSERT_TRUE(gpu::plan_decode(step.plan, step.positions, {8, 2, kH200}, plan));
    const std::pair grid(plan.splits.size(), plan.cluster);
    const auto first = grids.emplace((1000 + own - 1) / kPageTokens, grid).first;
    EXPECT_EQ(grid, first->second) << own;
  }
  EXPECT_EQ(grids.size(), 4u);
}

// --- the kernel ----------------------------------------------------------------------------------

class DecodeAttention : public HopperTest {
 protected:
  DecodeAttention() : HopperTest(kClusters) {}

  // One launch of clusters does everything.
  std::vector<float> decode(GpuDevice& device, const Tree& tree, const Step& step) const {
    const auto launched = [&] {
      return device.launches(Kernel::kAttentionDecode64) +
             device.launches(Kernel::kAttentionDecode128);
    };
    const int64_t before = launched();
    std::vector<float> out = run_on_device(device, tree, step);
    EXPECT_EQ(launched() - before, 1);
    EXPECT_GT(device.decode_plan().cluster, 0);
    EXPECT_TRUE(device.attention_plan().items.empty());
    return out;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, DecodeAttention, ::testing::Values(true, false), hopper_name);

// Shapes that only a GPU does in a short time, each again and again: a race would show as noise.
TEST(HopperOnGpu, DecodingAgreesWithFloat64_cuda_bf16) {
  if (const std::string why = why_no_gpu(kClusters); !why.empty()) GTEST_SKIP() << why;
  const auto device = real_device(DType::kBf16, false, kClusters);
  Rng rng(65);
  double worst = 0;
  const auto check = [&](int32_t group, int32_t kv_heads, int32_t head_dim, int32_t context,
                         int32_t answers) {
    Tree tree = gpu_tree(DType::kBf16, kv_heads * group, kv_heads, head_dim, rng);
    grow_star(tree, context, answers, 60);
    const std::vector<RowRef> rows = last_rows(tree);
    const Step step = gpu_step(tree, rows, rng);
    const std::vector<float> got = run_on_device(*device, tree, step);
    const int32_t cluster = device->decode_plan().cluster;
    EXPECT_GT(cluster, 0) << "done by the other kernel";
    const double error = relative_l2(got, attention_f64(tree, rows));
    EXPECT_LE(error, kBound) << head_dim << ", " << answers << " x " << group << ", clusters of "
                             << cluster;
    worst = std::max(worst, error);
    for (int again = 0; again < cases(20); ++again)
      ASSERT_EQ(run_on_device(*device, tree, step), got);
  };
  for (const int32_t head_dim : {64, 128}) {
    for (const int32_t answers : {1, 7, 32, 128})
      for (const int32_t group : {1, 2, 8})
        check(group, 2, head_dim, quick() ? 500 : 1900, answers);
    // Many rows: small clusters, or blocks on their own.
    check(8, 8, head_dim, 300, 128);
    check(8, 8, head_dim, 300, 256);
  }
  RecordProperty("relative", std::to_string(worst));
}

// Random trees: several levels, rows in the middle of nodes, last pages that are not full.
TEST_P(DecodeAttention, AnyTree) {
  Rng rng(66);
  for (const int32_t head_dim : {64, 128}) {
    for (const int32_t group : {1, 2, 5, 8}) {
      Tree tree = gpu_tree(DType::kBf16, group, 1, head_dim, rng);
      grow(tree, rng, 12, 120);
      const std::vector<RowRef> rows = some_rows(tree, static_cast<size_t>(pick(rng, 1, 40)), rng);
      const Step step = gpu_step(tree, rows, rng);
      const std::vector<double> want = attention_f64(tree, rows);
      for (const int processors : {4, 24}) {
        const auto device = make(processors, rng());
        EXPECT_LE(relative_l2(decode(*device, tree, step), want), kBound)
            << "head_dim " << head_dim << " group " << group << " processors " << processors;
      }
    }
  }
}

// Answers below a context: every size of cluster, one to eight row tiles in a block.
TEST_P(DecodeAttention, AnswersBelowAContext) {
  Rng rng(67);
  struct Case {
    int32_t answers, context, own, group, kv_heads, head_dim;
    int processors, cluster;
  };
  for (const Case& c : {Case{32, 2048, 64, 2, 1, 128, 16, 8}, Case{128, 300, 40, 1, 1, 64, 1, 1},
                        Case{100, 900, 64, 2, 1, 64, 8, 2}, Case{30, 900, 33, 2, 1, 64, 4, 4},
                        Case{6, 3000, 20, 8, 2, 64, 4, 2}, Case{12, 900, 40, 2, 1, 64, 3, 3},
                        Case{40, 700, 20, 1, 1, 128, 5, 5}, Case{7, 1500, 40, 4, 1, 64, 6, 6},
                        Case{12, 900, 33, 5, 1, 128, 7, 7}, Case{1, 700, 1, 1, 2, 128, 132, 8},
                        Case{1, 1, 1, 1, 1, 64, 132, 8}}) {
    Tree tree = gpu_tree(DType::kBf16, c.kv_heads * c.group, c.kv_heads, c.head_dim, rng);
    grow_star(tree, c.context, c.answers, c.own);
    const std::vector<RowRef> rows = last_rows(tree);
    const Step step = gpu_step(tree, rows, rng);
    const auto device = make(c.processors, rng());
    EXPECT_LE(relative_l2(decode(*device, tree, step), attention_f64(tree, rows)), kBound)
        << c.answers << " x " << c.context;
    if (!emulated()) continue;  // it has the processors that it has
    EXPECT_EQ(device->decode_plan().cluster, c.cluster) << c.answers << " x " << c.context;
  }
}

TEST_P(DecodeAttention, NothingShared) {
  Rng rng(68);
  Tree tree = gpu_tree(DType::kBf16, 4, 2, 64, rng);
  grow_star(tree, 300, 20, 30);
  const std::vector<RowRef> rows = last_rows(tree);
  const Step step = gpu_step(tree, rows, rng, true, Sharing::kPerRow);
  EXPECT_LE(relative_l2(decode(*make(16), tree, step), attention_f64(tree, rows)), kBound);
}

TEST_P(DecodeAttention, SharpScoresStayFinite) {
  Rng rng(69);
  expect_sharp_scores_stay_finite(
      DType::kBf16, kBound, rng,
      [&](const Tree& tree, const Step& step) { return decode(*make(132), tree, step); });
}

// In whatever order producers, warps and clusters go on.
TEST_P(DecodeAttention, IsDeterministic) {
  Rng rng(70);
  Tree tree = gpu_tree(DType::kBf16, 4, 1, 64, rng);
  grow_star(tree, 900, 12, 40);
  const Step step = gpu_step(tree, last_rows(tree), rng);
  const std::vector<float> want = decode(*make(16, 1), tree, step);
  for (uint64_t seed = 2; seed < 6; ++seed) EXPECT_EQ(decode(*make(16, seed), tree, step), want);
}

// Plans are filled up with such blocks.
TEST(DecodeLaunch, ABlockWithoutRowsDoesNothing) {
  EmulatedRuntime runtime;
  const DecodeSplit nothing[8] = {};
  gpu::DecodeKernelArgs a{};
  a.splits = nothing;
  a.cluster = 8;
  gpu::Launcher launcher(runtime);
  launcher.launch(Kernel::kAttentionDecode64, 8, 1, a, 0, 8);
  // One and a half clusters.
  EXPECT_THROW(launcher.launch(Kernel::kAttentionDecode64, 12, 1, a, 0, 8), Error);
}

// --- what the emulator is for --------------------------------------------------------------------

class DecodeSabotage : public ::testing::Test {
 protected:
  std::string run(const Sabotage& sabotage, uint64_t seed) const {
    return run_with(sabotage, 2, seed, kClusters, tree_, step_);
  }
  void SetUp() override {
    Rng rng(72);
    tree_ = gpu_tree(DType::kBf16, 2, 1, 64, rng);
    grow_star(tree_, 1900, 12, 20);  // two splits of more than two rings
    step_ = gpu_step(tree_, last_rows(tree_), rng, false);
  }

  Tree tree_;
  Step step_;
};

TEST_F(DecodeSabotage, NoneIsFine) { EXPECT_EQ(run({}, 1), ""); }

// Each wait of the producer and of the warps, left out or for the phase before.
TEST_F(DecodeSabotage, MissingAndEarlyWaitsAreFound) {
  for (int barrier = 0; barrier < gpu::kDecodeBarriers; ++barrier) {
    EXPECT_NE(run({.wait = barrier}, 1), "") << "barrier " << barrier;
    EXPECT_NE(run({.early = barrier}, 2), "") << "barrier " << barrier;
  }
}

// Before the states are stored, and before they are merged; before the states of other blocks are
// read, and before a block ends.
TEST_F(DecodeSabotage, MissingBarriersOfBlocksAndClustersAreFound) {
  for (const int number : {0, 1}) {
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      EXPECT_NE(run({.sync = number}, seed), "") << number;
      EXPECT_NE(run({.sync_cluster = number}, seed), "") << number;
    }
  }
}

}  // namespace
}  // namespace prefix::ops::testing
