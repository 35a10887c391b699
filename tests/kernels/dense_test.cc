// Dense segments (src/ops/gpu/dense_segments.h): which ones are found, that they and the items are
// together the whole step, and what comes out where a library does them. The emulator has one.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>

#include "base/log.h"
#include "engine/engine.h"
#include "engine/engine_support.h"
#include "kernels/gpu_support.h"
#include "ops/gpu/dense_segments.h"
#include "ops/gpu/workspace.h"
#include "support/expect_error.h"

namespace prefix::ops::testing {
namespace {

using gpu::DenseLimits;
using gpu::DenseSegment;
using gpu::EmulatedRuntime;
using gpu::Kernel;
using testing_support::expect_error;

constexpr DenseLimits kLow = {40, 64, 64, 32, 1 << 15};

// A device of its own, with low limits.
struct Cudnn {
  explicit Cudnn(const DenseLimits& limits = kLow, int processors = 4, uint64_t seed = 1) {
    auto made = std::make_unique<EmulatedRuntime>(processors, seed);
    runtime = made.get();
    runtime->set_dense(limits);
    device = std::make_unique<GpuDevice>(std::move(made), options());
  }
  static GpuOptions options() {
    GpuOptions o;
    o.cudnn_attention = true;
    return o;
  }
  const std::vector<DenseSegment>& segments() const { return device->attention_plan().dense; }
  int64_t launches(Kernel kernel) const {
    return runtime->counters().launches[static_cast<size_t>(kernel)];
  }

  EmulatedRuntime* runtime;
  std::unique_ptr<GpuDevice> device;
};

Tree make_tree(int32_t heads, int32_t kv_heads, int32_t head_dim, Rng& rng) {
  Tree tree;
  tree.heads = heads;
  tree.kv_heads = kv_heads;
  tree.head_dim = head_dim;
  tree.seed = rng();
  tree.gpu_pages = true;
  return tree;
}

// All tokens of the tree at positions [begin, end).
std::vector<RowRef> rows_of(const Tree& tree, int32_t begin, int32_t end) {
  std::vector<RowRef> rows;
  for (int32_t n = 0; n < static_cast<int32_t>(tree.nodes.size()); ++n)
    for (int32_t p = tree.nodes[n].begin; p < tree.nodes[n].end; ++p)
      if (p >= begin && p < end) rows.push_back({n, p});
  return rows;
}

Step step_of(const Tree& tree, const std::vector<RowRef>& rows, Rng& rng, int32_t tile_rows = 64) {
  StepOptions options;
  options.tile_rows = tile_rows;
  options.ragged = false;
  options.nan_keys = true;
  return make_step(tree, rows, options, rng);
}

std::vector<DenseSegment> find(const Step& step, const DenseLimits& limits,
                               std::vector<int32_t>* pages = nullptr) {
  std::vector<DenseSegment> segments;
  std::vector<int32_t> list;
  gpu::find_dense(
      step.plan, step.positions, limits, [](const DenseSegment&) { return true; }, segments,
      pages ? *pages : list);
  return segments;
}

// Two roundings to bf16 instead of one.
constexpr double kBound = 4e-3;

// --- which segments are found
// ----------------------------------------------------------------------

TEST(DenseSegments, LengthsAreFew) {
  EXPECT_EQ(gpu::dense_length(127, 128), 0);
  EXPECT_EQ(gpu::dense_length(1100, 128), 1024);
  EXPECT_EQ(gpu::dense_length(1152, 128), 1152);
  EXPECT_EQ(gpu::dense_length(10000, 128), 9216);
  std::set<int32_t> lengths;
  for (int32_t n = 1; n <= 1 << 15; ++n) {
    const int32_t length = gpu::dense_length(n, 128);
    ASSERT_EQ(length % 128, 0);
    ASSERT_LE(length, n);
    ASSERT_LT(n - length, std::max(128, n / 8 + 1));
    lengths.insert(length);
  }
  EXPECT_LE(lengths.size(), 8u * 6 + 9);
}

TEST(DenseSegments, ALongPromptIsOneCausalSegment) {
  Rng rng(401);
  Tree tree = make_tree(2, 1, 16, rng);
  tree.nodes.push_back({-1, 0, 2100});
  const std::vector<DenseSegment> found =
      find(step_of(tree, rows_of(tree, 0, 2100), rng), DenseLimits{});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].causal);
  EXPECT_EQ(std::pair(found[0].row_begin, found[0].rows), std::pair(0, 2048));
  EXPECT_EQ(std::pair(found[0].block_begin, found[0].blocks), std::pair(0, 64));
}

