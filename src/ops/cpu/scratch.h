// Working memory of one worker, grown when a larger task comes and kept between calls.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/cpu/memory.h"

namespace prefix::ops {

// Bytes in whole cache lines.
constexpr size_t whole_lines(size_t bytes) { return (bytes + 63) / 64 * 64; }
// From one row of so many bytes to the next: rows at a large power of two apart would share few
// sets of L1, and a line more spreads them.
constexpr int64_t spread_row(int64_t bytes) { return bytes % 512 == 0 ? bytes + 64 : bytes; }

class Scratch {
 public:
  Scratch() = default;
  ~Scratch() { clear(); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // At least `bytes` bytes, 64-byte aligned, with any content: zero where nothing was written yet.
  // The last reservation ends here.
  std::byte* reserve(size_t bytes) {
    if (bytes > bytes_) {
      clear();
      data_ = map_memory(bytes);
      bytes_ = bytes;
    }
    return data_;
  }
  size_t bytes() const { return bytes_; }  // that it has by now

 private:
  void clear() {
    if (data_ != nullptr) unmap_memory(data_, bytes_);
    data_ = nullptr;
    bytes_ = 0;
  }

  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace prefix::ops
