// Whether stored numbers are finite: neither a NaN nor an infinity.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ops/kv_layout.h"

namespace prefix::ops {

// The exponent of what is not finite is all ones: with one more in its last place it reaches the
// sign bit. Eight bytes at a time, four numbers or two.
// Of bf16 or f32.
inline bool all_finite(const void* data, size_t bytes, KvType type) {
  const bool bf16 = type == KvType::kBf16;
  const uint64_t exponent = bf16 ? 0x7f807f807f807f80u : 0x7f8000007f800000u;
  const uint64_t one = bf16 ? 0x0080008000800080u : 0x0080000000800000u;
  const uint64_t sign = bf16 ? 0x8000800080008000u : 0x8000000080000000u;
  const auto* const at = static_cast<const std::byte*>(data);
  uint64_t found = 0;
  size_t i = 0;
  for (; i + sizeof(uint64_t) <= bytes; i += sizeof(uint64_t)) {
    uint64_t word;
    std::memcpy(&word, at + i, sizeof word);
    found |= (word & exponent) + one;
  }
  if (i < bytes) {
    uint64_t word = 0;
    std::memcpy(&word, at + i, bytes - i);
    found |= (word & exponent) + one;
  }
  return (found & sign) == 0;
}

// Of the numbers of a page. Whole numbers are finite whatever they are; their scales need not be.
inline bool page_is_finite(const std::byte* page, const KvLayout& layout) {
  if (layout.type != KvType::kInt8) return all_finite(page, layout.page_bytes(), layout.type);
  const size_t block = layout.block_bytes();
  for (size_t at = layout.numbers_bytes(); at < layout.page_bytes(); at += block)
    if (!all_finite(page + at, layout.scales_bytes(), KvType::kF32)) return false;
  return true;
}

}  // namespace prefix::ops
