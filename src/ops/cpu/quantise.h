// Activations in whole numbers, for products with weights in int8 or in blocks.
//
//   rows of x, f32 or bf16  ->  rows of numbers, ld apart | scale of each row | 128 x the sum of each row
//
// A row of x becomes w.terms rows side by side.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/cpu/block_kernels.h"
#include "ops/cpu/context.h"
#include "ops/op.h"

namespace prefix::ops {

struct QuantisedRows {
  std::byte* data = nullptr;
  int64_t ld = 0;  // numbers
  float* scales = nullptr;
  int32_t* corrections = nullptr;  // WholeSums

  // Bytes of so many rows of x for a product with w, a multiple of 64. `size`:
  // GemmKernels::int8_operand_bytes.
  static size_t bytes(const PackedWeights& w, int64_t rows, int64_t size);
  // At most, of one of these with k numbers.
  static size_t row_bytes(int64_t k, int64_t size);
  // In memory of bytes(), without content.
  static QuantisedRows in(const PackedWeights& w, int64_t rows, int64_t size, std::byte* memory);
};

// The same for products with weights in blocks.
size_t block_rows_bytes(const PackedWeights& w, int64_t rows);
size_t block_row_bytes(int64_t k);  // at most, of one of these
BlockRows block_rows_in(const PackedWeights& w, std::byte* memory);
void quantise_block_row(const CpuContext& context, const PackedWeights& w, ActivationBuffer x,
                        int64_t row, int worker, const BlockRows& out);

// Writes what row `row` of x becomes, on the calling thread, whose number is `worker`.
void quantise_row(const CpuContext& context, const PackedWeights& w, ActivationBuffer x,
                  int64_t row, int worker, const QuantisedRows& out);

}  // namespace prefix::ops
