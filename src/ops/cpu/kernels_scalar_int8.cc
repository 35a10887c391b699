// Products of whole numbers of the scalar level, which both of its tables have: the few additions
// of numbers behind them are those of every level.
#define PREFIX_SAME_BITS
#include "ops/cpu/int8_impl.h"
#include "ops/cpu/kernels.h"

namespace prefix::ops {

void fill_kernels_scalar_int8(KernelTable& table) { add_int8_kernels(table.gemm); }

}  // namespace prefix::ops
