// The attention kernel for many rows on Hopper: against float64, and that the emulator would have
// noticed a wait, a fence or an arrival that is missing.
#include "body/attention_hopper.h"
#include "kernels/gpu_support.h"
#include "kernels/tracked_memory.h"
#include "support/cases.h"

namespace prefix::ops::testing {
namespace {

using gpu::EmulatedRuntime;
using gpu::Kernel;
using gpu::Sabotage;

class HopperAttention : public GpuTest {
 protected:
  HopperAttention() : GpuTest(kWarpgroups) {}

  // One launch of the kernel does the wide items.
  std::vector<float> attend(const Scene& scene, int processors, uint64_t seed = 1) const {
    const auto device = make(processors, seed);
    std::vector<float> out = run_attention(*device, scene);
    EXPECT_EQ(device->launches(scene.tree.head_dim == 64 ? Kernel::kAttentionHopper64
                                                         : Kernel::kAttentionHopper128),
              1);
    EXPECT_TRUE(std::ranges::any_of(device->attention_plan().items,
                                    [](const gpu::WorkItem& item) { return !item.narrow; }));
    return out;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, HopperAttention, ::testing::ValuesIn(kBf16Backends),
                         backend_name);

std::vector<RowRef> rows_of(const Tree& tree, int32_t begin, int32_t end, int32_t step) {
  std::vector<RowRef> rows;
  for (int32_t n = 0; n < static_cast<int32_t>(tree.nodes.size()); ++n)
    for (int32_t p = tree.nodes[n].begin; p < tree.nodes[n].end; ++p)
      if (p >= begin && p < end && p % step == 0) rows.push_back({n, p});
  return rows;
}

constexpr double kBound = 3e-3;

// Shapes that only a GPU does in a short time, each again and again: a race would show as noise.
TEST(HopperOnGpu, AgreesWithFloat64_cuda_bf16) {
  if (const std::string why = why_no_gpu(kWarpgroups); !why.empty()) GTEST_SKIP() << why;
  const auto device = real_device(DType::kBf16, false, kWarpgroups);
  Rng rng(301);
  for (const int32_t head_dim : {64, 128}) {
    for (const int32_t length : {100, 700, 1600}) {
      Tree tree = gpu_tree(4, 2, head_dim, rng);
      grow_star(tree, length, 40, 60);
      const Scene scene(tree, rows_of(tree, 0, length + 60, 3), rng);
      const std::vector<float> got = run_attention(*device, scene);
      EXPECT_LE(scene.error(got), kBound) << head_dim << ", " << length;
      for (int again = 0; again < testing_support::cases(20); ++again)
        ASSERT_EQ(run_attention(*device, scene), got);
    }
  }
}

// A chain: every tile has diagonal pages, the last one fewer rows and pages than it could.
TEST_P(HopperAttention, CausalPrefill) {
  Rng rng(51);
  for (const int32_t head_dim : {64, 128}) {
    for (const int32_t group : {1, 4, 8}) {
      Tree tree = gpu_tree(2 * group, 2, head_dim, rng);
      tree.nodes.push_back({-1, 0, 300});
      const Scene scene(tree, rows_of(tree, 0, 300, group == 1 ? 1 : 3), rng);
      EXPECT_LE(scene.error(attend(scene, 1)), kBound)
          << "head_dim " << head_dim << " group " << group;
    }
  }
}

// Suffixes below a shared context: pages of several branches in one tile, items that are split, and
// narrow ones, which the other kernel does and merges with these.
TEST_P(HopperAttention, BranchesSplitsAndNarrowItems) {
  Rng rng(52);
  for (const int32_t head_dim : {64, 128}) {
    for (const int32_t own : {10, 40, 100}) {
      Tree tree = gpu_tree(4, 2, head_dim, rng);
      grow_star(tree, 330, 6, own);
      // Of the longest the ends: pages that are before all rows, but not of all.
      const Scene scene(tree, rows_of(tree, own == 100 ? 420 : 330, 330 + own, own == 40 ? 2 : 1),
                        rng);
      for (const int processors : {1, 132})
        EXPECT_LE(scene.error(attend(scene, processors, rng())), kBound)
            << "head_dim " << head_dim << " own " << own << " processors " << processors;
    }
  }
}

TEST_P(HopperAttention, AnyTree) {
  Rng rng(53);
  for (int round = 0; round < 6; ++round) {
    Tree tree = gpu_tree(round % 2 ? 6 : 2, 2, round % 3 ? 64 : 128, rng);
    grow(tree, rng, 9, 60);
    const Scene scene(tree, rows_of(tree, 0, 1000, 2), rng);
    EXPECT_LE(scene.error(attend(scene, round % 2 ? 1 : 132, rng())), kBound) << "round " << round;
  }
}

// In whatever order the producer, the groups and the blocks go on.
TEST_P(HopperAttention, IsDeterministic) {
  Rng rng(54);
  Tree tree = gpu_tree(4, 1, 64, rng);
  grow_star(tree, 200, 3, 40);
  const Scene scene(tree, rows_of(tree, 200, 240, 1), rng);
  const std::vector<float> want = attend(scene, 8);
  for (uint64_t seed = 2; seed < 6; ++seed) EXPECT_EQ(attend(scene, 8, seed), want);
}

// While the producer waits for a stage, the list of the plan is not what it was.
struct ForgetfulProducer {
  void wait(int, int) {
    for (gpu::WidePage& p : list) p.page += 100;
  }
  void expect(int, int) {
    for (gpu::WidePage& p : list) p.page -= 100;
  }
  void copy(int, const void* from, int, int) { copied.push_back(from); }
  template <class T>
  void set(int, const T&) {}

