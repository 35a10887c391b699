#pragma once

#include "ops/cpu/kernels.h"

namespace prefix::ops::testing {

// As fill_kernels_avx_vnni(), on a model of its instruction; asks for AVX2 alone.
void fill_kernels_avx_vnni_model(KernelTable& table);

}  // namespace prefix::ops::testing
