// The tables whose results have the same bits at every level (same_bits_table), of the levels of
// this machine, and those of AMX and AVX-VNNI on a model of what they have of their own.
#pragma once

#include <string>
#include <vector>

#include "ops/amx_emulation.h"
#include "ops/avx_vnni_model.h"
#include "ops/cpu/amx_impl.h"
#include "ops/cpu/amx_values.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/kernels.h"
#include "ops/op_cpu.h"

namespace prefix::ops::testing {

struct LevelTable {
  std::string name;
  KernelTable kernels;
};

// Rows of whole numbers as tile_int8 reads them, whose count is a multiple of 32.
class Int8Operand {
 public:
  Int8Operand(const GemmKernels& gemm, const void* numbers, int64_t count)
      : data_(numbers), words_(gemm.widen_quads == nullptr ? 0 : static_cast<size_t>(count)) {
    if (words_.empty()) return;
    gemm.widen_quads(numbers, count, words_.data());
    data_ = words_.data();
  }
  const void* data() const { return data_; }

 private:
  const void* data_;
  std::vector<int16_t> words_;
};

// The first is that of the scalar level.
inline std::vector<LevelTable> level_tables() {
  std::vector<LevelTable> tables;
  for (const Isa isa :
       {Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16, Isa::kAmx, Isa::kNeon})
    if (isa_obstacle(isa, detect_cpu_features()).empty())
      tables.push_back({std::string(isa_name(isa)), same_bits_table(isa)});
#if defined(__aarch64__)
  if (detect_cpu_features().neon_dot) {
    LevelTable plain{"neon without dot products", same_bits_table(Isa::kNeon)};
    fill_kernels_neon_int8(plain.kernels);
    tables.push_back(plain);
  }
#endif
  // What the kernels of other tables were made from knows nothing of AMX.
  LevelTable amx{"amx on its model", tables.back().kernels};
  use_tiles<EmulatedTiles>(amx.kernels.gemm);
  amx.kernels.gemm.tile_int8 = multiply_tile_amx<EmulatedTiles, Int8Tiles>;
  amx.kernels.gemm.widen_quads = nullptr;
  amx.kernels.gemm.tile_values = multiply_value_tile_amx<EmulatedTiles, EmulatedLanes>;
  tables.push_back(amx);
#if defined(__x86_64__)
  // With and without VNNI, too.
  if (detect_cpu_features().avx2) {
    LevelTable plain{"avx2 without VNNI", {}};
    fill_kernels_avx2_same(plain.kernels);
    fill_kernels_avx2_int8(plain.kernels);
    if (detect_cpu_features().avx_vnni) tables.push_back(plain);  // else it is there already
    LevelTable vnni{"avx2 with VNNI on its model", plain.kernels};
    fill_kernels_avx_vnni_model(vnni.kernels);
    tables.push_back(vnni);
  }
  if (detect_cpu_features().avx512) {
    LevelTable plain{"avx512 without VNNI", same_bits_table(Isa::kAvx512)};
    KernelTable own;
    fill_kernels_avx512(own);
    plain.kernels.gemm = own.gemm;
    tables.push_back(plain);
  }
#endif
  return tables;
}

}  // namespace prefix::ops::testing
