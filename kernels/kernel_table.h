// The address of each kernel, for cudaLaunchKernel; null where the file does not have it.
#pragma once

#include "ops/gpu/launch.h"

namespace prefix::ops::gpu {

const void* row_kernel(Kernel kernel);
const void* heads_kernel(Kernel kernel);
const void* attention_kernel_64(Kernel kernel);
const void* attention_kernel_128(Kernel kernel);
const void* attention_kernel_256(Kernel kernel);
const void* attention_kernel_hopper(Kernel kernel);
const void* attention_kernel_decode(Kernel kernel);

}  // namespace prefix::ops::gpu
