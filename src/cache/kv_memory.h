// The bytes behind the page pool: one device allocation of capacity x page bytes, physical memory
// being used only for pages that were written.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/finite.h"
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

  // Whole pages, by their frames (PagePool), between steps:
  // page_bytes() to or from memory of the host.
  struct Read {
    int32_t frame;
    std::byte* out;
  };
  void read(std::span<const Read> pages) const {
    std::vector<ops::Download> all;
    all.reserve(pages.size());
    for (const Read& r : pages)
      all.push_back({r.out, data_ + offset(r.frame), layout_.page_bytes()});
    device_.download_all(all);
  }
  // No page here has a NaN or an infinity (Device::qkv), so none that comes from elsewhere may
  // have.
  bool all_finite(const std::byte* page) const { return ops::page_is_finite(page, layout_); }
  void write(int32_t frame, const std::byte* bytes) {
    device_.upload(data_ + offset(frame), bytes, layout_.page_bytes());
  }

 private:
  size_t offset(int32_t frame) const { return layout_.page_bytes() * static_cast<size_t>(frame); }

  ops::Device& device_;
  ops::KvLayout layout_;
  size_t bytes_;
  std::byte* data_;
};

}  // namespace prefix
