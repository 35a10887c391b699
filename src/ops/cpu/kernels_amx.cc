// The amx level: tdpbf16ps on tile registers for bf16, everything else from avx512_bf16.
#include "ops/cpu/amx_impl.h"
#include "ops/cpu/amx_tiles.h"
#include "ops/cpu/kernels.h"

namespace prefix::ops {

void fill_kernels_amx(KernelTable& table) {
  GemmKernels& gemm = table.gemm;
  gemm.begin = begin_tiles<HardwareTiles>;
  gemm.end = end_tiles<HardwareTiles>;
  gemm.tile_bf16 = multiply_tile_amx<HardwareTiles>;
  gemm.act_is_bf16 = true;
  gemm.row_step = 2 * kTileRows;
  // These processors have 2 MB of L2: more rows amortise each read of the weights.
  gemm.row_block = 192;
  gemm.k_block_bytes = 2048;
  gemm.peak_bf16 = tile_peak<HardwareTiles>;
}

void fill_kernels_amx_int8(KernelTable& table) {
  table.gemm.begin = begin_tiles<HardwareTiles>;
  table.gemm.end = end_tiles<HardwareTiles>;
  table.gemm.row_step = 2 * kTileRows;
  table.gemm.row_block = 192;
  table.gemm.tile_int8 = multiply_tile_amx<HardwareTiles, Int8Tiles>;
  table.gemm.peak_int8 = tile_peak<HardwareTiles, Int8Tiles>;
}

}  // namespace prefix::ops
