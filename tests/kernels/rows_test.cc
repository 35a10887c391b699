// Operations on rows on a GPU: on the emulator everywhere, on a GPU where there is one. What they
// compute is asked of all devices (tests/ops/row_operations.cc, product_operations.cc).
#include "kernels/gpu_support.h"
#include "ops/product_operands.h"

namespace prefix::ops::testing {
namespace {

INSTANTIATE_TEST_SUITE_P(Backends, RowOps, ::testing::ValuesIn(tested(kBackends)), device_name);

// Without graphs everything would work, too, only slower: that they are made must be seen.
TEST_P(RowOps, EqualStretchesAreReplayed) {
  const int64_t rows = 4, n = 64;
  const std::vector<float> x = random(rows * n), weight = random(n, 0.5f, 2);
  const Matrix w(*device_, FloatRows(random(n * n), n), n, n, device_->types().weights);
  const int64_t ld = device_->act_ld(n);
  const DeviceArray dx(*device_, x), dw(*device_, weight), y(*device_, x);
  const DeviceArray act = activations(rows, ld);
  std::vector<std::byte> first;
  for (int step = 0; step < 5; ++step) {
    const std::unique_ptr<ops::Step> run = device_->begin_step({});
    for (int i = 0; i < 10; ++i) {
      device_->rms_norm(dx.floats(), n, dw.floats(), 1e-5f, rows, n, {act.data(), ld});
      device_->linear(w.w, nullptr, {act.data(), ld}, rows, y.floats(), n, false);
    }
    run->wait();
    run->end();
    if (step == 0) first = y.bytes();
    EXPECT_EQ(y.bytes(), first);
  }
  const gpu::StepGraphs::Counts counts = static_cast<GpuDevice&>(*device_).graph_counts();
  EXPECT_EQ(counts.refused, 0) << counts.why;
  EXPECT_EQ(counts.recorded, 1);
  EXPECT_EQ(counts.replayed, 3);
}

// Every element of a block has a place of its own, the one that the drawing of Pages says; rows of
// a strip follow one another, so that the first tokens of a page are the first bytes of its strips.
TEST(GpuPages, ElementsLieAsDrawn) {
  for (const DType type : {DType::kBf16, DType::kF32}) {
    for (int32_t d = 32; d <= 288; d += 32) {
      const KvLayout kv{kv_of(type), 1, 1, d};
      std::vector<int> seen(static_cast<size_t>(d * kPageTokens));
      for (int32_t token = 0; token < kPageTokens; ++token)
        for (int32_t column = 0; column < d; ++column) {
          const int at = gpu::page_at(token, column, d, static_cast<gpu::Element>(type));
          ASSERT_EQ(at, gpu_index(kv, token, column));
          ASSERT_EQ(seen.at(at)++, 0);
          if (type == DType::kF32) continue;
          const int begin = column / 64 * 64 * kPageTokens;
          const int width = std::min(64, d - column / 64 * 64);
          ASSERT_EQ((at - begin) / width, token);
        }
    }
  }
}

}  // namespace
}  // namespace prefix::ops::testing