// Rows that go on in the middle of a page: the segment begins at the next one.
TEST(DenseSegments, ACausalSegmentBeginsWithAPage) {
  Rng rng(402);
  Tree tree = make_tree(2, 1, 16, rng);
  tree.nodes.push_back({-1, 0, 1500});
  const std::vector<DenseSegment> found =
      find(step_of(tree, rows_of(tree, 70, 1500), rng), DenseLimits{});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].causal);
  EXPECT_EQ(std::pair(found[0].row_begin, found[0].rows), std::pair(96 - 70, 1280));
}

// A prompt in pieces: the piece before is there, too.
TEST(DenseSegments, ACausalSegmentHasWhatCameBefore) {
  Rng rng(408);
  Tree tree = make_tree(2, 1, 16, rng);
  tree.nodes = {{-1, 0, 1300}, {0, 1300, 1300 + 12 + 1024}, {0, 1300, 1400}};
  std::vector<int32_t> pages;
  const Step step = step_of(tree, rows_of(tree, 1300, INT32_MAX), rng);
  const std::vector<DenseSegment> found = find(step, DenseLimits{}, &pages);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].causal);
  // From the next page on; of the 1312 keys before, as many as a length may be.
  EXPECT_EQ(std::pair(found[0].row_begin, found[0].rows), std::pair(12, 1024));
  EXPECT_EQ(found[0].block_begin, (1312 - 1280) / 32);
  EXPECT_EQ(found[0].keys(), 1280 + 1024);
  ASSERT_EQ(static_cast<int32_t>(pages.size()), found[0].blocks);
  EXPECT_EQ(std::set<int32_t>(pages.begin(), pages.end()).size(), pages.size());
}

TEST(DenseSegments, TheSegmentWithMostWorkWins) {
  Rng rng(403);
  Tree tree = make_tree(2, 1, 16, rng);
  tree.nodes.push_back({-1, 0, 4096 + 1024});
  const Step step = step_of(tree, rows_of(tree, 4096, 4096 + 1024), rng);
  const std::vector<DenseSegment> found = find(step, DenseLimits{});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].causal);
  EXPECT_EQ(found[0].keys(), 4096 + 1024);
  EXPECT_EQ(found[0].rows, 1024);
  DenseLimits room;
  room.most_keys = 1024;  // for one of both
  EXPECT_FALSE(find(step, room)[0].causal);
  EXPECT_EQ(find(step, room)[0].keys(), 1024);
}

TEST(DenseSegments, SuffixesShareTheirContext) {
  Rng rng(404);
  Tree tree = make_tree(2, 1, 16, rng);
  grow_star(tree, 1500, 20, 100);
  std::vector<int32_t> pages;
  const Step step = step_of(tree, rows_of(tree, 1500, 1600), rng);
  const std::vector<DenseSegment> found = find(step, DenseLimits{}, &pages);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_FALSE(found[0].causal);
  EXPECT_EQ(std::pair(found[0].row_begin, found[0].rows), std::pair(0, 1920));
  EXPECT_EQ(found[0].keys(), 1408);
  const AttentionRun& context = step.plan.runs[0];
  for (int32_t i = 0; i < found[0].blocks; ++i)
    EXPECT_EQ(pages[static_cast<size_t>(i)],
              step.plan.pages[static_cast<size_t>(context.page_begin + i)]);
}

