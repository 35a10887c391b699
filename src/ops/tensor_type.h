// How files store the values of a tensor: plain numbers, or blocks of quantised ones with their
// scales. The types are those of safetensors and GGUF that the library reads.
#pragma once

#include <cstdint>
#include <string_view>

namespace prefix::ops {

enum class TensorType : int32_t {
  kF32,
  kF16,
  kBF16,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ4_K,
  kQ5_K,
  kQ6_K,
};

std::string_view tensor_type_name(TensorType type);
// Values per block and bytes per block; 1 and the element size for plain types.
int64_t block_values(TensorType type);
int64_t block_bytes(TensorType type);
// Bytes of so many values, a multiple of block_values().
inline int64_t blocks_bytes(TensorType type, int64_t values) {
  return values / block_values(type) * block_bytes(type);
}

}  // namespace prefix::ops
