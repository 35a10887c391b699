// A list of bodies (PREFIX_ROW_KERNELS of body/rows.h) as CUDA kernels, and the switch that finds
// them.
#pragma once

#include <cuda_runtime.h>

#include "block_cuda.cuh"
#include "kernel_table.h"

#define PREFIX_KERNEL(number, body, Args)                                \
  __global__ void __launch_bounds__(block_shape(Kernel::number).threads) \
      body##_kernel(const __grid_constant__ Args args) {                 \
    CudaBlock block;                                                     \
    body(block, args);                                                   \
  }

#define PREFIX_KERNEL_CASE(number, body, Args) \
  case Kernel::number:                         \
    return reinterpret_cast<const void*>(body##_kernel);
