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

const void* mma_kernel(Kernel kernel) {
  switch (kernel) {
    case Kernel::kAttention64x4:
      return reinterpret_cast<const void*>(attention_kernel<64, 4>);
    case Kernel::kAttention64x8:
      return reinterpret_cast<const void*>(attention_kernel<64, 8>);
    case Kernel::kAttention128x4:
      return reinterpret_cast<const void*>(attention_kernel<128, 4>);
    case Kernel::kAttention128x8:
      return reinterpret_cast<const void*>(attention_kernel<128, 8>);
    case Kernel::kAttention256x4:
      return reinterpret_cast<const void*>(attention_kernel<256, 4>);
    default:
      return nullptr;
  }
}

}  // namespace prefix::ops::gpu
