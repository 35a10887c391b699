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

void GpuDevice::gemm(const gpu::GemmArgs& args) {
  if (warming_up_) {
    context_.runtime->prepare_gemm(args);
  } else {
    check(*context_.runtime, context_.runtime->gemm(args), "matrix product");
  }
}

void GpuDevice::linear(const PackedWeights& w, const float* bias, ActivationBuffer x, int64_t rows,
                       float* y, int64_t ld, bool add) {
  if (rows == 0) return;
  // The rows of zeros behind those of a vocabulary of any size (pack_from()): an odd number of columns has few
  // algorithms, and perhaps none that `invariant` can use for a panel as well.
  const int64_t whole = whole_panels(w.n);
  const int64_t columns = !bias && !add && whole <= ld ? whole : w.n;
  const auto output = add ? gpu::Output::kF32Add : gpu::Output::kF32;
  gpu::GemmArgs a{w.data, x.data,     bias, y,  rows,   columns,
                  w.k,    w.k_padded, x.ld, ld, output, context_.element()};
  gemm(a);
}

// qkv() adds the bias: cuBLASLt has no f32 bias for a result of bf16.
void GpuDevice::project(const PackedWeights& w, const float*, ActivationBuffer x, int64_t rows,
                        void* y, int64_t ld) {
  if (rows == 0) return;
  const auto output = gpu::Output::kActivation;
  gemm({w.data, x.data, nullptr, y, rows, w.n, w.k, w.k_padded, x.ld, ld, output,
        context_.element()});
}

void GpuDevice::linear_gated(const PackedWeights& w, int64_t n, const float* bias_gate,
                             const float* bias_up, ActivationFn fn, ActivationBuffer x,
                             int64_t rows, ActivationBuffer out) {
  PREFIX_CHECK(fn != ActivationFn::kClampedSwiglu);
  PREFIX_CHECK(w.panels() == 2 * panels_of(n));
  if (rows == 0) return;
  const int64_t columns = w.panels() * kPanelColumns;
  unsigned char* const both = gated_.reserve(static_cast<size_t>(rows * columns) * act_bytes());
  const auto output = gpu::Output::kActivation;
  gpu::GemmArgs g{w.data, x.data,     nullptr, both,    rows,   columns,
                  w.k,    w.k_padded, x.ld,    columns, output, context_.element()};
  gemm(g);
  if (warming_up_) return;
  gpu::GatedArgs a{both, bias_gate, bias_up, out.data, columns, out.ld, n, fn, context_.element()};
  context_.launcher.launch(gpu::Kernel::kGated, rows, 1, a);
}

}  // namespace prefix::ops
