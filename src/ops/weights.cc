#include "ops/weights.h"

#include <algorithm>
#include <bit>

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

PackedWeights PackedWeights::panel_of(int64_t column) const {
  const int64_t panel = column / kPanelColumns;
  PackedWeights one = *this;
  one.n = std::min(kPanelColumns, n - panel * kPanelColumns);
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
