// Rearranges weight rows into the panels that the tile kernels read (ops/weights.h).
//
//   W [n, k] row by row          panel j: 32 columns of W^T, k walks down
//     row 0  -----------           k 0,1 | n0 n0 n1 n1 ... n31 n31 |   bf16: pairs of k
//     row 1  -----------           k 2,3 | n0 n0 n1 n1 ...         |
//                                  k 0-3 | n0 n0 n0 n0 n1 ...      |   int8: quads of k
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/threads.h"
#include "ops/calibration_rows.h"
#include "ops/cpu/rows_kernels.h"
#include "ops/weights.h"

namespace prefix::ops {

// Fills `data` (zeroed, shape.bytes() long) in panel order: panel p takes its rows from
// sources[p % sources.size()], panel p / sources.size() of that source, which has `n` rows. Sets
// where the scales and signs of int8 lie. `kernels` are those of the device; `calibration`:
// Device::pack_sources().
void pack_panels(Threads& threads, const RowKernels& kernels, PackedWeights& shape,
                 std::span<const WeightSource* const> sources, int64_t n,
                 const CalibrationRows* calibration, std::byte* data);

// out[0..k) = row `row` of W (column `row` of the panels), times scale.
void unpack_row(const PackedWeights& weights, int64_t row, float scale, float* out);

}  // namespace prefix::ops