// Two contexts, two prompts, and rows that belong to none of them, in one step.
TEST(DenseSegments, SeveralInAStep) {
  Rng rng(405);
  Tree tree = make_tree(2, 1, 16, rng);
  tree.nodes = {{-1, 0, 320}, {0, 320, 420}, {0, 320, 420}, {-1, 0, 200},
                {-1, 0, 30},  {-1, 0, 512},  {5, 512, 600}, {5, 512, 600}};
  std::vector<RowRef> rows;
  for (const RowRef& row : rows_of(tree, 0, 600))
    if ((row.node != 0 && row.node != 5) || row.position % 100 == 0) rows.push_back(row);
  const std::vector<DenseSegment> found = find(step_of(tree, rows, rng, 7), kLow);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].keys(), 320);
  EXPECT_FALSE(found[0].causal);
  EXPECT_TRUE(found[1].causal);
  EXPECT_EQ(found[1].rows, 192);
  EXPECT_EQ(found[2].keys(), 512);
}

TEST(DenseSegments, LittleWorkIsNone) {
  Rng rng(406);
  Tree tree = make_tree(2, 1, 16, rng);
  grow_star(tree, 1023, 8, 100);
  EXPECT_TRUE(find(step_of(tree, rows_of(tree, 1023, 1123), rng), DenseLimits{}).empty());
  tree.nodes = {{-1, 0, 1023}};
  EXPECT_TRUE(find(step_of(tree, rows_of(tree, 0, 1023), rng), DenseLimits{}).empty());
}

