// The amx level: products of bf16 and of whole numbers on tile registers,
// everything else from avx512_bf16.
#include "ops/cpu/amx_impl.h"
#include "ops/cpu/amx_tiles.h"
#include "ops/cpu/amx_values.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/simd.h"

namespace prefix::ops {
namespace {

// With so few rows a tile is nearly empty, and decoding with vectors takes 0.85 to 0.95 of the time
// (measured). Tiles of values have to be copied besides: attention takes 0.84 of the time with two
// rows, 0.91 with eight, 1.1 with 16. Whole sums are exact, so the bits are the same.
constexpr int64_t kRowsOfVectors = 3;
constexpr int64_t kValueRowsOfVectors = 8;

void multiply_int8(const TileArgs& args) {
  if (args.rows > kRowsOfVectors) return multiply_tile_amx<HardwareTiles, Int8Tiles>(args);
  TileArgs few = args;
  few.prefetch[0] = few.prefetch[1] = nullptr;  // the hardware is as fast
  multiply_int8_avx512_vnni(few);
}

void multiply_values(const ValueTileArgs& args) {
  if (args.rows > kValueRowsOfVectors)
    return multiply_value_tile_amx<HardwareTiles, LevelSimd>(args);
  multiply_values_avx512_vnni(args);
}

}  // namespace

void fill_kernels_amx(KernelTable& table) {
  GemmKernels& gemm = table.gemm;
  use_tiles<HardwareTiles>(gemm);
  gemm.tile_bf16 = multiply_tile_amx<HardwareTiles>;
  gemm.act_is_bf16 = true;
  gemm.peak_bf16 = tile_peak<HardwareTiles>;
}

void fill_kernels_amx_int8(KernelTable& table) {
  use_tiles<HardwareTiles>(table.gemm);
  table.gemm.tile_int8 = multiply_int8;
  table.gemm.widen_quads = nullptr;
  table.gemm.tile_values = multiply_values;
  table.gemm.peak_int8 = tile_peak<HardwareTiles, Int8Tiles>;
}

}  // namespace prefix::ops
