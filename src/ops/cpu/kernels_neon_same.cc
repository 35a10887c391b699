// The neon level with the bits of every other level (simd.h): the order of the sums of AVX-512.
#define PREFIX_NEON
#define PREFIX_SAME_BITS
#include "ops/cpu/attention_impl.h"
#include "ops/cpu/element_impl.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/rows_impl.h"
#include "ops/cpu/scan_impl.h"

namespace prefix::ops {

void fill_kernels_neon_same(KernelTable& table) {
  table.gemm = element_gemm_kernels<Simd>();
  table.rows = row_kernels();
  table.attention = attention_kernels();
  table.scan = scan_kernels();
}

}  // namespace prefix::ops