// Items and segments are together what each row sees, once, and the first item of a row in a
// segment goes on from it.
TEST(DenseSegments, WithItemsTheyAreTheWholeStep) {
  Rng rng(407);
  int64_t segments = 0, resumed = 0, alone = 0;
  for (int round = 0; round < 300; ++round) {
    Tree tree = make_tree(4, 2, 16, rng);
    grow(tree, rng, static_cast<int>(pick(rng, 1, 12)), static_cast<int>(pick(rng, 1, 400)));
    const int32_t from = static_cast<int32_t>(pick(rng, 0, 1) * pick(rng, 0, 300));
    const std::vector<RowRef> rows = rows_of(tree, from, INT32_MAX);
    if (rows.empty()) continue;
    StepOptions options;
    options.tile_rows = static_cast<int32_t>(pick(rng, 1, 80));
    options.split_runs = pick(rng, 0, 1) == 1;
    const Step step = make_step(tree, rows, options, rng);
    gpu::AttentionShape shape;
    shape.kv_heads = 2;
    shape.group_heads = 2;
    shape.warps = pick(rng, 0, 1) ? 4 : 8;
    shape.processors = static_cast<int32_t>(pick(rng, 1, 132));
    shape.dense = kLow;
    shape.accepts = [&](const DenseSegment& s) { return s.rows % 96 != 0; };
    gpu::DevicePlan plan;
    gpu::plan_attention(step.plan, step.positions, shape, plan);
    const auto n = static_cast<int32_t>(rows.size());
    std::map<std::pair<int32_t, int32_t>, int32_t> page_of;  // (packed row, block) -> page
    std::vector<int> writers(static_cast<size_t>(2 * n)), resumes(writers.size());
    std::vector<const DenseSegment*> dense(writers.size());
    int64_t sums = 0;
    int32_t done = 0;
    for (const DenseSegment& s : plan.dense) {
      ++segments;
      EXPECT_GE(s.row_begin, done);
      done = s.row_begin + s.rows;
      ASSERT_LE(done, n);
      EXPECT_NE(s.rows % 96, 0);
      for (int32_t row = s.row_begin; row < done; ++row) {
        const int32_t position = step.positions[static_cast<size_t>(row)];
        if (s.causal) {
          ASSERT_EQ(position, s.block_begin * kPageTokens + s.keys() - s.rows + row - s.row_begin);
        } else {
          ASSERT_GE(position, s.keys());  // it sees the segment wholly, and its own key besides
        }
        for (int32_t b = 0; b < s.blocks && s.block_begin + b <= position / kPageTokens; ++b)
          for (int32_t head = 0; head < 2; ++head)
            page_of.emplace(std::pair(2 * row + head, s.block_begin + b),
                            plan.dense_pages[static_cast<size_t>(s.page_begin + b)]);
        dense[static_cast<size_t>(2 * row)] = dense[static_cast<size_t>(2 * row + 1)] = &s;
      }
    }
    for (const gpu::Item& item : plan.items) {
      if (item.state < 0)
        for (int32_t r = 0; r < item.rows; ++r) ++writers[static_cast<size_t>(item.row_begin + r)];
      ASSERT_LE(item.resumed, item.rows);
      for (int32_t r = item.rows - item.resumed; r < item.rows; ++r) {
        const auto packed = static_cast<size_t>(item.row_begin + r);
        ++resumes[packed];
        ASSERT_TRUE(dense[packed]);
        sums = gpu::dense_sums(
            std::span(plan.dense.data(), static_cast<size_t>(dense[packed] - plan.dense.data())),
            4);
        EXPECT_EQ(item.sums, sums - dense[packed]->row_begin);
        EXPECT_EQ(item.sums_ld, dense[packed]->rows);
      }
      for (int32_t i = item.run_begin; i < item.run_end; ++i) {
        const gpu::Run& run = plan.runs[static_cast<size_t>(i)];
        for (int32_t row = run.row_begin; row < run.row_end; ++row)
          for (int32_t b = 0; b < run.blocks; ++b)
            ASSERT_TRUE(page_of
                            .emplace(std::pair(row, run.block_begin + b),
                                     step.plan.pages[static_cast<size_t>(run.page_begin + b)])
                            .second);
      }
    }
    for (const gpu::Group& group : plan.groups)
      for (int32_t r = 0; r < group.rows; ++r) ++writers[static_cast<size_t>(group.row_begin + r)];
    // What each row must see, by the plan that has no segments.
    std::map<std::pair<int32_t, int32_t>, int32_t> want;
    for (const AttentionRun& run : step.plan.runs)
      for (int32_t row = run.row_begin; row < run.row_end; ++row)
        for (int32_t b = 0; b < run.blocks; ++b)
          if (run.block_begin + b <= step.positions[static_cast<size_t>(row)] / kPageTokens)
            want[{row, run.block_begin + b}] =
                step.plan.pages[static_cast<size_t>(run.page_begin + b)];
    for (const auto& [at, page] : want)
      for (int32_t head = 0; head < 2; ++head) {
        const auto found = page_of.find({2 * at.first + head, at.second});
        ASSERT_TRUE(found != page_of.end()) << "row " << at.first << " block " << at.second;
        EXPECT_EQ(found->second, page);
      }
    for (size_t packed = 0; packed < writers.size(); ++packed) {
      const DenseSegment* const s = dense[packed];
      const bool nothing_left = s && s->causal && s->block_begin == 0;
      EXPECT_EQ(writers[packed], nothing_left ? 0 : 1);
      EXPECT_EQ(resumes[packed], s && !nothing_left ? 1 : 0);
      resumed += resumes[packed];
      alone += nothing_left;
    }
  }
  EXPECT_GT(segments, 200);
  EXPECT_GT(resumed, 10000);
  EXPECT_GT(alone, 10000);
}

// --- what comes out
// ----------------------------------------------------------------------------------

TEST(DenseAttention, AgreesWithFloat64) {
  Rng rng(411);
  int64_t segments = 0;
  for (const int32_t head_dim : {16, 64, 72, 128}) {
    for (const int32_t group : {1, 2, 5}) {
      for (const bool star : {false, true}) {
        Tree tree = make_tree(2 * group, 2, head_dim, rng);
        if (star) {
          grow_star(tree, static_cast<int>(pick(rng, 100, 200)), 5, 37);
        } else {
          grow(tree, rng, 5, 150);
        }
        const std::vector<RowRef> rows =
            rows_of(tree, star ? tree.nodes[0].end : static_cast<int32_t>(pick(rng, 0, 60)), 400);
        if (rows.empty()) continue;
        const Step step = step_of(tree, rows, rng, static_cast<int32_t>(pick(rng, 8, 64)));
        const Cudnn cudnn(kLow, star ? 1 : 132, rng());
        const double error =
            relative_l2(run_on_device(*cudnn.device, tree, step), attention_f64(tree, rows));
        EXPECT_LE(error, kBound) << "head_dim " << head_dim << " group " << group;
        segments += static_cast<int64_t>(cudnn.segments().size());
        EXPECT_EQ(cudnn.runtime->counters().sdpas, static_cast<int64_t>(cudnn.segments().size()));
      }
    }
  }
  EXPECT_GE(segments, 20);
}

