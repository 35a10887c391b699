// The few parts of the operation contract that are the same on every device.
#include "ops/op.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace prefix::ops {

Matrix Matrix::panel_of(int64_t column) const {
  const int64_t panel = column / 32;
  Matrix one = *this;
  one.n = std::min<int64_t>(32, n - panel * 32);
  one.data = data + static_cast<size_t>(panel) * panel_bytes();
  return one;
}

void Device::upload(void* device, const void* host, size_t bytes) {
  if (bytes > 0) std::memcpy(device, host, bytes);
}

void Device::download(void* host, const void* device, size_t bytes) {
  if (bytes > 0) std::memcpy(host, device, bytes);
}

void Device::download_all(std::span<const Download> pieces) {
  for (const Download& d : pieces) download(d.host, d.device, d.bytes);
}

std::byte* Device::allocate_host(size_t bytes) {
  return static_cast<std::byte*>(::operator new(bytes, std::align_val_t{64}));
}

void Device::release_host(std::byte* data, size_t) {
  ::operator delete(data, std::align_val_t{64});
}

Vector::Vector(Device& device, const std::vector<float>& values)
    : device_(&device), size_(values.size()) {
  if (size_ == 0) return;
  const size_t bytes = size_ * sizeof(float);
  data_ = device.allocate(bytes);
  try {
    device.upload(data_, values.data(), bytes);
  } catch (...) {
    device.release(data_, bytes);
    throw;
  }
}

Vector::~Vector() {
  if (data_) device_->release(data_, size_ * sizeof(float));
}

}  // namespace prefix::ops
