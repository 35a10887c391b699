// The tensor-core attention kernel for one head size and number of warps. Each head size is
// compiled in a file of its own, to compile them side by side.
#pragma once

#include <cuda_runtime.h>

#include "block_cuda.cuh"
#include "body/attention.h"
#include "kernel_table.h"

namespace prefix::ops::gpu {

template <int D, int W>
__global__ void __launch_bounds__(32 * W, 1)
    attention_kernel(const __grid_constant__ AttentionKernelArgs args) {
  CudaBlock block;
  Attention<D, W, CudaBlock>(block, args).run();
}

}  // namespace prefix::ops::gpu
