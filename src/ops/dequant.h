// Quantised blocks to f32. Block layouts are those of GGUF; each formula keeps the order of the
// Python `gguf` package's float32 arithmetic, so the results are equal bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/tensor_type.h"

namespace prefix::ops {

// `values` is a multiple of block_values(type). `data` need not be aligned.
void dequantise(TensorType type, const std::byte* data, int64_t values, float* out);

float half_to_float(uint16_t half);

// The 6-bit scale and minimum of sub-block j of Q4_K and Q5_K, out of 12 bytes.
void scale_and_minimum(const uint8_t* packed, int j, int* scale, int* minimum);

}  // namespace prefix::ops
