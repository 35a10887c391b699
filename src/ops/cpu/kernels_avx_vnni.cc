// Products of whole numbers by vpdpbusd on 256 bits, for the avx2 level of processors that have it.
// Not a level of its own: the bits are those of the kernels it takes the place of.
#include "ops/cpu/int8_impl.h"
#include "ops/cpu/kernels.h"

namespace prefix::ops {

void fill_kernels_avx_vnni(KernelTable& table) { add_vnni_kernels(table.gemm); }

}  // namespace prefix::ops
