// Rows of a step in blocks, each of which a thread takes through several operations.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <set>
#include <vector>

#include "ops/cpu/kernel_tables.h"
#include "ops/op_cpu.h"

namespace prefix::ops {
namespace {

CpuDevice device_of(int threads) {
  return CpuDevice({kBf16Types, "auto", std::make_shared<Threads>(threads)});
}

TEST(RowBlocks, OfFewRowsThereAreNone) {
  for (const int threads : {1, 2, 5}) {
    const CpuDevice device = device_of(threads);
    EXPECT_EQ(device.sizes().workers(), threads);
    for (const int64_t rows : {0, 1, 47, 95}) EXPECT_EQ(device.sizes().block_rows(rows), 0) << rows;
    EXPECT_EQ(device.sizes().block_rows(96 * threads - 1), 0);
    EXPECT_GT(device.sizes().block_rows(96 * threads), 0);
  }
}

// Large enough to be worth reading the weights for, small enough for L2,
// and as many for each thread.
void expect_alike(const KernelTable& table, int threads) {
  const CpuDevice device({kBf16Types, "scalar", std::make_shared<Threads>(threads)}, table);
  const int64_t step = std::max(table.gemm.row_step, kPrefetchRows);
  for (int64_t rows = 96 * threads; rows < 3000; ++rows) {
    const int64_t each = device.sizes().block_rows(rows);
    ASSERT_GE(each, rows < 2 * table.gemm.layer_rows * threads ? 48 : table.gemm.layer_rows)
        << rows;
    ASSERT_LE(each, device.sizes().longest_block(rows)) << rows;
    ASSERT_EQ(each % step, 0) << rows;
    const int64_t blocks = (rows + each - 1) / each;
    ASSERT_GE(blocks, step == kPrefetchRows ? 2 * threads - 1 : threads + 1) << rows;
    // In as many turns of all threads no shorter ones would do: none waits longer than it must.
    const int64_t turns = (blocks + threads - 1) / threads;
    const int64_t least = (rows + turns * threads - 1) / (turns * threads);
    ASSERT_LT(each - least, step) << rows;
  }
}

TEST(RowBlocks, AreAlikeForAllThreads) {
  KernelTable tiles = kernel_table(Isa::kScalar);
  tiles.gemm.row_step = 32;
  tiles.gemm.layer_rows = 112;  // no multiple of a step with half as many more
  for (const int threads : {1, 2, 5}) {
    expect_alike(kernel_table(Isa::kScalar), threads);
    expect_alike(tiles, threads);
  }
}

TEST(RowBlocks, HoldEachRowOnceAndComputeAlone) {
  for (const int threads : {1, 3}) {
    CpuDevice device = device_of(threads);
    for (const int64_t rows : {96 * threads, 1001}) {
      std::vector<std::atomic<int>> seen(static_cast<size_t>(rows)), busy(3);
      device.over_blocks(rows, [&](const RowBlock& block) {
        EXPECT_LE(block.rows, device.sizes().block_rows(rows));
        ASSERT_GE(block.worker, 0);
        ASSERT_LT(block.worker, device.sizes().workers());
        EXPECT_EQ(busy[static_cast<size_t>(block.worker)]++, 0);
        EXPECT_EQ(block.device.sizes().workers(), 1);
        // It neither waits for the threads of the step nor hands them anything.
        int64_t sum = 0;
        block.device.parallel(5, [&](int64_t i) { sum += i; });
        EXPECT_EQ(sum, 10);
        for (int64_t row = block.first; row < block.first + block.rows; ++row)
          ++seen[static_cast<size_t>(row)];
        --busy[static_cast<size_t>(block.worker)];
      });
      for (const std::atomic<int>& times : seen) ASSERT_EQ(times, 1);
    }
  }
}

// What an operation needs besides its arrays, such as rows as whole numbers, belongs to its worker.
TEST(RowBlocks, EachWorkerHasItsOwnDevice) {
  constexpr int kThreads = 3;
  CpuDevice device = device_of(kThreads);
  std::vector<Device*> of_worker(kThreads);
  std::latch all(kThreads);
  device.over_blocks(96 * kThreads, [&](const RowBlock& block) {
    Device*& mine = of_worker[static_cast<size_t>(block.worker)];
    if (mine == nullptr) {
      mine = &block.device;
      all.arrive_and_wait();  // no worker takes all the blocks
    }
    EXPECT_EQ(mine, &block.device);
  });
  EXPECT_EQ(std::set<Device*>(of_worker.begin(), of_worker.end()).size(), size_t{kThreads});
}

}  // namespace
}  // namespace prefix::ops
