// Where the elements of a matrix lie that products of warpgroups read from shared memory: by its
// descriptor, as the hardware has it (body/hopper.h).
#pragma once

#include <cstdint>
#include <stdexcept>

#include "body/hopper.h"

namespace prefix::ops::gpu {

class EmulatedMatrix {
 public:
  explicit EmulatedMatrix(const Matrix64& m) : descriptor_(descriptor(m, 0)) {
    if (descriptor_ >> 62 != 1) throw std::logic_error("a matrix without the 128-byte swizzle");
  }
  uint64_t bits() const { return descriptor_; }
  // Offset of element (row, k) of a K-major matrix; of (column, k) of an MN-major one.
  int k_major(int row, int k) const {
    const auto r = static_cast<uint32_t>(row);
    return swizzled(start() + r / 8 * stride() + r % 8 * 128 + static_cast<uint32_t>(k) * 2);
  }
  int mn_major(int column, int k) const {
    const auto c = static_cast<uint32_t>(column), r = static_cast<uint32_t>(k);
    return swizzled(start() + c / 64 * lead() + r / 8 * stride() + r % 8 * 128 + c % 64 * 2);
  }

 private:
  static int swizzled(uint32_t at) { return static_cast<int>(at ^ (at >> 7 & 7) << 4); }
  uint32_t field(int shift) const {
    return static_cast<uint32_t>(descriptor_ >> shift & 0x3fff) << 4;
  }
  uint32_t start() const { return field(0); }
  uint32_t lead() const { return field(16); }
  uint32_t stride() const { return field(32); }

  uint64_t descriptor_;
};

}  // namespace prefix::ops::gpu