// The same on a GPU with cuDNN; null where either is missing.
std::unique_ptr<Device> real_device(std::string& why) {
  try {
    return make_device({"cuda", DType::kBf16, "auto", 1, false, true, "cudnn"});
  } catch (const Error& e) {
    why = e.message();
    return nullptr;
  }
}

TEST(CudnnOnGpu, AgreesWithFloat64_cuda_bf16) {
  std::string why;
  const std::unique_ptr<Device> device = real_device(why);
  if (!device) GTEST_SKIP() << why;
  Rng rng(417);
  double worst = 0;
  for (const int32_t head_dim : {64, 128}) {
    for (const char* const kind : {"causal", "later", "shared"}) {
      Tree tree = make_tree(4, 2, head_dim, rng);
      const bool shared = kind == std::string("shared"), causal = kind == std::string("causal");
      if (shared) {
        grow_star(tree, 1100, 20, 60);
      } else {
        tree.nodes = {{-1, 0, causal ? 1100 : 1700}};
      }
      const std::vector<RowRef> rows = rows_of(tree, causal ? 0 : 1100, 1700);
      const Step step = step_of(tree, rows, rng);
      const std::vector<float> got = run_on_device(*device, tree, step);
      EXPECT_EQ(static_cast<GpuDevice&>(*device).attention_plan().dense.size(), 1u) << "refused";
      const double error = relative_l2(got, attention_f64(tree, rows));
      EXPECT_LE(error, kBound) << head_dim << ", " << kind;
      worst = std::max(worst, error);
      for (int again = 0; again < 5; ++again) EXPECT_EQ(run_on_device(*device, tree, step), got);
    }
  }
  RecordProperty("relative", std::to_string(worst));
}

// A prompt alone: its result is the library's, and no item is left.
TEST(DenseAttention, APromptOfWholePagesNeedsNoItems) {
  Rng rng(412);
  Tree tree = make_tree(4, 2, 64, rng);
  tree.nodes = {{-1, 0, 256}};
  const std::vector<RowRef> rows = rows_of(tree, 0, 256);
  const Cudnn cudnn;
  EXPECT_LE(relative_l2(run_on_device(*cudnn.device, tree, step_of(tree, rows, rng)),
                        attention_f64(tree, rows)),
            2e-3);
  EXPECT_EQ(cudnn.launches(Kernel::kUnpackPages), 1);
  EXPECT_EQ(cudnn.launches(Kernel::kAttention64x8) + cudnn.launches(Kernel::kAttention64x4), 0);
}

// Leaves of a few rows: narrow items go on, in groups with others, in any order of blocks.
TEST(DenseAttention, NarrowItemsGoOnAndAreFolded) {
  Rng rng(413);
  Tree tree = make_tree(4, 2, 64, rng);
  grow_star(tree, 100, 40, 400);  // 64 keys are dense, the next 32 wide items, then leaves
  std::vector<RowRef> rows;
  for (int32_t leaf = 1; leaf <= 40; ++leaf)
    for (int32_t p = 490; p < 492; ++p) rows.push_back({leaf, p});
  const Step step = step_of(tree, rows, rng);
  const std::vector<double> want = attention_f64(tree, rows);
  std::vector<float> first;
  DenseLimits limits = kLow;
  limits.most_keys = 64;
  for (uint64_t seed = 1; seed < 6; ++seed) {
    const Cudnn cudnn(limits, 132, seed);
    const std::vector<float> got = run_on_device(*cudnn.device, tree, step);
    EXPECT_LE(relative_l2(got, want), kBound);
    ASSERT_EQ(cudnn.segments().size(), 1u);
    EXPECT_FALSE(cudnn.device->attention_plan().groups.empty());
    if (first.empty()) first = got;
    EXPECT_TRUE(testing_support::same_bits(got, first));
  }
}

