// How files store the values of a tensor: plain numbers, or blocks of quantised ones with their
// scales. The types are those of safetensors and GGUF that the library reads; whole numbers and
// 8-bit floats are parts of quantised weights.
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
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ4_NL,
  kIQ4_XS,
  kMXFP4,
  kI8,
  kU8,
  kI32,
  kI64,
  kF8_E4M3,
  kF8_E8M0,
  kUnread,  // any other, which the file has a word for (model/files/tensor_file.h)
};

// Whole numbers and 8-bit floats, which are weights together with scales only;
// and what is not read.
bool needs_scales(TensorType type);

std::string_view tensor_type_name(TensorType type);
// Values per block and bytes per block; 1 and the element size for plain types.
int64_t block_values(TensorType type);
int64_t block_bytes(TensorType type);
// Bytes of so many values, a multiple of block_values().
inline int64_t blocks_bytes(TensorType type, int64_t values) {
  return values / block_values(type) * block_bytes(type);
}

}  // namespace prefix::ops
