// A matrix that products of warpgroups read from shared memory: where its elements lie by its
// descriptor, as the hardware has it (body/hopper.h), and the operands that lanes have of it.
#pragma once

#include <cstdint>
#include <stdexcept>

#include "body/hopper.h"
#include "kernels/lanes_emulated.h"
#include "kernels/tracked_memory.h"

namespace prefix::ops::gpu {

// 16 of K wide.
class EmulatedMatrix {
 public:
  EmulatedMatrix(const TrackedMemory& memory, const Matrix64& m, bool transposed = false)
      : memory_(&memory), descriptor_(descriptor(m, 0)), transposed_(transposed) {
    if (descriptor_ >> 62 != 1) throw std::logic_error("a matrix without the 128-byte swizzle");
  }
  uint64_t bits() const { return descriptor_; }
  // Calls f(offset) for the pieces of 16 bytes that rows of A, or columns of B, lie in.
  template <class F>
  void each_piece(int begin, int count, const F& f) const {
    for (int i = 0; i < 2 * count; ++i)
      f(transposed_ ? at(begin + i / 16 * 8, i % 16) : at(begin + i / 2, i % 2 * 8));
  }
  // 16 rows of A.
  EmulatedLanes::Local<FragmentA> rows(int begin) const {
    EmulatedLanes::Local<FragmentA> out;
    for (int lane = 0; lane < 32; ++lane)
      for (int r = 0; r < 4; ++r)
        out[lane].x[r] = pair(begin + lane / 4 + r % 2 * 8, lane % 4 * 2 + r / 2 * 8);
    return out;
  }
  // Eight columns of B.
  EmulatedLanes::Local<FragmentB> columns(int begin) const {
    EmulatedLanes::Local<FragmentB> out;
    for (int lane = 0; lane < 32; ++lane)
      for (int r = 0; r < 2; ++r) out[lane].x[r] = pair(begin + lane / 4, lane % 4 * 2 + 8 * r);
    return out;
  }

 private:
  // Elements k and k + 1 of a row of A, or column of B.
  uint32_t pair(int i, int k) const {
    return static_cast<uint32_t>(memory_->element(at(i, k + 1))) << 16 | memory_->element(at(i, k));
  }
  // K-major; transposed: MN-major.
  int at(int i, int k) const {
    const auto inside = static_cast<uint32_t>(transposed_ ? i : k);
    const auto line = static_cast<uint32_t>(transposed_ ? k : i);
    const uint32_t strip = transposed_ ? inside / 64 * field(16) + inside % 64 * 2 : inside * 2;
    const uint32_t linear = field(0) + strip + line / 8 * field(32) + line % 8 * 128;
    return static_cast<int>(linear ^ (linear >> 7 & 7) << 4);
  }
  // Start, lead and stride at 0, 16 and 32.
  uint32_t field(int shift) const {
    return static_cast<uint32_t>(descriptor_ >> shift & 0x3fff) << 4;
  }

  const TrackedMemory* memory_;
  uint64_t descriptor_;
  bool transposed_;
};

}  // namespace prefix::ops::gpu
