// Products of whole numbers of AVX2, which both of its tables have.
#include "ops/cpu/int8_impl.h"
#include "ops/cpu/kernels.h"

namespace prefix::ops {

void fill_kernels_avx2_int8(KernelTable& table) { add_int8_kernels(table.gemm); }

}  // namespace prefix::ops
