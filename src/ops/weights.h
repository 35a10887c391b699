// Weight matrices, as files have them and as a device multiplies them.
//
//   WeightSource ───────────────── Device::pack() ────────────────> PackedWeights
//   rows of W, in blocks           each row read once, on all       panels of 32 rows of W, in
//   of a TensorType                threads, in a WeightFormat       memory of the device
//
// A format that keeps the blocks of a file (Q8_0 with its scales) is a value of WeightFormat, a
// layout of its panels here, and a tile kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/panel.h"
#include "ops/tensor_type.h"

namespace prefix::ops {

// How a device keeps weights. int8: of rotated rows, one scale each (rotation.h); on the CPU only.
enum class WeightFormat : int32_t { kBf16 = 0, kF32 = 1, kInt8 = 2 };

constexpr size_t weight_bytes(WeightFormat format) {
  switch (format) {
    case WeightFormat::kInt8:
      return 1;
    case WeightFormat::kBf16:
      return 2;
    case WeightFormat::kF32:
      break;
  }
  return 4;
}

// The longest sums of int8 products that stay below 2^31, and of int8 numbers that f32 holds exactly.
inline constexpr int64_t kMaxInt8K = 131072;

constexpr int64_t panels_of(int64_t columns) {
  return (columns + kPanelColumns - 1) / kPanelColumns;
}
constexpr int64_t whole_panels(int64_t columns) { return panels_of(columns) * kPanelColumns; }

// A weight matrix W[n, k] (as in y = x W^T), packed for the device. Panels of 32 output columns:
//   bf16: [panels][k_padded/2][32][2]      k padded with zeros to a multiple of 32
//   f32:  [panels][k_padded][32]
//   int8: [panels][k_padded/4][32][4]      k padded to a multiple of 64; each number + 128, unsigned
// Columns n.. of the last panel are zero. A GPU has rows of k_padded there, 32 to a panel. Behind the
// panels of int8 are the scales of all columns (of pairs of panels) and the signs of the rotation.
struct PackedWeights {
  WeightFormat format = WeightFormat::kBf16;
  int64_t n = 0;
  int64_t k = 0;
  int64_t k_padded = 0;
  const std::byte* data = nullptr;  // 64-byte aligned, owned by the device
  const float* scales = nullptr;    // of int8: [panels() up to an even number][32]
  const float* signs = nullptr;     // of int8: [k_padded], of each k +1 or -1

  // Without memory yet.
  static PackedWeights of_shape(WeightFormat format, int64_t n, int64_t k);
  // Of pack_gated(), whose panels of gate and up take turns.
  static PackedWeights of_gated_shape(WeightFormat format, int64_t n, int64_t k) {
    return of_shape(format, 2 * whole_panels(n), k);
  }

  size_t panel_bytes() const {
    return static_cast<size_t>(k_padded * kPanelColumns) * weight_bytes(format);
  }
  int64_t panels() const { return panels_of(n); }
  size_t bytes() const {
    const size_t all_panels = panel_bytes() * static_cast<size_t>(panels());
    if (format != WeightFormat::kInt8) return all_panels;
    return all_panels + static_cast<size_t>(scale_count() + k_padded) * sizeof(float);
  }
  int64_t scale_count() const { return (panels() + 1) / 2 * 2 * kPanelColumns; }
  // The single panel that holds output column `column`, as a matrix of up to 32 columns.
  PackedWeights panel_of(int64_t column) const;
};

// A weight matrix W[n, k] where it is stored. Its rows may come from tensors of different types.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  virtual TensorType type(int64_t row) const = 0;
  // The blocks of a row: blocks_bytes(type(row), k). Any thread. Throws kIo.
  virtual void read(int64_t row, std::byte* out) const = 0;
};

// Reads rows of k values in the elements of a format. One per thread: it keeps the blocks.
class RowReader {
 public:
  RowReader(WeightFormat format, int64_t k) : format_(format), k_(k) {}
  // `out`: [k] elements, bf16 or f32, which int8 is made of. Rounds to nearest even.
  void read(const WeightSource& source, int64_t row, std::byte* out);

 private:
  WeightFormat format_;
  int64_t k_;
  std::vector<std::byte> blocks_;
  std::vector<float> values_;
};

uint16_t bf16_from_f32(float x);  // to nearest even; NaN stays NaN
float f32_from_bf16(uint16_t x);

}  // namespace prefix::ops
