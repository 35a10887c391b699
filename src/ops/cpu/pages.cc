// Pages of keys and values: cleared and copied. KvLayout says how they lie.
#include <cstring>

#include "ops/cpu/step.h"

namespace prefix::ops {
namespace {

// Of one layer and head.
void copy_head(const KvLayout& kv, std::byte* pool, const PageCopy& copy, int32_t layer,
               int64_t head) {
  const auto size = static_cast<int64_t>(kv_bytes(kv.type));
  const int64_t d = kv.d_padded();
  // K is rows of 32 keys, 4 bytes each: an f32, a pair of bf16, a quad of int8. V is panels of 32
  // columns with rows of as many keys, interleaved.
  const int64_t key_rows = d * size / 4;
  const int64_t interleaved = 4 / size;
  constexpr int64_t kKeyRowBytes = kPageTokens * 4;
  const int64_t panel_bytes = kPageTokens * 32 * size;
  const int64_t tokens = copy.tokens;
  const int64_t whole = tokens / interleaved * interleaved;
  const auto rest_bytes = static_cast<size_t>((tokens - whole) * size);
  const auto whole_bytes = static_cast<size_t>(whole * 32 * size);

  const std::byte* const key = pool + kv.key_offset(copy.from, layer, head);
  std::byte* const key_to = pool + kv.key_offset(copy.to, layer, head);
  for (int64_t i = 0; i < key_rows; ++i) {
    std::memcpy(key_to + i * kKeyRowBytes, key + i * kKeyRowBytes, static_cast<size_t>(tokens) * 4);
  }
  const std::byte* const value = pool + kv.value_offset(copy.from, layer, head);
  std::byte* const value_to = pool + kv.value_offset(copy.to, layer, head);
  for (int64_t i = 0; i < d / 32; ++i) {
    const std::byte* const panel = value + i * panel_bytes;
    std::byte* const panel_to = value_to + i * panel_bytes;
    std::memcpy(panel_to, panel, whole_bytes);
    // The first ones of the last pair or quad.
    for (int64_t j = 0; whole < tokens && j < 32; ++j) {
      const int64_t at = whole * 32 * size + j * 4;
      std::memcpy(panel_to + at, panel + at, rest_bytes);
    }
  }
  if (kv.scales_bytes() == 0) return;
  const size_t scales = kv.numbers_bytes();
  std::memcpy(key_to + scales, key + scales, static_cast<size_t>(tokens) * sizeof(float));
  std::memcpy(value_to + scales, value + scales, static_cast<size_t>(tokens) * sizeof(float));
}

}  // namespace

void CpuStep::copy_pages(int32_t layer) {
  if (arrays_.copies.empty()) return;
  context_.threads->run(arrays_.kv.kv_heads, [&](int64_t head, int) {
    for (const PageCopy& copy : arrays_.copies)
      copy_head(arrays_.kv, arrays_.pool, copy, layer, head);
  });
}

void CpuStep::clear_pages() {
  const size_t bytes = arrays_.kv.page_bytes();
  context_.threads->run(static_cast<int64_t>(arrays_.clear.size()), [&](int64_t i, int) {
    const auto page = static_cast<size_t>(arrays_.clear[static_cast<size_t>(i)]);
    std::memset(arrays_.pool + page * bytes, 0, bytes);
  });
}

}  // namespace prefix::ops
