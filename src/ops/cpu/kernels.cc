#include "ops/cpu/kernels.h"

#include <array>

#include "ops/cpu/isa.h"
#include "ops/cpu/kernel_tables.h"

namespace prefix::ops {
namespace {

const KernelTable& at(const KernelTables& tables, Isa isa) {
  return tables[static_cast<size_t>(isa)];
}

}  // namespace

// The functions that fill a table are made of its level's instructions, too.
KernelTables kernel_tables(const CpuFeatures& features) {
  KernelTables tables{};
  using Fill = void (*)(KernelTable&);
  // Null: isa_obstacle() says that this is another architecture.
#if defined(__x86_64__)
  constexpr std::array<Fill, kIsaCount> kFills = {fill_kernels_scalar, fill_kernels_avx2,
                                                  fill_kernels_avx512, fill_kernels_avx512_bf16,
                                                  fill_kernels_amx,    nullptr};
#elif defined(__aarch64__)
  constexpr std::array<Fill, kIsaCount> kFills = {
      fill_kernels_scalar, nullptr, nullptr, nullptr, nullptr, fill_kernels_neon};
#else
  constexpr std::array<Fill, kIsaCount> kFills = {fill_kernels_scalar};
#endif
  KernelTable table;
  for (size_t i = 0; i < tables.size(); ++i) {
    const auto isa = static_cast<Isa>(i);
    if (isa_obstacle(isa, features).empty()) {
      kFills[i](table);
      if (isa == Isa::kScalar) fill_kernels_scalar_int8(table);
#if defined(__x86_64__)
      if (isa == Isa::kAvx2) fill_kernels_avx2_int8(table);
      if (isa == Isa::kAvx2 && features.avx_vnni) fill_kernels_avx_vnni(table);
      if (isa == Isa::kAvx512 && features.avx512_vnni) fill_kernels_avx512_vnni(table);
      if (isa == Isa::kAmx && features.amx_int8) fill_kernels_amx_int8(table);
#elif defined(__aarch64__)
      if (isa == Isa::kNeon) fill_kernels_neon_int8(table);
      if (isa == Isa::kNeon && features.neon_dot) fill_kernels_neon_dot(table);
#endif
    }
    tables[i] = table;
  }
  return tables;
}

// The AVX-512 levels have 16 lanes and fused additions of their own: all above avx512 are that one,
// with the faster products of whole numbers.
KernelTables same_bits_tables(const CpuFeatures& features) {
  KernelTables tables{};
  KernelTable table;
  for (size_t i = 0; i < tables.size(); ++i) {
    const auto isa = static_cast<Isa>(i);
    if (isa == Isa::kScalar) {
      fill_kernels_scalar_same(table);
      fill_kernels_scalar_int8(table);
    }
#if defined(__x86_64__)
    const bool runs = isa_obstacle(isa, features).empty();
    if (isa == Isa::kAvx2 && runs) {
      fill_kernels_avx2_same(table);
      fill_kernels_avx2_int8(table);
    }
    if (isa == Isa::kAvx2 && runs && features.avx_vnni) fill_kernels_avx_vnni(table);
    if (isa == Isa::kAvx512 && runs) table = at(kernel_tables(features), isa);
    if (isa == Isa::kAmx && runs && features.amx_int8) fill_kernels_amx_int8(table);
#elif defined(__aarch64__)
    const bool runs = isa_obstacle(isa, features).empty();
    if (isa == Isa::kNeon && runs) {
      fill_kernels_neon_same(table);
      fill_kernels_neon_int8(table);
    }
    if (isa == Isa::kNeon && runs && features.neon_dot) fill_kernels_neon_dot(table);
#endif
    tables[i] = table;
  }
  return tables;
}

const KernelTable& same_bits_table(Isa isa) {
  static const KernelTables tables = same_bits_tables(detect_cpu_features());
  return at(tables, isa);
}

const KernelTable& kernel_table(Isa isa) {
  static const KernelTables tables = kernel_tables(detect_cpu_features());
  return at(tables, isa);
}

}  // namespace prefix::ops
