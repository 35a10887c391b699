// The amx level: not built yet; equals avx512_bf16.
#include "ops/cpu/kernels.h"

namespace prefix::ops {

void fill_kernels_amx(KernelTable&) {}

}  // namespace prefix::ops
