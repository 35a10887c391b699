#include "model/files/quantised_blocks.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/status.h"
#include "ops/block_layout.h"
#include "ops/dequant.h"

namespace prefix {
namespace {

using Meaning = SmallNumbers::Meaning;

// 4 or 8 for whole numbers of so many bits; 0 for others.
int whole_bits(const SmallNumbers& codes) {
  if (codes.tensor.type == TensorType::kI8) return 8;
  return codes.meaning == Meaning::kE2M1 ? 0 : codes.bits;
}

bool is_mxfp4(const QuantisedMatrix::Parts& parts) {
  return parts.codes.bits == 4 && parts.codes.meaning == Meaning::kE2M1 && !parts.zeros &&
         parts.scales.bits == 0 && parts.scales.tensor.type == TensorType::kF8_E8M0;
}

bool in_order(const QuantisedMatrix::Parts& parts, const std::vector<int32_t>& groups) {
  for (size_t c = 0; c < groups.size(); ++c)
    if (groups[c] != static_cast<int64_t>(c) / parts.group) return false;
  return true;
}

// Whether is(row) holds for all rows of a tensor as the file has it, as numbers of T.
template <typename T, typename Is>
bool all_stored(const Tensor& tensor, const Is& is) {
  const int64_t rows = tensor.shape.front();
  std::vector<T> row(static_cast<size_t>(tensor.row_values()));
  for (int64_t i = 0; i < rows; ++i) {
    if constexpr (std::is_same_v<T, float>)
      read_row(tensor, i, row.data());
    else
      read_blocks(tensor, i, reinterpret_cast<std::byte*>(row.data()));
    if (!std::ranges::all_of(row, is)) return false;
  }
  return true;
}

// Whether codes less their zeros are those of the middle of the range. The unused bits of a word
// may hide that: such a matrix has zeros, then.
bool zeros_are_middle(const QuantisedMatrix::Parts& parts) {
  if (!parts.zeros) return true;
  const SmallNumbers& zeros = *parts.zeros;
  if (zeros.bits == 0) return all_stored<int8_t>(zeros.tensor, [](int8_t z) { return z == 0; });
  const uint32_t middle = zeros.bits == 4 ? 0x88888888 : 0x80808080;
  return all_stored<uint32_t>(zeros.tensor,
                              [&](uint32_t word) { return word + zeros.added == middle; });
}

}  // namespace

std::optional<uint16_t> exact_half(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  if (magnitude >= std::bit_cast<uint32_t>(0x1p16f)) return std::nullopt;
  if (magnitude >= std::bit_cast<uint32_t>(0x1p-14f)) {
    if (magnitude & 0x1fff) return std::nullopt;
    return static_cast<uint16_t>(sign | (magnitude - 0x38000000) >> 13);
  }
  const float units = std::fabs(x) * 0x1p24f;  // of the smallest f16
  if (units != std::floor(units)) return std::nullopt;
  return static_cast<uint16_t>(sign | static_cast<uint32_t>(units));
}

std::optional<TensorType> blocks_of(const QuantisedMatrix::Parts& parts,
                                    const std::vector<int32_t>& groups) {
  if (parts.columns % ops::kGroupK != 0) return std::nullopt;
  if (parts.scale_columns > 1 && parts.group % ops::kGroupK != 0) return std::nullopt;
  if (!in_order(parts, groups)) return std::nullopt;
  if (is_mxfp4(parts)) return TensorType::kMXFP4;
  const int bits = whole_bits(parts.codes);
  if (bits == 0) return std::nullopt;
  const bool middle = zeros_are_middle(parts);
  // Zeros of their own type may be farther away than five bits reach.
  if (!middle && (bits == 8 || parts.zeros->bits != bits)) return std::nullopt;
  const auto is_half = [](float scale) { return exact_half(scale).has_value(); };
  if (!all_stored<float>(parts.scales.tensor, is_half)) return std::nullopt;
  if (bits == 8) return TensorType::kQ8_0;
  return middle ? TensorType::kQ4_0 : TensorType::kQ5_0;
}

void write_block(TensorType type, const float* codes, float zero, float scale, std::byte* out) {
  const std::optional<uint16_t> d = exact_half(scale);
  PREFIX_CHECK(d);
  std::memcpy(out, &*d, sizeof *d);
  out += sizeof *d;
  const int offset = type == TensorType::kQ4_0 ? 8 : type == TensorType::kQ5_0 ? 16 : 0;
  const auto code = [&](int i) {
    return static_cast<uint32_t>(static_cast<int>(codes[i] - zero) + offset);
  };
  if (type == TensorType::kQ8_0) {
    for (int i = 0; i < ops::kGroupK; ++i) out[i] = static_cast<std::byte>(code(i));
    return;
  }
  if (type == TensorType::kQ5_0) {
    uint32_t high = 0;
    for (int i = 0; i < ops::kGroupK; ++i) high |= (code(i) >> 4 & 1) << i;
    std::memcpy(out, &high, sizeof high);
    out += sizeof high;
  }
  // Lower bits of code i and of code i + 16 in a byte, as all blocks have them.
  constexpr int kHalf = ops::kGroupK / 2;
  for (int i = 0; i < kHalf; ++i)
    out[i] = static_cast<std::byte>((code(i) & 15) | (code(i + kHalf) & 15) << 4);
}

void write_mxfp4(const std::byte* codes, float scale, std::byte* out) {
  *out++ = static_cast<std::byte>(std::bit_cast<uint32_t>(scale) >> 23);
  constexpr int kHalf = ops::kGroupK / 4;  // bytes of the file before code 16
  const std::byte low{15}, high{0xf0};
  for (int i = 0; i < kHalf; ++i) {
    out[2 * i] = (codes[i] & low) | codes[i + kHalf] << 4;
    out[2 * i + 1] = codes[i] >> 4 | (codes[i + kHalf] & high);
  }
}

}  // namespace prefix
