#include "ops/buffers.h"

namespace prefix::ops {

DeviceVector::DeviceVector(Device& device, const std::vector<float>& values)
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

DeviceVector::~DeviceVector() {
  if (data_) device_->release(data_, size_ * sizeof(float));
}

}  // namespace prefix::ops
