// What every device promises of its operations on rows. The tests are in row_operations.cc,
// product_operations.cc and head_operations.cc; a program that has them says of which devices
// (INSTANTIATE_TEST_SUITE_P): the levels of the CPU in this folder, the emulator and a GPU in
// tests/kernels.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "ops/device_array.h"
#include "ops/rows_reference.h"

namespace prefix::ops::testing {

struct TestedDevice {
  std::string name;
  DType type;  // of all that it keeps
  std::function<std::unique_ptr<Device>()> open;
};

class RowOps : public ::testing::TestWithParam<TestedDevice> {
 protected:
  void SetUp() override {
    try {
      device_ = GetParam().open();
    } catch (const Error& e) {
      if (e.code() != Code::kUnsupportedDevice) throw;
      GTEST_SKIP() << e.message();
    }
    act_ = act_type(*device_);
    projected_ = device_->projection_bytes() == sizeof(float) ? DType::kF32 : DType::kBf16;
  }
  DType type() const { return GetParam().type; }
  bool on_gpu() const { return device_->name() == "cuda"; }
  std::vector<float> random(int64_t n, float low = -1, float high = 1) {
    return random_values(n, low, high, rng_);
  }
  static float rounded(float x, DType type) {
    return type == DType::kF32 ? x : from_bf16(to_bf16(x));
  }
  // As elements of a type hold them.
  std::vector<float> random(int64_t n, DType type) {
    std::vector<float> all = random(n);
    for (float& x : all) x = rounded(x, type);
    return all;
  }
  // Equal up to the rounding of `stored` elements. The functions of a GPU are less exact.
  void expect_close(float got, double want, DType stored, const std::string& what) const {
    const double relative = stored == DType::kBf16 ? 1.0 / 256 : 2e-6;
    ASSERT_NEAR(got, want, relative * std::abs(want) + (on_gpu() ? 4e-6 : 2e-6)) << what;
  }
  // Rows of `columns` numbers as elements of a type, poison behind them.
  static std::vector<std::byte> elements(const std::vector<float>& x, int64_t columns, int64_t ld,
                                         DType type) {
    const int64_t rows = static_cast<int64_t>(x.size()) / columns;
    std::vector<std::byte> out(static_cast<size_t>(rows * ld) * dtype_bytes(type), std::byte{0xff});
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; i < columns; ++i) put(out.data(), r * ld + i, type, x[r * columns + i]);
    return out;
  }
  DeviceArray activations(int64_t rows, int64_t ld) const {
    return DeviceArray(*device_, static_cast<size_t>(rows * ld) * device_->act_bytes());
  }
  // Element i of the key / value in a slot, as an index into its block.
  int64_t key_at(const KvLayout& kv, int64_t slot, int64_t i) const {
    return on_gpu() ? gpu_index(kv, slot, i) : key_index(type(), slot, i);
  }
  int64_t value_at(const KvLayout& kv, int64_t slot, int64_t i) const {
    return on_gpu() ? gpu_index(kv, slot, i) : value_index(type(), slot, i);
  }

  Rng rng_{21};
  std::unique_ptr<Device> device_;
  DType act_ = DType::kF32, projected_ = DType::kF32;
};

inline std::vector<TestedDevice> levels(std::initializer_list<DType> types = {DType::kBf16,
                                                                              DType::kF32}) {
  std::vector<TestedDevice> all;
  for (const char* const isa : {"scalar", "neon", "avx2", "avx512", "avx512_bf16", "amx"})
    for (const DType type : types)
      all.push_back({isa, type, [isa, type] {
                       return make_cpu_device({types_of(type), isa, std::make_shared<Threads>(2)});
                     }});
  return all;
}

inline std::string device_name(const ::testing::TestParamInfo<TestedDevice>& info) {
  return info.param.name + (info.param.type == DType::kF32 ? "_f32" : "_bf16");
}

}  // namespace prefix::ops::testing
