// The products of the backend, cuBLASLt's on a GPU, beside the slow kernel of our own: for every
// number of rows, and the bits of `invariant`. The shapes on a GPU are those of models.
#include <cstring>

#include "kernels/gpu_support.h"

namespace prefix::ops::testing {
namespace {

struct Shape {
  int64_t n, k;
};

class GpuProducts : public GpuTest {
 protected:
  // Layers of Qwen3-0.6B, 4B and 8B and of SmolLM2-135M: k of 576, 960 and 2560 end inside the
  // blocks in which libraries walk k.
  std::vector<Shape> shapes() const {
    if (emulated()) return {{40, 72}, {96, 64}, {75, 64}};
    if (f32()) return {{960, 576}, {576, 1536}, {6144, 1024}, {2560, 4096}, {131, 128}};
    return {{4096, 1024},  {1024, 2048}, {6144, 1024}, {1024, 3072}, {6144, 2560},  {2560, 4096},
            {19456, 2560}, {2560, 9728}, {6144, 4096}, {4096, 4096}, {24576, 4096}, {4096, 12288},
            {960, 576},    {3072, 576},  {576, 1536},  {1600, 960},  {32, 1024},    {32, 4096},
            {50257, 768},  {131, 128},   {75, 320}};  // vocabularies have any size
  }
  int64_t rows_of_sweep() const { return emulated() ? 20 : 128; }
  int64_t rows_of_invariance() const { return emulated() ? 9 : 257; }

