// Products of whole numbers of NEON, which both of its tables have: of bytes that become 16 bits.
#define PREFIX_NEON
#include "ops/cpu/int8_impl.h"
#include "ops/cpu/kernels.h"

namespace prefix::ops {

void fill_kernels_neon_int8(KernelTable& table) { add_int8_kernels(table.gemm); }

}  // namespace prefix::ops
