// Memory of a device, or memory of the host that it copies to at full speed, which grows when
// more is needed, by doubling, and never shrinks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "ops/op.h"

namespace prefix::ops {

template <std::byte* (Device::*allocate)(size_t), void (Device::*release)(std::byte*, size_t)>
class GrowingBuffer {
 public:
  explicit GrowingBuffer(Device& device) : device_(device) {}
  ~GrowingBuffer() { drop(); }
  GrowingBuffer(const GrowingBuffer&) = delete;
  GrowingBuffer& operator=(const GrowingBuffer&) = delete;

  // At least `bytes`; what was there is lost whenever it has to grow.
  std::byte* reserve(size_t bytes) {
    if (bytes > bytes_) {
      const size_t wanted = std::max(bytes, 2 * bytes_);
      drop();
      data_ = (device_.*allocate)(wanted);
      bytes_ = wanted;
    }
    return data_;
  }
  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  void drop() {
    if (data_) (device_.*release)(data_, bytes_);
    data_ = nullptr;
    bytes_ = 0;
  }

  Device& device_;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

// Floats in memory of a device, which never change: the weights of a norm, a bias, a table.
class DeviceVector {
 public:
  DeviceVector() = default;
  DeviceVector(Device& device, const std::vector<float>& values);
  ~DeviceVector();
  DeviceVector(DeviceVector&& other) noexcept { *this = std::move(other); }
  DeviceVector& operator=(DeviceVector&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  const float* data() const { return reinterpret_cast<const float*>(data_); }  // null when empty

 private:
  Device* device_ = nullptr;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

using DeviceBuffer = GrowingBuffer<&Device::allocate, &Device::release>;
using HostBuffer = GrowingBuffer<&Device::allocate_host, &Device::release_host>;

}  // namespace prefix::ops
