// Products of whole numbers by sdot and udot, for the neon level of processors that have them. Not a
// level of its own: the bits are those of the kernels it takes the place of.
#define PREFIX_NEON
#include "ops/cpu/int8_impl.h"
#include "ops/cpu/kernels.h"

namespace prefix::ops {

void fill_kernels_neon_dot(KernelTable& table) { add_int8_kernels(table.gemm); }

}  // namespace prefix::ops
