// Rearranges weight rows into the panels that the tile kernels read (op.h, Matrix).
//
//   W [n, k] row by row          panel j: 32 columns of W^T, k walks down
//     row 0  -----------           k 0,1 | n0 n0 n1 n1 ... n31 n31 |   bf16: pairs of k
//     row 1  -----------           k 2,3 | n0 n0 n1 n1 ...         |
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/threads.h"
#include "ops/op.h"

namespace prefix::ops {

// The shape of W[n, k] without memory.
Matrix matrix_shape(DType type, int64_t n, int64_t k);

// Fills `data` (zeroed, matrix.bytes() long) in panel order: panel p takes its rows from
// readers[p % readers.size()], panel p / readers.size() of that reader, which has `n` rows.
void pack_panels(Threads& threads, const Matrix& matrix, std::span<const RowReader* const> readers,
                 int64_t n, std::byte* data);

// out[0..k) = row `row` of W (column `row` of the panels), times scale.
void unpack_row(const Matrix& matrix, int64_t row, float scale, float* out);

uint16_t bf16_from_f32(float x);  // to nearest even; NaN stays NaN
float f32_from_bf16(uint16_t x);

}  // namespace prefix::ops
