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

  // Whole pages, between steps: page_bytes() to or from memory of the host.
  void read(int32_t page, std::byte* out) const {
    device_.download(out, data_ + offset(page), layout_.page_bytes());
  }
  void write(int32_t page, const std::byte* bytes) {
    device_.upload(data_ + offset(page), bytes, layout_.page_bytes());
  }

 private:
  size_t offset(int32_t page) const { return layout_.page_bytes() * static_cast<size_t>(page); }

  ops::Device& device_;
  ops::KvLayout layout_;
  size_t bytes_;
  std::byte* data_;
};

}  // namespace prefix
