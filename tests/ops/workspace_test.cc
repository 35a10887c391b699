// The memory that the CPU device has for itself.
#include "ops/cpu/workspace.h"

#include <gtest/gtest.h>

#include <memory>

#include "ops/op_cpu.h"

namespace prefix::ops {
namespace {

TEST(Workspace, AllScratchOfTheDeviceIsCounted) {
  CpuOptions options;
  options.threads = std::make_shared<Threads>(3);
  CpuDevice device(options);
  EXPECT_EQ(device.workspace_now(), 0u);
  size_t bytes = 0;
  const auto reserve = [&](Scratch& scratch) {
    scratch.reserve(bytes += 1000);
    return bytes;
  };
  size_t all = 0;
  for (int thread = 0; thread < 3; ++thread) {
    all += reserve(device.context().scratch[thread]);
    all += reserve(device.context().wide[thread]);
  }
  all += reserve(*device.context().partials);
  EXPECT_EQ(device.workspace_now(), all);
  // Whichever threads take the blocks.
  device.over_blocks(1000, [](const RowBlock& block) {
    const CpuContext& own = static_cast<CpuDevice&>(block.device).context();
    EXPECT_NE(own.scratch, nullptr);
    own.scratch[0].reserve(1 << 20);
    own.wide[0].reserve(1 << 20);
    own.partials->reserve(1 << 20);
  });
  const size_t of_workers = device.workspace_now() - all;
  EXPECT_GE(of_workers, size_t{3} << 20);
  EXPECT_LE(of_workers, size_t{9} << 20);
  EXPECT_EQ(of_workers % (size_t{3} << 20), 0u);
  // What a smaller call needs is there already.
  device.context().partials->reserve(1);
  EXPECT_EQ(device.workspace_now(), all + of_workers);
}

// Rows of one step need none of what another kind of model would have them take.
TEST(Workspace, EachPartIsForWhatTheModelHas) {
  ReserveShape shape;
  shape.rows = 500;
  shape.heads = 8;
  shape.widest = 1024;
  shape.hidden = 256;
  shape.pages = 1000;
  shape.positions = 1000;
  shape.kv = {KvType::kBf16, 1, 2, 64};
  const auto of = [&](const NumericTypes& types, int32_t threads) {
    CpuOptions options;
    options.isa = "scalar";
    options.types = types;
    options.threads = std::make_shared<Threads>(threads);
    return CpuDevice(options).sizes().workspace(shape);
  };
  const CpuWorkspace dense = of(kBf16Types, 1);
  EXPECT_EQ(dense.partials, 0u) << "no tile is cut, and nothing is made whole numbers";
  EXPECT_GT(dense.scratch, 0u);
  EXPECT_EQ(dense.worker_device, 0u);
  EXPECT_EQ(dense.bytes(1), dense.scratch + dense.wide);

  NumericTypes whole = kBf16Types;
  whole.int8 = kInt8All;
  EXPECT_GE(of(whole, 1).partials, 500u * 1024);
  EXPECT_EQ(of(whole, 4).worker_device, 0u) << "of a model without blocks";
  shape.block = 72;
  EXPECT_GE(of(whole, 4).worker_device, 72u * 1024 + 1024 * sizeof(float));
  EXPECT_EQ(of(whole, 1).worker_device, 0u) << "one thread has the device itself";
  shape.experts = 4;
  shape.expert_widest = 512;
  EXPECT_GE(of(whole, 1).partials, 4 * 500u * (512 + 2 * 64));

  shape.recurrent = {.channels = 2000,
                     .width = 4,
                     .heads = 16,
                     .lines = 128,
                     .columns = 64,
                     .gates = 32,
                     .state_pages = 100};
  EXPECT_GE(of(kBf16Types, 1).partials, 2000u * 3 * 10 * sizeof(float)) << "ten stored states";
  EXPECT_GE(of(kBf16Types, 1).scratch, 8u * 16 / 4 * 128 * 64 * sizeof(float));
  EXPECT_LT(of(kBf16Types, 4).scratch, of(kBf16Types, 1).scratch) << "threads share the heads";
}

}  // namespace
}  // namespace prefix::ops
