// Rows of quantised matrices in the blocks that kernels multiply (ops/block_layout.h),
// where these have the same numbers bit for bit:
//
//   weight = (code - zero) * scale     4 bits, every zero 8 or none      Q4_0   d * (nibble - 8)
//                                      4 bits, other zeros               Q5_0   d * (five bits - 16)
//                                      8 bits, every zero 128 or none    Q8_0   d * byte
//                                      E2M1, scales E8M0                 MXFP4  d * number
//
// A scale is then that of whole blocks of 32 columns, one after the other, and d an f16: files of
// AWQ and GPTQ have these, and those of compressed-tensors have bf16 that mostly are f16, too. That
// of MXFP4 is a power of two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "model/files/quantised_matrix.h"

namespace prefix {

// None where no type of blocks has these numbers. `groups`: of the columns; empty for columns in
// order. Reads the scales and zeros. Throws kIo.
std::optional<TensorType> blocks_of(const QuantisedMatrix::Parts& parts,
                                    const std::vector<int32_t>& groups);

// A block of whole numbers: 32 codes less their zero, and a scale that it has.
void write_block(TensorType type, const float* codes, float zero, float scale, std::byte* out);
// A block of MXFP4: 32 codes as the file has them, two to a byte in order, and their scale.
void write_mxfp4(const std::byte* codes, float scale, std::byte* out);

// The f16 that is x; none for most.
std::optional<uint16_t> exact_half(float x);

}  // namespace prefix
