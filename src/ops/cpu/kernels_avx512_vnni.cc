// Products of whole numbers by vpdpbusd, for the AVX-512 levels of processors that have it. Not a level
// of its own: the bits are those of the kernels it takes the place of.
#include "ops/cpu/int8_impl.h"
#include "ops/cpu/kernels.h"

namespace prefix::ops {

void fill_kernels_avx512_vnni(KernelTable& table) {
  table.gemm.tile_int8 = multiply_tile<Int8ByVnni>;
  table.gemm.tile_blocks = multiply_block_tile<BlockLanes>;
  table.gemm.tile_values = multiply_value_tile<ValuesByVnni>;
  table.gemm.peak_int8 = register_peak<Int8ByVnni>;
}

}  // namespace prefix::ops
