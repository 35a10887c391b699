#include "ops/cpu/kernels.h"

#include <array>

#include "ops/cpu/isa.h"

namespace prefix::ops {
namespace {

std::array<KernelTable, kIsaCount> build_tables() {
  std::array<KernelTable, kIsaCount> tables{};
  using Fill = void (*)(KernelTable&);
#if defined(__x86_64__)
  constexpr std::array<Fill, kIsaCount> kFills = {fill_kernels_scalar, fill_kernels_avx2,
                                                  fill_kernels_avx512, fill_kernels_avx512_bf16,
                                                  fill_kernels_amx};
#else
  constexpr std::array<Fill, 1> kFills = {fill_kernels_scalar};
#endif
  KernelTable table;
  for (size_t i = 0; i < kFills.size(); ++i) {
    kFills[i](table);
#if defined(__x86_64__)
    const CpuFeatures& features = detect_cpu_features();
    const auto isa = static_cast<Isa>(i);
    if (isa == Isa::kAvx512 && features.avx512_vnni) fill_kernels_avx512_vnni(table);
    if (isa == Isa::kAmx && features.amx_int8) fill_kernels_amx_int8(table);
#endif
    tables[i] = table;
  }
  return tables;
}

// The AVX-512 levels have 16 lanes and fused additions of their own: all above avx512 are that one, with
// the faster products of whole numbers.
std::array<KernelTable, kIsaCount> build_same_bits_tables() {
  std::array<KernelTable, kIsaCount> tables{};
  fill_kernels_scalar_same(tables[0]);
#if defined(__x86_64__)
  const auto at = [&](Isa isa) -> KernelTable& { return tables[static_cast<size_t>(isa)]; };
  fill_kernels_avx2_same(at(Isa::kAvx2));
  at(Isa::kAvx512) = at(Isa::kAvx512Bf16) = at(Isa::kAmx) = kernel_table(Isa::kAvx512);
  if (detect_cpu_features().amx_int8) fill_kernels_amx_int8(at(Isa::kAmx));
#endif
  return tables;
}

}  // namespace

const KernelTable& same_bits_table(Isa isa) {
  static const std::array<KernelTable, kIsaCount> tables = build_same_bits_tables();
  return tables[static_cast<size_t>(isa)];
}

const KernelTable& kernel_table(Isa isa) {
  static const std::array<KernelTable, kIsaCount> tables = build_tables();
  return tables[static_cast<size_t>(isa)];
}

}  // namespace prefix::ops
