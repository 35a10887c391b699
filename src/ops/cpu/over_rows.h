// Operations that work row by row, on all threads.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "ops/cpu/context.h"
#include "ops/round_up.h"

namespace prefix::ops {

// Rows per task where a row is little work.
inline constexpr int64_t kRowsPerTask = 8;

// task(row, worker)
template <typename Task>
void over_rows_and_workers(const CpuContext& context, int64_t rows, const Task& task) {
  context.threads->run(ceil_div(rows, kRowsPerTask), [&](int64_t index, int worker) {
    const int64_t end = std::min(rows, (index + 1) * kRowsPerTask);
    for (int64_t row = index * kRowsPerTask; row < end; ++row) task(row, worker);
  });
}

template <typename Task>
void over_rows(const CpuContext& context, int64_t rows, const Task& task) {
  over_rows_and_workers(context, rows, [&](int64_t row, int) { task(row); });
}

inline float inverse_rms(const RowKernels& kernels, const float* x, int64_t n, float eps) {
  return 1.0f / std::sqrt(kernels.sum_squares(x, n) / static_cast<float>(n) + eps);
}

}  // namespace prefix::ops
