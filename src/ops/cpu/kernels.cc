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

}  // namespace

const KernelTable& kernel_table(Isa isa) {
  static const std::array<KernelTable, kIsaCount> tables = build_tables();
  return tables[static_cast<size_t>(isa)];
}

}  // namespace prefix::ops
