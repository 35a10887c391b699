// The table of function pointers that stands for one CPU level.
//
// Each kernels_<level>.cc is compiled with the flags of its level and fills a table; everything
// else is compiled for the base architecture and calls through the table. A level starts from the
// table of the level below and replaces what it does better.
#pragma once

#include "ops/cpu/attention_kernels.h"
#include "ops/cpu/gemm_kernels.h"
#include "ops/cpu/rows_kernels.h"
#include "ops/cpu/scan_kernels.h"

namespace prefix::ops {

enum class Isa : int32_t;

struct KernelTable {
  GemmKernels gemm;
  RowKernels rows;
  AttentionKernels attention;
  ScanKernels scan;
};

// The table of a level; the caller has checked that the machine runs it (isa.h).
const KernelTable& kernel_table(Isa isa);
// Another one, whose results have the same bits at every level: activations are f32, sums in
// floating point are taken in the order of 16 lanes, a multiplication and its addition are
// rounded once. Products of whole numbers and attention over int8 keys and values are as fast
// as in the other.
const KernelTable& same_bits_table(Isa isa);

void fill_kernels_scalar(KernelTable& table);
void fill_kernels_avx2(KernelTable& table);
void fill_kernels_avx512(KernelTable& table);
void fill_kernels_avx512_bf16(KernelTable& table);
void fill_kernels_amx(KernelTable& table);
void fill_kernels_neon(KernelTable& table);
void fill_kernels_scalar_same(KernelTable& table);
void fill_kernels_avx2_same(KernelTable& table);
void fill_kernels_neon_same(KernelTable& table);
// What both tables of a level have.
void fill_kernels_scalar_int8(KernelTable& table);
void fill_kernels_avx2_int8(KernelTable& table);
void fill_kernels_neon_int8(KernelTable& table);
// Of processors that have more than their level asks for.
void fill_kernels_avx_vnni(KernelTable& table);
void fill_kernels_avx512_vnni(KernelTable& table);
void fill_kernels_amx_int8(KernelTable& table);
void fill_kernels_neon_dot(KernelTable& table);
// GemmKernels::tile_int8 and tile_values of fill_kernels_avx512_vnni, which the amx level takes for
// few rows.
void multiply_int8_avx512_vnni(const TileArgs& args);
void multiply_values_avx512_vnni(const ValueTileArgs& args);

}  // namespace prefix::ops
