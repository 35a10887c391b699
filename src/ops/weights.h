// Weight matrices, as files have them and as a device multiplies them.
//
//   WeightSource ───────────────── Device::pack() ────────────────> PackedWeights
//   rows of W, in blocks           each row read once, on all       panels of 32 rows of W, in
//   of a TensorType                threads, in a WeightFormat       memory of the device
//
// Matrices whose rows lie in blocks of types that kernels know can stay so (kBlocks):
// of each panel a layout of block_layout.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ops/block_layout.h"
#include "ops/panel.h"
#include "ops/tensor_type.h"

namespace prefix::ops {

// How a device keeps weights. int8: of rotated rows, one scale each (rotation.h); blocks: the codes
// and scales of the file. These two on the CPU only.
enum class WeightFormat : int32_t { kBf16 = 0, kF32 = 1, kInt8 = 2, kBlocks = 3 };

// Whether products are in whole numbers.
constexpr bool is_whole(WeightFormat format) {
  return format == WeightFormat::kInt8 || format == WeightFormat::kBlocks;
}

// Of a weight; of blocks it depends on the panel.
constexpr size_t weight_bytes(WeightFormat format) {
  switch (format) {
    case WeightFormat::kBlocks:
      return 0;
    case WeightFormat::kInt8:
      return 1;
    case WeightFormat::kBf16:
      return 2;
    case WeightFormat::kF32:
      break;
  }
  return 4;
}

// The longest sums of int8 products that stay below 2^31,
// and of int8 numbers that f32 holds exactly.
inline constexpr int64_t kMaxInt8K = 131072;

constexpr int64_t panels_of(int64_t columns) {
  return (columns + kPanelColumns - 1) / kPanelColumns;
}
constexpr int64_t whole_panels(int64_t columns) { return panels_of(columns) * kPanelColumns; }

class WeightSource;

// Where a panel of kBlocks begins, and what it is made of.
struct BlockPanel {
  size_t offset = 0;  // from PackedWeights::data on
  BlockType type = BlockType::kQ8_0;
};

// A weight matrix W[n, k] (as in y = x W^T), packed for the device. Panels of 32 output columns:
//   bf16: [panels][k_padded/2][32][2]      k padded with zeros to a multiple of 32
//   f32:  [panels][k_padded][32]
//   int8: [panels][k_padded/4][32][4]      k padded to a multiple of 64; each number + 128, unsigned
//   blocks: [panels], each of its own size: block_layout.h
// Columns n.. of the last panel are zero. A GPU has rows of k_padded there, 32 to a panel.
// Behind the panels of int8 are the scales of all columns (of pairs of panels) and the signs
// of the rotation.
struct PackedWeights {
  WeightFormat format = WeightFormat::kBf16;
  int64_t n = 0;
  int64_t k = 0;
  int64_t k_padded = 0;
  const std::byte* data = nullptr;  // 64-byte aligned, owned by the device
  const float* scales = nullptr;    // of int8: [panels() up to an even number][32]
  const float* signs = nullptr;     // of int8: [k_padded], of each k +1 or -1
  // Of blocks: [panels() + 1], the last one begins where the matrix ends.
  std::shared_ptr<const BlockPanel> blocks;
  // Of int8 and blocks: whole numbers that stand for one activation. With 2 the second is what the
  // first has rounded away, 1/254 of its size: for a head, whose results nothing averages out.
  int terms = 1;

  // Without memory yet.
  static PackedWeights of_shape(WeightFormat format, int64_t n, int64_t k);
  // Of pack_gated(), whose panels of gate and up take turns.
  static PackedWeights of_gated_shape(WeightFormat format, int64_t n, int64_t k) {
    return of_shape(format, 2 * whole_panels(n), k);
  }
  // In the blocks of the sources, whose panels take turns, each with n rows. Without `blocks`: such
  // a matrix cannot stay in them, because kernels do not know a type or because a panel has two.
  static PackedWeights of_blocks(std::span<const WeightSource* const> sources, int64_t n,
                                 int64_t k);

  // Not of blocks.
  size_t panel_bytes() const {
    return static_cast<size_t>(k_padded * kPanelColumns) * weight_bytes(format);
  }
  int64_t panels() const { return panels_of(n); }
  const std::byte* panel(int64_t index) const {
    if (format == WeightFormat::kBlocks) return data + blocks.get()[index].offset;
    return data + static_cast<size_t>(index) * panel_bytes();
  }
  size_t bytes() const {
    if (format == WeightFormat::kBlocks)
      return blocks.get()[panels()].offset - blocks.get()[0].offset;
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
