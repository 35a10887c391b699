// The neon level: f32 multiply-adds on 128 bits, bf16 weights widened in registers.
#define PREFIX_NEON
#include "ops/cpu/attention_impl.h"
#include "ops/cpu/element_impl.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/rows_impl.h"
#include "ops/cpu/scan_impl.h"

namespace prefix::ops {

void fill_kernels_neon(KernelTable& table) {
  table.gemm = element_gemm_kernels<Simd>();
  table.rows = row_kernels();
  table.attention = attention_kernels();
  table.scan = scan_kernels();
}

}  // namespace prefix::ops
