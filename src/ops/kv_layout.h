// How keys and values lie in the page pool.
//
//   pool   [ page 0 | page 1 | ... ]
//   page   [ layer 0 | layer 1 | ... ]
//   layer  [ kv head 0: K block, V block | kv head 1: K block, V block | ... ]
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/page.h"

namespace prefix::ops {

enum class KvType : int32_t { kBf16 = 0, kF32 = 1, kInt8 = 2 };

// Of a number.
constexpr size_t kv_bytes(KvType type) {
  switch (type) {
    case KvType::kInt8:
      return 1;
    case KvType::kBf16:
      return 2;
    case KvType::kF32:
      break;
  }
  return 4;
}

// Inside a block (a GPU has another order, of the same size: gpu/launch.h):
//   bf16: K [d_padded/2][32 keys][2]   V [d_padded/32][16 key pairs][32 columns][2]
//   f32:  K [d_padded][32 keys]        V [d_padded/32][32 keys][32 columns]
//   int8: K [d_padded/4][32 keys][4]   V [d_padded/32][8 quads of keys][32 columns][4]
//         and behind each of them [32 keys] f32, what a unit of that key or value is worth: a
//         token has scales of its own, so tokens are written, copied and read without one another.
//         K is rotated (rotation.h, without signs), and unsigned: + 128. V is signed.
// d_padded = head_dim rounded up to a multiple of 32, for int8 of 64; what is behind head_dim
// counts nothing. A fresh page is all zero.
struct KvLayout {
  KvType type = KvType::kBf16;
  int32_t layers = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;

  int64_t d_padded() const {
    const int64_t unit = type == KvType::kInt8 ? 64 : 32;
    return (head_dim + unit - 1) / unit * unit;
  }
  size_t numbers_bytes() const {  // of a block
    return static_cast<size_t>(d_padded()) * kPageTokens * kv_bytes(type);
  }
  size_t scales_bytes() const {  // of a block, behind its numbers
    return type == KvType::kInt8 ? kPageTokens * sizeof(float) : 0;
  }
  // K (or V) of one page, layer and head
  size_t block_bytes() const { return numbers_bytes() + scales_bytes(); }
  size_t layer_bytes() const { return 2 * block_bytes() * static_cast<size_t>(kv_heads); }
  size_t page_bytes() const { return layer_bytes() * static_cast<size_t>(layers); }
  size_t key_offset(int64_t page, int64_t layer, int64_t head) const {
    return static_cast<size_t>(page) * page_bytes() + static_cast<size_t>(layer) * layer_bytes() +
           static_cast<size_t>(head) * 2 * block_bytes();
  }
  size_t value_offset(int64_t page, int64_t layer, int64_t head) const {
    return key_offset(page, layer, head) + block_bytes();
  }
};

}  // namespace prefix::ops
