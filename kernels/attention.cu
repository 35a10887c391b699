// Attention by items on tensor cores: a kernel for each head size and number of warps.
#include <cuda_runtime.h>

#include "block_cuda.cuh"
#include "body/attention.h"
#include "kernel_table.h"

namespace prefix::ops::gpu {
namespace {

template <int D, int W>
__global__ void __launch_bounds__(32 * W, 1)
    attention_kernel(const __grid_constant__ AttentionKernelArgs args) {
  CudaBlock block;
  Attention<D, W, CudaBlock>(block, args).run();
}

}  // namespace

#define PREFIX_CASE(number, D, W) \
  case Kernel::number:            \
    return reinterpret_cast<const void*>(attention_kernel<D, W>);
const void* mma_kernel(Kernel kernel) {
  switch (kernel) {
    PREFIX_MMA_KERNELS(PREFIX_CASE)
    default:
      return nullptr;
  }
}

}  // namespace prefix::ops::gpu
