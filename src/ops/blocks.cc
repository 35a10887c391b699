#include "ops/blocks.h"

#include <cstring>

#include "ops/dequant.h"
#include "ops/weights.h"

namespace prefix::ops {
namespace {

using T = BlockType;

// By BlockType.
constexpr TensorType kTensorTypes[kBlockTypes] = {
    TensorType::kQ8_0, TensorType::kQ4_0,   TensorType::kQ4_1, TensorType::kQ5_0,
    TensorType::kQ5_1, TensorType::kIQ4_NL, TensorType::kQ4_K, TensorType::kQ5_K,
    TensorType::kQ6_K, TensorType::kMXFP4};

// Nibble i of the 32 that lie as in Q4_0.
int nibble(const uint8_t* b, int i) { return b[i % 16] >> (i / 16 * 4) & 15; }
int bit(const uint8_t* b, int i) { return b[i / 8] >> (i % 8) & 1; }
// Of Q4_K and Q5_K.
int nibble_of_256(const uint8_t* b, int i) {
  return b[i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 15;
}

// Code i of a block, whose parts are where dequant.cc says.
template <T type>
int code_of(const uint8_t* b, int i) {
  switch (type) {
    case T::kQ8_0:
      return b[2 + i] ^ 0x80;
    case T::kQ4_0:
    case T::kIQ4_NL:
      return nibble(b + 2, i);
    case T::kMXFP4:
      return nibble(b + 1, i);
    case T::kQ4_1:
      return nibble(b + 4, i);
    case T::kQ5_0:
      return nibble(b + 6, i) | bit(b + 2, i) << 4;
    case T::kQ5_1:
      return nibble(b + 8, i) | bit(b + 4, i) << 4;
    case T::kQ4_K:
      return nibble_of_256(b + 16, i);
    case T::kQ5_K:
      return nibble_of_256(b + 48, i) | (b[16 + i % 32] >> (i / 32) & 1) << 4;
    case T::kQ6_K: {
      const int half = i / 128, part = i / 32 % 4;
      const int low = b[64 * half + part % 2 * 32 + i % 32] >> (part / 2 * 4) & 15;
      return low | (b[128 + 32 * half + i % 32] >> (2 * part) & 3) << 4;
    }
  }
}

// Where the block has d (and m behind it, where there are minima).
template <T type>
constexpr int kScaleAt = type == T::kQ6_K ? 208 : 0;

// Half of E8M0, as the numbers are twice those of the block.
void store_power(uint8_t exponent, std::byte* out) {
  const auto bits = static_cast<uint16_t>(exponent < 2 ? 0x20 << exponent : (exponent - 1) << 7);
  std::memcpy(out, &bits, sizeof bits);
}

void store_half(const uint8_t* half, bool negative, std::byte* out) {
  uint16_t bits;
  std::memcpy(&bits, half, sizeof bits);
  if (negative) bits ^= 0x8000;
  std::memcpy(out, &bits, sizeof bits);
}

// What a unit has of one block besides its codes.
template <T type>
void store_scales(const uint8_t* b, int64_t column, std::byte* unit) {
  constexpr BlockLayout L = layout_of(type);
  std::byte* const d = unit + L.d_at() + 2 * column;
  if constexpr (L.bf16) return store_power(b[0], d);
  store_half(b + kScaleAt<type>, false, d);
  if constexpr (L.minima) store_half(b + 2, L.nested, unit + L.m_at() + 2 * column);
  if constexpr (!L.nested) return;
  for (int i = 0; i < L.groups * L.halves; ++i) {
    int scale = 0, minimum = 0;
    if constexpr (type == T::kQ6_K) {
      scale = b[192 + i];
    } else {
      scale_and_minimum(b + 4, i, &scale, &minimum);
      unit[L.minima_at() + i * kPanelColumns + column] = static_cast<std::byte>(minimum);
    }
    unit[L.scales_at() + i * kPanelColumns + column] = static_cast<std::byte>(scale);
  }
}

// A byte of codes of every quad, and of each byte of high bits, one after the other.
template <T type>
void store_codes(const uint8_t* b, int64_t column, std::byte* unit) {
  constexpr BlockLayout L = layout_of(type);
  constexpr int kLow = L.low_bits == 8 ? 1 : 2;  // codes of a byte
  constexpr int64_t kStep = 4 * kPanelColumns;
  std::byte* to = unit + 4 * column;
  for (int quad = 0; quad < L.groups * kGroupQuads; quad += kLow, to += kStep)
    for (int j = 0; j < 4; ++j) {
      int byte = code_of<type>(b, 4 * quad + j);
      if constexpr (kLow == 2) byte = (byte & 15) | (code_of<type>(b, 4 * quad + 4 + j) & 15) << 4;
      to[j] = static_cast<std::byte>(byte);
    }
  if constexpr (L.high_bits > 0) {
    constexpr int kHigh = 8 / L.high_bits;
    for (int quad = 0; quad < L.groups * kGroupQuads; quad += kHigh, to += kStep)
      for (int j = 0; j < 4; ++j) {
        int byte = 0;
        for (int i = 0; i < kHigh; ++i)
          byte |= code_of<type>(b, 4 * (quad + i) + j) >> 4 << (i * L.high_bits);
        to[j] = static_cast<std::byte>(byte);
      }
  }
}

template <T type>
void fill_panel(const std::byte* rows, size_t row_bytes, int64_t count, int64_t k,
                std::byte* panel) {
  constexpr BlockLayout L = layout_of(type);
  const auto bytes = static_cast<size_t>(block_bytes(kTensorTypes[static_cast<size_t>(type)]));
  for (int64_t unit = 0; unit < k / L.k(); ++unit) {
    for (int64_t column = 0; column < count; ++column) {
      const auto* const b = reinterpret_cast<const uint8_t*>(rows) +
                            static_cast<size_t>(column) * row_bytes +
                            static_cast<size_t>(unit) * bytes;
      store_codes<type>(b, column, panel + unit * L.bytes());
      store_scales<type>(b, column, panel + unit * L.bytes());
    }
  }
}

// Of a code as it lies in a unit.
int stored_code(const BlockLayout& layout, const std::byte* unit, int quad, int64_t at) {
  constexpr int64_t kStep = 4 * kPanelColumns;
  if (layout.low_bits == 8) return static_cast<int>(unit[quad * kStep + at]);
  int code = static_cast<int>(unit[quad / 2 * kStep + at]) >> (quad % 2 * 4) & 15;
  if (layout.table != CodeTable::kNone) return numbers_of(layout.table)[code];
  if (layout.high_bits > 0) {
    const int each = 8 / layout.high_bits;
    const int byte = static_cast<int>(unit[layout.high_at() + quad / each * kStep + at]);
    code |= (byte >> (quad % each * layout.high_bits) & ((1 << layout.high_bits) - 1)) << 4;
  }
  return code;
}

// bf16 or f16.
float stored_float(const std::byte* at, bool bf16) {
  uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return bf16 ? f32_from_bf16(bits) : half_to_float(bits);
}

}  // namespace

std::optional<BlockType> block_type(TensorType type) {
  for (int i = 0; i < kBlockTypes; ++i)
    if (kTensorTypes[i] == type) return static_cast<BlockType>(i);
  return std::nullopt;
}

void fill_block_panel(BlockType type, const std::byte* rows, size_t row_bytes, int64_t count,
                      int64_t k, std::byte* panel) {
  switch (type) {
    case T::kQ8_0:
      return fill_panel<T::kQ8_0>(rows, row_bytes, count, k, panel);
    case T::kQ4_0:
      return fill_panel<T::kQ4_0>(rows, row_bytes, count, k, panel);
    case T::kQ4_1:
      return fill_panel<T::kQ4_1>(rows, row_bytes, count, k, panel);
    case T::kQ5_0:
      return fill_panel<T::kQ5_0>(rows, row_bytes, count, k, panel);
    case T::kQ5_1:
      return fill_panel<T::kQ5_1>(rows, row_bytes, count, k, panel);
    case T::kIQ4_NL:
      return fill_panel<T::kIQ4_NL>(rows, row_bytes, count, k, panel);
    case T::kQ4_K:
      return fill_panel<T::kQ4_K>(rows, row_bytes, count, k, panel);
    case T::kQ5_K:
      return fill_panel<T::kQ5_K>(rows, row_bytes, count, k, panel);
    case T::kQ6_K:
      return fill_panel<T::kQ6_K>(rows, row_bytes, count, k, panel);
    case T::kMXFP4:
      return fill_panel<T::kMXFP4>(rows, row_bytes, count, k, panel);
  }
}

void read_block_row(BlockType type, const std::byte* panel, int64_t row, int64_t k, float scale,
                    float* out) {
  const BlockLayout& layout = layout_of(type);
  const int in_half = kGroupK / layout.halves;
  for (const std::byte* unit = panel; k > 0; k -= layout.k(), unit += layout.bytes()) {
    const float d = stored_float(unit + layout.d_at() + 2 * row, layout.bf16);
    const float m = layout.minima ? stored_float(unit + layout.m_at() + 2 * row, false) : 0;
    for (int i = 0; i < layout.k(); ++i) {
      float of_code = d, added = m;
      if (layout.nested) {
        const std::byte byte = unit[layout.scales_at() + i / in_half * kPanelColumns + row];
        of_code *= layout.halves == 2 ? static_cast<float>(static_cast<int8_t>(byte))
                                      : static_cast<float>(static_cast<uint8_t>(byte));
        if (layout.minima)
          added *= static_cast<float>(
              static_cast<uint8_t>(unit[layout.minima_at() + i / kGroupK * kPanelColumns + row]));
      }
      const int code = stored_code(layout, unit, i / 4, 4 * row + i % 4) - layout.offset;
      float value = of_code * static_cast<float>(code);
      if (layout.minima) value += added;
      *out++ = value * scale;
    }
  }
}

}  // namespace prefix::ops
