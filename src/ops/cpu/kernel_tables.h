// The tables of kernels that a machine has, one for each level.
//
// Apart from kernels.h, which the levels' own translation units include:
// they must not see the standard library.
#pragma once

#include <array>

#include "ops/cpu/isa.h"
#include "ops/cpu/kernels.h"

namespace prefix::ops {

using KernelTables = std::array<KernelTable, kIsaCount>;

// For a processor with these features. What it does not run is never asked:
// the table of such a level is that of the level below.
KernelTables kernel_tables(const CpuFeatures& features);
KernelTables same_bits_tables(const CpuFeatures& features);

}  // namespace prefix::ops
