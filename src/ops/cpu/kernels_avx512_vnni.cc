// Products of whole numbers by vpdpbusd, for the AVX-512 levels of processors that have it. Not a
// level of its own: the bits are those of the kernels it takes the place of.
#include "ops/cpu/int8_impl.h"
#include "ops/cpu/kernels.h"

namespace prefix::ops {

void fill_kernels_avx512_vnni(KernelTable& table) { add_vnni_kernels(table.gemm); }

void multiply_int8_avx512_vnni(const TileArgs& args) { multiply_tile<Int8ByVnni>(args); }

void multiply_values_avx512_vnni(const ValueTileArgs& args) {
  multiply_value_tile<ValuesByVnni>(args);
}

}  // namespace prefix::ops
