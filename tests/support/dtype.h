// One type for all that a device keeps: what tests of kernels run with.
#pragma once

#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "ops/op.h"

namespace prefix::ops {

enum class DType { kBf16, kF32 };

constexpr size_t dtype_bytes(DType type) { return type == DType::kBf16 ? 2 : 4; }
constexpr NumericTypes types_of(DType type) {
  return type == DType::kBf16 ? kBf16Types : kF32Types;
}
constexpr KvType kv_of(DType type) { return types_of(type).kv; }
constexpr DType dtype_of(KvType type) { return type == KvType::kBf16 ? DType::kBf16 : DType::kF32; }
// Of activations.
inline DType act_type(const Device& device) {
  return device.compute_type() == ComputeType::kBf16 ? DType::kBf16 : DType::kF32;
}

// W[n, k] in memory, as a file with f32 weights gives it.
class FloatRows final : public WeightSource {
 public:
  FloatRows(std::vector<float> values, int64_t k) : values_(std::move(values)), k_(k) {}
  TensorType type(int64_t) const override { return TensorType::kF32; }
  void read(int64_t row, std::byte* out) const override {
    std::memcpy(out, values_.data() + row * k_, static_cast<size_t>(k_) * sizeof(float));
  }

 private:
  std::vector<float> values_;
  int64_t k_;
};

}  // namespace prefix::ops
