#include "ops/weights.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "ops/blocks.h"
#include "ops/dequant.h"

namespace prefix::ops {

PackedWeights PackedWeights::of_shape(WeightFormat format, int64_t n, int64_t k) {
  PackedWeights weights;
  weights.format = format;
  weights.n = n;
  weights.k = k;
  const int64_t step = format == WeightFormat::kInt8 ? 64 : 32;
  weights.k_padded = (k + step - 1) / step * step;
  return weights;
}

PackedWeights PackedWeights::of_blocks(std::span<const WeightSource* const> sources, int64_t n,
                                       int64_t k) {
  const auto turns = static_cast<int64_t>(sources.size());
  PackedWeights weights;
  weights.format = WeightFormat::kBlocks;
  weights.n = turns == 1 ? n : turns * whole_panels(n);
  weights.k = weights.k_padded = k;
  const std::shared_ptr<BlockPanel[]> panels(
      new BlockPanel[static_cast<size_t>(weights.panels()) + 1]);
  size_t offset = 0;
  for (int64_t panel = 0; panel < weights.panels(); ++panel) {
    const WeightSource& source = *sources[static_cast<size_t>(panel % turns)];
    const int64_t first = panel / turns * kPanelColumns;
    const TensorType type = source.type(first);
    for (int64_t row = first + 1; row < std::min(n, first + kPanelColumns); ++row)
      if (source.type(row) != type) return weights;
    const std::optional<BlockType> blocks = block_type(type);
    if (!blocks || k % layout_of(*blocks).k() != 0) return weights;
    panels[static_cast<size_t>(panel)] = {offset, *blocks};
    offset += static_cast<size_t>(k / layout_of(*blocks).k() * layout_of(*blocks).bytes());
  }
  panels[static_cast<size_t>(weights.panels())] = {offset, BlockType::kQ8_0};
  weights.blocks = {panels, panels.get()};
  return weights;
}

PackedWeights PackedWeights::panel_of(int64_t column) const {
  const int64_t panel = column / kPanelColumns;
  PackedWeights one = *this;
  one.n = std::min(kPanelColumns, n - panel * kPanelColumns);
  if (format == WeightFormat::kBlocks) {
    one.blocks = {blocks, blocks.get() + panel};
    return one;
  }
  one.data = data + static_cast<size_t>(panel) * panel_bytes();
  if (scales != nullptr) one.scales = scales + panel * kPanelColumns;
  return one;
}

void RowReader::read(const WeightSource& source, int64_t row, std::byte* out) {
  const TensorType type = source.type(row);
  const bool f32 = format_ != WeightFormat::kBf16;
  if (type == (f32 ? TensorType::kF32 : TensorType::kBF16)) return source.read(row, out);
  blocks_.resize(static_cast<size_t>(blocks_bytes(type, k_)));
  source.read(row, blocks_.data());
  if (f32) return dequantise(type, blocks_.data(), k_, reinterpret_cast<float*>(out));
  values_.resize(static_cast<size_t>(k_));
  dequantise(type, blocks_.data(), k_, values_.data());
  auto* const to = reinterpret_cast<uint16_t*>(out);
  for (size_t i = 0; i < values_.size(); ++i) to[i] = bf16_from_f32(values_[i]);
}

uint16_t bf16_from_f32(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if (x != x) return 0x7fc0;
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float f32_from_bf16(uint16_t x) { return std::bit_cast<float>(uint32_t{x} << 16); }

}  // namespace prefix::ops
