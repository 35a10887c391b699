// Memory of a device with numbers of moderate size in it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "ops/op.h"

namespace prefix::bench {

class Memory {
 public:
  // Random bf16 numbers of [0.5, 2) with both signs, or zeros.
  Memory(ops::Device& device, size_t bytes, bool random = true) : device_(device), bytes_(bytes) {
    data_ = device.allocate(bytes);
    if (random) fill(device, data_, bytes);
  }
  ~Memory() { device_.release(data_, bytes_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::byte* data() const { return data_; }

  static void fill(ops::Device& device, std::byte* data, size_t bytes) {
    static const std::vector<uint16_t> piece = noise(size_t{1} << 22);
    for (size_t at = 0; at < bytes; at += piece.size() * 2)
      device.upload(data + at, piece.data(), std::min(bytes - at, piece.size() * 2));
  }

 private:
  static std::vector<uint16_t> noise(size_t count) {
    std::vector<uint16_t> data(count);
    std::mt19937 random(1);
    for (uint16_t& x : data) {
      const uint32_t bits = random();
      x = static_cast<uint16_t>((bits & 0x80ff) | (bits & 0x100 ? 0x3f80 : 0x3f00));
    }
    return data;
  }

  ops::Device& device_;
  size_t bytes_;
  std::byte* data_;
};

// Equal buffers that take turns. Where they hold more together than the last cache, each call finds
// its weights in memory, as each layer of a model does.
class Rotation {
 public:
  Rotation(ops::Device& device, size_t bytes, size_t cold_bytes) {
    const size_t count = std::clamp<size_t>((cold_bytes + bytes - 1) / bytes, 1, 64);
    for (size_t i = 0; i < count; ++i) buffers_.push_back(std::make_unique<Memory>(device, bytes));
  }
  std::byte* operator[](int call) const {
    return buffers_[static_cast<size_t>(call) % buffers_.size()]->data();
  }

 private:
  std::vector<std::unique_ptr<Memory>> buffers_;
};

}  // namespace prefix::bench
