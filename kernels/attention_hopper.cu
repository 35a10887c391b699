// Attention by warpgroups and by clusters: compiled for sm_90a only.
#define PREFIX_SHARED_ALIGN 1024  // atoms of the 128-byte swizzle
#include <cuda_runtime.h>

#include "body/attention_decode.h"
#include "body/attention_hopper.h"
#include "cluster_cuda.cuh"
#include "hopper_cuda.cuh"
#include "kernel_table.h"

namespace prefix::ops::gpu {
namespace {

template <int D>
__global__ void __launch_bounds__(kHopperThreads, 1)
    attention_hopper_kernel(const __grid_constant__ AttentionKernelArgs args) {
  CudaHopper<HopperShared<D>::kBarriers> block;
  attention_hopper<D>(block, args);
}

template <int D>
__global__ void __launch_bounds__(kDecodeThreads, 1)
    attention_decode_kernel(const __grid_constant__ DecodeKernelArgs args) {
  CudaClusterBlock<DecodeShared<D>::kBarriers> block;
  attention_decode<D>(block, args);
}

}  // namespace

const void* hopper_kernel(Kernel kernel) {
  switch (kernel) {
    case Kernel::kAttentionHopper64:
      return reinterpret_cast<const void*>(attention_hopper_kernel<64>);
    case Kernel::kAttentionHopper128:
      return reinterpret_cast<const void*>(attention_hopper_kernel<128>);
    case Kernel::kAttentionDecode64:
      return reinterpret_cast<const void*>(attention_decode_kernel<64>);
    case Kernel::kAttentionDecode128:
      return reinterpret_cast<const void*>(attention_decode_kernel<128>);
    default:
      return nullptr;
  }
}

}  // namespace prefix::ops::gpu