TEST(DenseAttention, ARefusedShapeIsDoneByItems) {
  Rng rng(414);
  Tree tree = make_tree(4, 2, 64, rng);
  grow_star(tree, 150, 5, 40);
  const std::vector<RowRef> rows = rows_of(tree, 0, 190);
  const Step step = step_of(tree, rows, rng);
  const Cudnn cudnn;
  cudnn.runtime->refuse_sdpa([](const gpu::SdpaShape&) { return true; });
  const auto plain = emulated_device(DType::kBf16);
  EXPECT_TRUE(testing_support::same_bits(run_on_device(*cudnn.device, tree, step),
                                         run_on_device(*plain, tree, step)));
  EXPECT_EQ(cudnn.runtime->counters().sdpas, 0);
  // It is told once.
  std::vector<std::string> told;
  LogLevel level;
  for (std::string text; next_log(SIZE_MAX, &level, &text);)
    if (text.find("a shape that the test refuses") != std::string::npos) told.push_back(text);
  EXPECT_EQ(told.size(), 1u);
  // Only causal shapes are refused, then only those with keys before their own.
  cudnn.runtime->refuse_sdpa([](const gpu::SdpaShape& s) { return s.causal != 0; });
  EXPECT_LE(relative_l2(run_on_device(*cudnn.device, tree, step), attention_f64(tree, rows)),
            kBound);
  EXPECT_GT(cudnn.runtime->counters().sdpas, 0);
  tree.nodes = {{-1, 0, 300}};
  const std::vector<RowRef> later = rows_of(tree, 100, 300);
  const Step piece = step_of(tree, later, rng);
  for (const bool refused : {false, true}) {
    cudnn.runtime->refuse_sdpa(
        [&](const gpu::SdpaShape& s) { return refused && s.causal && s.keys > s.rows; });
    EXPECT_LE(relative_l2(run_on_device(*cudnn.device, tree, piece), attention_f64(tree, later)),
              kBound);
    ASSERT_EQ(cudnn.segments().size(), 1u);
    EXPECT_EQ(cudnn.segments()[0].causal && cudnn.segments()[0].keys() > 200, !refused);
  }
}

// A value that is NaN reaches those who see it, and nobody in another sequence.
TEST(DenseAttention, NanValueStaysInItsSequence) {
  Rng rng(415);
  Tree tree = make_tree(2, 1, 64, rng);
  tree.nodes = {{-1, 0, 128}, {0, 128, 170}, {0, 128, 170}, {-1, 0, 96}};
  const std::vector<RowRef> rows = rows_of(tree, 0, 170);
  const Step clean = step_of(tree, rows, rng, 32);
  const KvLayout kv = tree.layout();
  // The page of (row, block).
  const auto page_of = [&](int32_t row, int32_t block) {
    for (const AttentionRun& run : clean.plan.runs)
      if (row >= run.row_begin && row < run.row_end && block >= run.block_begin &&
          block < run.block_begin + run.blocks)
        return clean.plan.pages[static_cast<size_t>(run.page_begin + block - run.block_begin)];
    return -1;
  };
  const Cudnn cudnn;
  const std::vector<float> want = run_on_device(*cudnn.device, tree, clean);
  EXPECT_GE(cudnn.segments().size(), 2u);
  const size_t width = 128;
  struct Case {
    int32_t row, block;
    std::function<bool(const RowRef&)> sees, may;  // the page's sequences
  };
  const int32_t first_leaf = 128, last = static_cast<int32_t>(rows.size()) - 1;
  const Case cases[] = {
      // The context: all rows below it. Its own rows may see what comes later in it.
      {first_leaf, 2, [](const RowRef& r) { return r.node != 3 && r.position >= 66; },
       [](const RowRef& r) { return r.node != 3; }},
      {first_leaf + 41, 4, [](const RowRef& r) { return r.node == 1 && r.position >= 130; },
       [](const RowRef& r) { return r.node == 1; }},
      {last, 1, [](const RowRef& r) { return r.node == 3 && r.position >= 34; },
       [](const RowRef& r) { return r.node == 3; }},
  };
  for (const Case& c : cases) {
    Step dirty = clean;
    put(dirty.pool.data() + kv.value_offset(page_of(c.row, c.block), 0, 0), gpu_index(kv, 2, 7),
        DType::kBf16, std::numeric_limits<float>::quiet_NaN());
    const std::vector<float> got = run_on_device(*cudnn.device, tree, dirty);
    for (size_t r = 0; r < rows.size(); ++r) {
      EXPECT_TRUE(!c.sees(rows[r]) || std::isnan(got[r * width + 7])) << "row " << r;
      if (c.may(rows[r])) continue;
      EXPECT_EQ(0, std::memcmp(&want[r * width], &got[r * width], width * sizeof(float)))
          << "row " << r;
    }
  }
}

