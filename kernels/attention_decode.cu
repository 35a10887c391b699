// Attention of small steps by clusters: compiled for sm_90a only.
#define PREFIX_SHARED_ALIGN 1024  // atoms of the 128-byte swizzle
#include <cuda_runtime.h>

#include "body/attention_decode.h"
#include "cluster_cuda.cuh"
#include "kernel_table.h"

namespace prefix::ops::gpu {
namespace {

template <int D>
__global__ void __launch_bounds__(kDecodeThreads, 1)
    attention_decode_kernel(const __grid_constant__ DecodeKernelArgs args) {
  CudaClusterBlock<DecodeShared<D>::kBarriers> block;
  attention_decode<D>(block, args);
}

}  // namespace

const void* attention_kernel_decode(Kernel kernel) {
  switch (kernel) {
    case Kernel::kAttentionDecode64:
      return reinterpret_cast<const void*>(attention_decode_kernel<64>);
    case Kernel::kAttentionDecode128:
      return reinterpret_cast<const void*>(attention_decode_kernel<128>);
    default:
      return nullptr;
  }
}

}  // namespace prefix::ops::gpu