  std::span<gpu::WidePage> list;
  std::vector<const void*> copied;
};

// What comes next is known before the wait, so that bringing it begins at once afterwards.
TEST(HopperAttention, PagesAreLookedUpBeforeWaiting) {
  std::vector<gpu::WidePage> list(12);
  for (int32_t i = 0; i < 12; ++i) list[i].page = 7 * i % 5;
  std::vector<unsigned char> pool(100 * 8192);
  gpu::AttentionKernelArgs a{};
  a.wide_pages = list.data();
  a.pages.layer = pool.data();
  a.pages.page_stride = 8192;
  a.pages.block_bytes = 4096;
  gpu::HeadItem item{};
  item.rows = 100;
  item.page_end = 12;
  ForgetfulProducer producer{list, {}};
  gpu::HopperProducer<64, ForgetfulProducer>(producer, a, item).run(0);
  // Keys of a tile before values of the one before it.
  std::vector<const void*> want;
  const auto four = [&](int32_t begin, int32_t values) {
    for (int32_t i = begin; i < begin + 4; ++i)
      want.push_back(pool.data() + 8192 * list[i].page + values);
  };
  four(0, 0);
  four(4, 0);
  four(0, 4096);
  four(8, 0);
  four(4, 4096);
  four(8, 4096);
  EXPECT_EQ(producer.copied, want);
}

// In a cluster addresses of shared memory say which block, too.
TEST(HopperLaunch, DescriptorsHaveTheAddressInsideTheBlock) {
  const gpu::Matrix64 m = gpu::matrix(0x1200 / 16, 4096, 1024);
  const uint64_t inside = gpu::descriptor(m, 0x400);
  EXPECT_EQ(inside, 0x1600u >> 4 | uint64_t{4096 >> 4} << 16 | uint64_t{1024 >> 4} << 32 |
                        uint64_t{1} << 62);
  for (uint32_t block = 1; block < gpu::kMaxCluster; ++block)
    EXPECT_EQ(gpu::descriptor(m, block << 24 | 0x400), inside);
}

// Plans of small steps are filled up with such items.
TEST(HopperLaunch, AnItemWithoutRowsDoesNothing) {
  EmulatedRuntime runtime;
  const gpu::WideItem none{};
  gpu::AttentionKernelArgs a{};
  a.wide = &none;
  a.wide_count = a.wide_blocks = a.pages.kv_heads = 1;
  EXPECT_NO_THROW(gpu::launch(runtime, Kernel::kAttentionHopper64, 1, 1, a));
}

// --- what the emulator is for --------------------------------------------------------------------

class HopperSabotage : public ::testing::Test {
 protected:
  HopperSabotage() {
    Rng rng(56);
    Tree tree = gpu_tree(4, 1, 64, rng);
    tree.nodes.push_back({-1, 0, 1600});  // items of four tiles: stages are used twice
    scene_ = Scene(tree, rows_of(tree, 1568, 1600, 1), rng, false);
  }
  std::string run(const Sabotage& sabotage, uint64_t seed) const {
    return run_with(sabotage, 1, seed, kWarpgroups, scene_);
  }
  Scene scene_;
};

TEST_F(HopperSabotage, NoneIsFine) { EXPECT_EQ(run({}, 1), ""); }

// Each wait of the producer and of the groups, left out or for the phase before.
TEST_F(HopperSabotage, MissingAndEarlyWaitsAreFound) {
  for (int barrier = 0; barrier < gpu::kHopperBarriers; ++barrier) {
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      EXPECT_NE(run({.wait = barrier}, seed), "") << "barrier " << barrier;
      EXPECT_NE(run({.early = barrier}, seed), "") << "barrier " << barrier;
    }
  }
}

TEST_F(HopperSabotage, MissingFencesAndProductWaitsAreFound) {
  EXPECT_NE(run({.products = true}, 1), "");
  EXPECT_NE(run({.fence_async = true}, 1), "");
  EXPECT_NE(run({.fence = true}, 1), "");
}

// Arriving is what allows the producer to write: too early is a conflict, never is a deadlock.
TEST(TrackedMemory, OverwritingNeedsAnArrivalAfterTheLastRead) {
  gpu::TrackedMemory memory(64);
  gpu::TrackedBarrier full(memory, 0), empty(memory, 1);
  full.begin(1);
  empty.begin(1);
  alignas(16) const uint32_t from[4] = {1, 2, 3, 4};
  uint32_t out[4];
  const int reader = gpu::warp_actor(0, 0);
  full.start_copy(gpu::kProducer, 16, from, 16);
  EXPECT_THROW(memory.read(reader, 16, out, 16), std::logic_error);  // in flight
  full.expect(gpu::kProducer, 16);
  ASSERT_TRUE(full.over(0));
  EXPECT_THROW(memory.read(reader, 16, out, 16), std::logic_error);  // landed, but who knows
  full.learn(reader);
  memory.read(reader, 16, out, 16);
  EXPECT_EQ(out[2], 3u);
  empty.arrive(reader);
  memory.read(reader, 16, out, 16);  // after it said that it was done
  ASSERT_TRUE(empty.over(0));
  full.learn(gpu::kProducer);
  empty.learn(gpu::kProducer);
  EXPECT_THROW(full.start_copy(gpu::kProducer, 16, from, 16), std::logic_error);
  EXPECT_THROW(memory.write(gpu::kProducer, 16, out, 16), std::logic_error);
}

TEST(TrackedMemory, ProductsNeedTheFenceOfWhoStored) {
  gpu::TrackedMemory memory(64);
  const uint32_t value[4] = {};
  const int actor = gpu::warp_actor(1, 2);
  memory.write(actor, 0, value, 16);
  EXPECT_THROW(memory.begin_product(actor, 0), std::logic_error);
  memory.fence_async(actor);
  memory.begin_product(actor, 0);
  EXPECT_THROW(memory.write(actor, 0, value, 16), std::logic_error);  // still being read
  memory.end_product(actor, 0);
  memory.write(actor, 0, value, 16);
}

}  // namespace
}  // namespace prefix::ops::testing
