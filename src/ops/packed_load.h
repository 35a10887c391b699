// Int8 matrices that were packed before, put back where pack() had them.
#pragma once

#include <cstddef>
#include <string_view>

#include "ops/op.h"

namespace prefix::ops {

// By MatrixKind: the names in option compute_keep and in files.
inline constexpr std::string_view kMatrixKindNames[] = {"head", "mixer_in", "mixer_out", "gate_up",
                                                        "down"};

// The panels and scales of a matrix as they lie in memory, from where they were written.
class PackedSource {
 public:
  virtual ~PackedSource() = default;
  // Bytes [at, at + count) of the panels, which take panels() * panel_bytes(). Any thread. Throws
  // kIo.
  virtual void read_panels(size_t at, size_t count, std::byte* out) const = 0;
  // [scale_count()]
  virtual void read_scales(float* out) const = 0;
};

// The matrix of this shape, on all threads; it lives until release(data, bytes()). The device has
// host memory.
PackedWeights load_packed(Device& device, const PackedWeights& shape, const PackedSource& from);

}  // namespace prefix::ops