  // Elements of a device type, uploaded once and used with any number of rows.
  DeviceArray elements(Device& device, int64_t count, uint64_t seed) const {
    Rng rng(seed);
    std::uniform_real_distribution<float> number(-1, 1);
    std::vector<float> some(4099);  // a prime: no period meets a row
    for (float& x : some) x = number(rng);
    std::vector<std::byte> data(static_cast<size_t>(count) * dtype_bytes(type()));
    for (int64_t i = 0; i < count; ++i)
      put(data.data(), i, type(), some[static_cast<size_t>(i) % some.size()]);
    return DeviceArray(device, data);
  }
  PackedWeights matrix(const Shape& s, const DeviceArray& data) const {
    PackedWeights w = PackedWeights::of_shape(types_of(type()).weights, s.n, s.k);
    w.data = data.data();
    return w;
  }
  // Rows of results lie as the engine has them: as whole panels.
  static int64_t ld_y(const Shape& s) { return whole_panels(s.n); }
  static DeviceArray results(Device& device, const Shape& s, int64_t rows) {
    return DeviceArray(device, static_cast<size_t>(rows * ld_y(s)) * sizeof(float));
  }
  static std::vector<float> columns_of(Device& device, const PackedWeights& w, int64_t rows,
                                       const DeviceArray& y) {
    const int64_t ld = whole_panels(w.n);
    std::vector<float> all(static_cast<size_t>(rows * ld)), out;
    device.download(all.data(), y.data(), all.size() * sizeof(float));
    for (int64_t r = 0; r < rows; ++r)
      out.insert(out.end(), all.begin() + r * ld, all.begin() + r * ld + w.n);
    return out;
  }
  static std::vector<float> product(Device& device, const PackedWeights& w, const DeviceArray& x,
                                    int64_t rows, const DeviceArray& y) {
    device.linear(w, nullptr, {x.data(), device.act_ld(w.k)}, rows, y.floats(), whole_panels(w.n),
                  false);
    return columns_of(device, w, rows, y);
  }
  std::vector<float> slow_product(GpuDevice& device, const PackedWeights& w, const DeviceArray& x,
                                  int64_t rows, const DeviceArray& y,
                                  gpu::Output output = gpu::Output::kF32) const {
    const auto element = f32() ? gpu::Element::kF32 : gpu::Element::kBf16;
    const int64_t ld = device.act_ld(w.k), blocks = (w.n + gpu::kRowThreads - 1) / gpu::kRowThreads;
    const gpu::GemmArgs a{w.data, x.data(),   nullptr, y.floats(),        rows,   w.n,
                          w.k,    w.k_padded, ld,      whole_panels(w.n), output, element};
    gpu::launch(device.runtime(), gpu::Kernel::kGemmSlow, blocks, rows, a);
    return columns_of(device, w, rows, y);
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, GpuProducts, ::testing::ValuesIn(kBackends), backend_name);

// Both sum in f32, in different orders. A product that leaves out one element in ten thousand
// would be wrong by one percent.
TEST_P(GpuProducts, EveryNumberOfRowsAgreesWithTheSlowKernel) {
  for (const Shape& s : shapes()) {
    SCOPED_TRACE(cat("n ", s.n, " k ", s.k));
    const int64_t most = rows_of_sweep(), ld = device_->act_ld(s.k);
    const DeviceArray data = elements(*device_, whole_panels(s.n) * ((s.k + 31) / 32 * 32), 51);
    const DeviceArray x = elements(*device_, most * ld, 52);
    const DeviceArray y = results(*device_, s, most);
    const PackedWeights w = matrix(s, data);
    const std::vector<float> want = slow_product(*device_, w, x, most, y);
    const std::vector<float> twice = slow_product(*device_, w, x, most, y, gpu::Output::kF32Add);
    for (size_t i = 0; i < want.size(); ++i) ASSERT_EQ(twice[i], 2 * want[i]);
    for (int64_t rows = 1; rows <= most; ++rows) {
      const std::vector<float> got = product(*device_, w, x, rows, y);
      double wrong = 0, all = 0;
      for (size_t i = 0; i < got.size(); ++i) {
        const double difference = static_cast<double>(got[i]) - want[i];
        wrong += difference * difference;
        all += static_cast<double>(want[i]) * want[i];
      }
      ASSERT_LE(std::sqrt(wrong / all), 1e-4) << "rows " << rows;  // false for NaN, too
    }
  }
}

// A vocabulary of any size is multiplied with the rows of zeros behind it: few algorithms take an
// odd number of columns, and perhaps none with `invariant`.
TEST_P(GpuProducts, ColumnsAreWholePanels) {
  const Shape s{75, 64};
  const int64_t rows = 3, ld = device_->act_ld(s.k);
  const DeviceArray data = elements(*device_, whole_panels(s.n) * s.k, 55);
  const DeviceArray x = elements(*device_, rows * ld, 56);
  const DeviceArray y = results(*device_, s, rows);  // NaN
  device_->linear(matrix(s, data), nullptr, {x.data(), ld}, rows, y.floats(), ld_y(s), false);
  for (const float value : y.values(DType::kF32)) ASSERT_TRUE(std::isfinite(value));
}

TEST_P(GpuProducts, InvariantBitsDoNotDependOnTheNumberOfRows) {
  const auto device = make(4, 1, true);
  for (const Shape& s : shapes()) {
    SCOPED_TRACE(cat("n ", s.n, " k ", s.k));
    const int64_t most = rows_of_invariance(), ld = device->act_ld(s.k);
    const DeviceArray data = elements(*device, whole_panels(s.n) * ((s.k + 31) / 32 * 32), 53);
    const DeviceArray x = elements(*device, most * ld, 54);
    const DeviceArray y = results(*device, s, most);
    const PackedWeights w = matrix(s, data);
    const std::vector<float> want = product(*device, w, x, most, y);
    for (int64_t rows = 1; rows < most; ++rows) {
      const std::vector<float> got = product(*device, w, x, rows, y);
      ASSERT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)), 0)
          << "rows " << rows << " against " << most;
    }
    // Nor does a single panel of a head, the last one of fewer columns.
    for (const int64_t column : {int64_t{0}, s.n - 1}) {
      const PackedWeights panel = w.panel_of(column);
      const std::vector<float> got = product(*device, panel, x, most, y);
      const int64_t first = column / kPanelColumns * kPanelColumns;
      for (int64_t r = 0; r < most; ++r)
        ASSERT_EQ(std::memcmp(got.data() + r * panel.n, want.data() + r * s.n + first,
                              static_cast<size_t>(panel.n) * sizeof(float)),
                  0)
            << "row " << r << " of the panel of column " << column;
    }
  }
}

}  // namespace
}  // namespace prefix::ops::testing
