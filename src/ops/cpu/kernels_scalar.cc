// The scalar level: the base architecture only, the reference that runs everywhere.
#include "ops/cpu/attention_impl.h"
#include "ops/cpu/gemm_impl.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/rows_impl.h"
#include "ops/cpu/scan_impl.h"

namespace prefix::ops {

void fill_kernels_scalar(KernelTable& table) {
  table.gemm = f32_gemm_kernels<Simd>();
  table.rows = row_kernels();
  table.attention = attention_kernels();
  table.scan = scan_kernels();
}

}  // namespace prefix::ops
