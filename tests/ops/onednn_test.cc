// The GEMM of the best level against oneDNN: an implementation that shares nothing with ours.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "ops/cpu/pack.h"
#include "ops/onednn_gemm.h"
#include "support/dtype.h"

namespace prefix::ops {
namespace {

class OnednnTest : public testing::TestWithParam<WeightFormat> {};

TEST_P(OnednnTest, Agrees) {
  const std::unique_ptr<Device> device =
      make_cpu_device({GetParam() == WeightFormat::kBf16 ? kBf16Types : kF32Types, "auto",
                       std::make_shared<Threads>(2)});
  std::mt19937 random(2);
  std::uniform_real_distribution<float> uniform(-1, 1);
  struct Shape {
    int64_t m, n, k;
  };
  for (const Shape& s : {Shape{1, 64, 64}, Shape{17, 100, 96}, Shape{130, 1024, 2048}}) {
    std::vector<float> x(static_cast<size_t>(s.m * s.k));
    std::vector<float> w(static_cast<size_t>(s.n * s.k));
    for (auto* values : {&x, &w}) {
      for (float& v : *values) v = f32_from_bf16(bf16_from_f32(uniform(random)));
    }
    OnednnGemm other(GetParam(), s.m, s.n, s.k, x, w);
    other.run(2);
    const std::vector<float> want = other.result();

    const PackedWeights matrix = device->pack(device->types().weights, s.n, s.k, FloatRows(w, s.k));
    const int64_t ld = device->act_ld(s.k);
    const size_t bytes = static_cast<size_t>(s.m * ld) * device->act_bytes();
    const ActivationBuffer act{device->allocate(bytes), ld};
    device->convert(x.data(), s.k, s.m, s.k, act);
    std::vector<float> got(want.size());
    device->linear(matrix, nullptr, act, s.m, got.data(), s.n, false);
    device->release(act.data, bytes);
    device->release(const_cast<std::byte*>(matrix.data), matrix.bytes());

    const auto size = static_cast<float>(std::sqrt(static_cast<double>(s.k)));
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], want[i], 4e-6f * size * 4) << other.implementation() << " at " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, OnednnTest,
                         testing::Values(WeightFormat::kBf16, WeightFormat::kF32));

}  // namespace
}  // namespace prefix::ops
