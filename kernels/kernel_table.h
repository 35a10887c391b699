// The address of each kernel, for cudaLaunchKernel; null where the file does not have it.
#pragma once

#include "ops/gpu/launch.h"

namespace prefix::ops::gpu {

const void* row_kernel(Kernel kernel);
const void* mma_kernel(Kernel kernel);
const void* hopper_kernel(Kernel kernel);

}  // namespace prefix::ops::gpu
