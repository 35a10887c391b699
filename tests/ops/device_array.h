// Memory of a device in tests, wherever it lies, and the elements in it.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "ops/op.h"
#include "support/dtype.h"

namespace prefix::ops::testing {

inline uint16_t to_bf16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  bits += 0x7fff + ((bits >> 16) & 1);
  return static_cast<uint16_t>(bits >> 16);
}
inline float from_bf16(uint16_t value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value) << 16);
}

inline void put(std::byte* at, int64_t index, DType type, float value) {
  if (type == DType::kBf16) {
    const uint16_t bits = std::isnan(value) ? 0x7fc0 : to_bf16(value);
    std::memcpy(at + 2 * index, &bits, 2);
  } else {
    std::memcpy(at + 4 * index, &value, 4);
  }
}
inline float get(const std::byte* at, int64_t index, DType type) {
  if (type == DType::kBf16) {
    uint16_t bits;
    std::memcpy(&bits, at + 2 * index, 2);
    return from_bf16(bits);
  }
  float value;
  std::memcpy(&value, at + 4 * index, 4);
  return value;
}
// Memory of the CPU for one activation or f32 matrix, poisoned, so that an unwritten value shows.
class Buffer {
 public:
  Buffer(Device& device, size_t bytes) : device_(device), bytes_(bytes + 64) {
    data_ = device.allocate(bytes_);
    std::memset(data_, 0xff, bytes_);  // NaN as f32 and as bf16
  }
  ~Buffer() { device_.release(data_, bytes_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  std::byte* data() { return data_; }

 private:
  Device& device_;
  size_t bytes_;
  std::byte* data_;
};

// A poisoned array on the device, written and read whole.
class DeviceArray {
 public:
  DeviceArray(Device& device, size_t bytes)  // NaN as f32 and as bf16
      : DeviceArray(device, std::vector<std::byte>(bytes, std::byte{0xff})) {}
  template <typename T>
  DeviceArray(Device& device, const std::vector<T>& values)
      : device_(device), bytes_(values.size() * sizeof(T)), data_(device.allocate(bytes_)) {
    device_.upload(data_, values.data(), bytes_);
  }
  ~DeviceArray() { device_.release(data_, bytes_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  std::byte* data() const { return data_; }
  float* floats() const { return reinterpret_cast<float*>(data_); }
  std::vector<std::byte> bytes() const {
    std::vector<std::byte> out(bytes_);
    device_.download(out.data(), data_, bytes_);
    return out;
  }
  // As elements of a type, widened.
  std::vector<float> values(DType type) const {
    const std::vector<std::byte> raw = bytes();
    std::vector<float> out(bytes_ / dtype_bytes(type));
    for (size_t i = 0; i < out.size(); ++i) out[i] = get(raw.data(), static_cast<int64_t>(i), type);
    return out;
  }

 private:
  Device& device_;
  size_t bytes_;
  std::byte* data_;
};

}  // namespace prefix::ops::testing
