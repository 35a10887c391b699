// The avx2 level: f32 FMA on 256 bits, bf16 weights widened in registers.
#include "ops/cpu/attention_impl.h"
#include "ops/cpu/gemm_impl.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/rows_impl.h"
#include "ops/cpu/scan_impl.h"

namespace prefix::ops {

void fill_kernels_avx2(KernelTable& table) {
  table.gemm = f32_gemm_kernels<Simd>();
  table.rows = row_kernels();
  table.attention = attention_kernels();
  table.scan = scan_kernels();
}

}  // namespace prefix::ops