// A key that is NaN: sums of weights are NaN, too.
TEST(DenseAttention, ANanKeyIsSeen) {
  Rng rng(416);
  Tree tree = make_tree(2, 1, 64, rng);
  grow_star(tree, 100, 4, 40);
  const std::vector<RowRef> rows = rows_of(tree, 100, 140);
  Step step = step_of(tree, rows, rng);
  put(step.pool.data() + tree.layout().key_offset(step.plan.pages[0], 0, 0),
      gpu_index(tree.layout(), 2, 7), DType::kBf16, std::numeric_limits<float>::quiet_NaN());
  const Cudnn cudnn;
  for (const float x : run_on_device(*cudnn.device, tree, step)) ASSERT_TRUE(std::isnan(x));
  EXPECT_EQ(cudnn.runtime->counters().sdpas, 1);
}

// --- the option
// ----------------------------------------------------------------------------------------

TEST(CudnnOption, WhatItCannotDoIsRefusedAtOnce) {
  const auto make = [](const GpuOptions& options, bool library = true) {
    auto runtime = std::make_unique<EmulatedRuntime>();
    if (!library) runtime->remove_sdpa();
    return std::make_unique<GpuDevice>(std::move(runtime), options);
  };
  GpuOptions options = Cudnn::options();
  options.invariant = true;
  expect_error(Code::kInvalidArgument, {"cuda_attention=cudnn", "invariant"},
               [&] { make(options); });
  options = Cudnn::options();
  options.dtype = DType::kF32;
  expect_error(Code::kInvalidArgument, {"cuda_attention=cudnn", "bf16"}, [&] { make(options); });
  expect_error(Code::kUnsupportedDevice, {"cuda_attention=cudnn", "no library"},
               [&] { make(Cudnn::options(), false); });
  for (const int32_t head_dim : {20, 160}) {
    ReserveShape shape;
    shape.rows = 64;
    shape.heads = 2;
    shape.inner = 32;
    shape.kv = {DType::kBf16, 1, 1, head_dim};
    expect_error(Code::kUnsupportedModel, {"cuda_attention=cudnn", cat(head_dim)},
                 [&] { make(Cudnn::options())->reserve(shape); });
  }
  const auto plain = emulated_device(DType::kBf16);
  EXPECT_NE(plain->numerics(), make(Cudnn::options())->numerics());
}

// While it lives, device=cuda is an emulator with low limits.
struct LowCuda {
  explicit LowCuda(bool library = true) {
    replace_gpu_runtime([this, library](int, bool) {
      auto made = std::make_unique<EmulatedRuntime>();
      made->set_dense(kLow);
      if (!library) made->remove_sdpa();
      runtime = made.get();
      return made;
    });
  }
  ~LowCuda() { replace_gpu_runtime({}); }
  EmulatedRuntime* runtime = nullptr;
};

