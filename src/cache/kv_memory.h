// The bytes behind the page pool: one device allocation of capacity x page bytes, physical memory
// being used only for pages that were written.
#pragma once

#include "ops/op.h"

namespace prefix {

class KvMemory {
 public:
  KvMemory(ops::Device& device, const ops::KvLayout& layout, int32_t pages)
      : device_(device),
        layout_(layout),
        bytes_(layout.page_bytes() * static_cast<size_t>(pages)),
        data_(device.allocate(bytes_)) {}
  ~KvMemory() { device_.release(data_, bytes_); }
  KvMemory(const KvMemory&) = delete;
  KvMemory& operator=(const KvMemory&) = delete;

  const ops::KvLayout& layout() const { return layout_; }
  std::byte* data() { return data_; }

 private:
  ops::Device& device_;
  ops::KvLayout layout_;
  size_t bytes_;
  std::byte* data_;
};

}  // namespace prefix
