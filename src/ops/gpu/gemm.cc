// PackedWeights products, and the row counts for which they are prepared.
#include <algorithm>

#include "base/status.h"
#include "ops/op_gpu.h"

namespace prefix::ops {

// Steps up to 256 rows are padded to few sizes; of longer ones, of any size, the largest stands for
// all.
void GpuDevice::warm_up(int64_t most, const std::function<void(int64_t rows)>& step) {
  warming_up_ = true;
  int64_t last = 0;
  for (int64_t rows = 1; rows <= std::min<int64_t>(most, 256); ++rows)
    if (const int64_t size = gpu::padded_rows(rows); size != last) step(last = size);
  if (most > last) step(most);
  warming_up_ = false;
}

int64_t GpuDevice::padded_rows(int64_t rows) const {
  return rows <= 256 ? gpu::padded_rows(rows) : gpu::padded_items(rows);
}

// y[rows, columns] of the matrix, whose rows behind w.n are zero.
void GpuDevice::product(const PackedWeights& w, int64_t columns, const float* bias,
                        ActivationBuffer x, int64_t rows, void* y, int64_t ld, gpu::Output output) {
  if (rows == 0) return;
  const gpu::GemmArgs a{w.data, x.data,     bias, y,  rows,   columns,
                        w.k,    w.k_padded, x.ld, ld, output, context_.element()};
  if (warming_up_) {
    context_.runtime->prepare_gemm(a);
  } else {
    check(*context_.runtime, context_.runtime->gemm(a), "matrix product");
  }
}

void GpuDevice::linear(const PackedWeights& w, const float* bias, ActivationBuffer x, int64_t rows,
                       float* y, int64_t ld, bool add) {
  // With the rows of zeros behind those of a vocabulary of any size (pack_sources()): an odd number
  // of columns has few algorithms, and perhaps none that `invariant` can use for a panel as well.
  const int64_t whole = whole_panels(w.n);
  const int64_t columns = !bias && !add && whole <= ld ? whole : w.n;
  product(w, columns, bias, x, rows, y, ld, add ? gpu::Output::kF32Add : gpu::Output::kF32);
}

// qkv() adds the bias: cuBLASLt has no f32 bias for a result of bf16.
void GpuDevice::project(const PackedWeights& w, const float*, ActivationBuffer x, int64_t rows,
                        void* y, int64_t ld) {
  product(w, w.n, nullptr, x, rows, y, ld, gpu::Output::kActivation);
}

void GpuDevice::linear_gated(const PackedWeights& w, int64_t n, const float* bias_gate,
                             const float* bias_up, ActivationFn fn, ActivationBuffer x,
                             int64_t rows, ActivationBuffer out) {
  PREFIX_CHECK(fn != ActivationFn::kClampedSwiglu);
  PREFIX_CHECK(w.panels() == 2 * panels_of(n));
  const int64_t columns = w.panels() * kPanelColumns;
  unsigned char* const both = gated_.reserve(static_cast<size_t>(rows * columns) * act_bytes());
  product(w, columns, nullptr, x, rows, both, columns, gpu::Output::kActivation);
  if (warming_up_) return;
  gpu::GatedArgs a{both, bias_gate, bias_up, out.data, columns, out.ld, n, fn, context_.element()};
  gpu::launch(*context_.runtime, gpu::Kernel::kGated, rows, 1, a);
}

}  // namespace prefix::ops