std::vector<RequestSpec> requests(int seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  const std::vector<int32_t> head = testing_support::random_tokens(random, 150, 64);
  std::vector<RequestSpec> batch;
  for (int i = 0; i < 5; ++i) {
    batch.push_back(testing_support::logits_of(i < 4 ? head : std::vector<int32_t>()));
    for (const int32_t t : testing_support::random_tokens(random, i < 4 ? 20 : 100, 64))
      batch.back().tokens.push_back(t);
  }
  return batch;
}

TEST(CudnnOption, AnEngineComesToTheSameResults) {
  LowCuda cuda;
  const testing_support::TinyCheckpoint checkpoint;
  const auto plain = testing_support::make_engine(checkpoint, {{"device", "cuda"}});
  const auto want = testing_support::run_all(*plain, requests(1));
  for (const char* const rows : {"4096", "64"}) {  // whole, and in pieces
    const auto engine = testing_support::make_engine(
        checkpoint, {{"device", "cuda"}, {"cuda_attention", "cudnn"}, {"rows", rows}});
    const auto got = testing_support::run_all(*engine, requests(1));
    EXPECT_GE(cuda.runtime->counters().sdpas, rows == std::string("64") ? 6 : 4);
    for (size_t i = 0; i < got->count(); ++i) {
      ASSERT_EQ(got->result(i).status, Code::kOk) << got->result(i).message;
      double error = 0, norm = 0;
      for (size_t j = 0; j < got->result(i).values.size(); ++j) {
        const double w = want->result(i).values[j];
        error += (got->result(i).values[j] - w) * (got->result(i).values[j] - w);
        norm += w * w;
      }
      EXPECT_LE(std::sqrt(error / norm), 2e-2) << "rows " << rows;
    }
    EXPECT_EQ(want->result(0).usage.shared, got->result(0).usage.shared);
  }
}

// A failure of any call of a step ends the requests of that step only.
TEST(CudnnOption, AFailureEndsTheRequestsOfItsStepOnly) {
  LowCuda cuda;
  const testing_support::TinyCheckpoint checkpoint;
  const auto engine = testing_support::make_engine(
      checkpoint, {{"device", "cuda"}, {"cuda_attention", "cudnn"}, {"cache", "false"}});
  const auto run = [&] { return testing_support::run_all(*engine, requests(2)); };
  const auto want = run();
  int64_t failed = 0;
  for (int64_t call = 0; call < 25; ++call) {
    cuda.runtime->fail_after(call, Code::kUnsupportedDevice);
    const auto job = run();
    failed += job->result(0).status == Code::kUnsupportedDevice;
    cuda.runtime->fail_after(-1, Code::kOk);
    EXPECT_TRUE(testing_support::same_bits(run()->result(0), want->result(0)));
  }
  EXPECT_GE(failed, 20);
}

// Not in the first step of a long prompt.
TEST(CudnnOption, TheLargestStepIsPreparedWhenTheEngineIsMade) {
  LowCuda cuda;
  const testing_support::TinyCheckpoint checkpoint;
  const auto engine = testing_support::make_engine(
      checkpoint, {{"device", "cuda"}, {"cuda_attention", "cudnn"}, {"rows", "128"}});
  EXPECT_EQ(cuda.runtime->counters().prepared, 1);
  std::mt19937 random(3);
  testing_support::run_all(
      *engine, {testing_support::logits_of(testing_support::random_tokens(random, 128, 64))});
  EXPECT_GT(cuda.runtime->counters().sdpas, 0);
  EXPECT_EQ(cuda.runtime->shapes(), 1u);
}

TEST(CudnnOption, WithoutItsLibraryThereIsNoEngine) {
  const LowCuda cuda(false);
  const testing_support::TinyCheckpoint checkpoint;
  expect_error(Code::kUnsupportedDevice, {"cuda_attention=cudnn"}, [&] {
    testing_support::make_engine(checkpoint, {{"device", "cuda"}, {"cuda_attention", "cudnn"}});
  });
}

}  // namespace
}  // namespace prefix::ops::testing
