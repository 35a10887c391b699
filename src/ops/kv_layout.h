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

enum class KvType : int32_t { kBf16 = 0, kF32 = 1 };

constexpr size_t kv_bytes(KvType type) { return type == KvType::kBf16 ? 2 : 4; }

// Inside a block (a GPU has another order, of the same size: gpu/launch.h):
//   bf16: K [d_padded/2][32 keys][2]   V [d_padded/32][16 key pairs][32 columns][2]
//   f32:  K [d_padded][32 keys]        V [d_padded/32][32 keys][32 columns]
// d_padded = head_dim rounded up to a multiple of 32; padding is zero. A fresh page is all zero.
struct KvLayout {
  KvType type = KvType::kBf16;
  int32_t layers = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;

  int64_t d_padded() const { return (head_dim + 31) / 32 * 32; }
  size_t block_bytes() const {  // K (or V) of one page, layer and head
    return static_cast<size_t>(d_padded()) * kPageTokens * kv_bytes(type);
  }
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
