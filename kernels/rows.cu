// The row-wise kernels: their bodies (body/rows.h) as CUDA kernels.
#include <cuda_runtime.h>

#include "block_cuda.cuh"
#include "body/rows.h"
#include "kernel_table.h"

namespace prefix::ops::gpu {
namespace {

#define PREFIX_KERNEL(name, Args, threads)                                                      \
  __global__ void __launch_bounds__(threads) name##_kernel(const __grid_constant__ Args args) { \
    CudaBlock block;                                                                            \
    name(block, args);                                                                          \
  }

PREFIX_KERNEL(embed, EmbedArgs, kRowThreads)
PREFIX_KERNEL(norm, NormArgs, kRowThreads)
PREFIX_KERNEL(gather, GatherArgs, kRowThreads)
PREFIX_KERNEL(convert, ConvertArgs, kRowThreads)
PREFIX_KERNEL(gated, GatedArgs, kRowThreads)
PREFIX_KERNEL(qkv, QkvArguments, kRowThreads)
PREFIX_KERNEL(copy_pages, CopyArgs, kRowThreads)
PREFIX_KERNEL(clear_pages, ClearArgs, kRowThreads)
PREFIX_KERNEL(gemm_slow, GemmArgs, kRowThreads)
PREFIX_KERNEL(attention_slow, AttentionArguments, 32)

}  // namespace

const void* row_kernel(Kernel kernel) {
  switch (kernel) {
    case Kernel::kEmbed:
      return reinterpret_cast<const void*>(embed_kernel);
    case Kernel::kNorm:
      return reinterpret_cast<const void*>(norm_kernel);
    case Kernel::kGather:
      return reinterpret_cast<const void*>(gather_kernel);
    case Kernel::kConvert:
      return reinterpret_cast<const void*>(convert_kernel);
    case Kernel::kGated:
      return reinterpret_cast<const void*>(gated_kernel);
    case Kernel::kQkv:
      return reinterpret_cast<const void*>(qkv_kernel);
    case Kernel::kCopyPages:
      return reinterpret_cast<const void*>(copy_pages_kernel);
    case Kernel::kClearPages:
      return reinterpret_cast<const void*>(clear_pages_kernel);
    case Kernel::kGemmSlow:
      return reinterpret_cast<const void*>(gemm_slow_kernel);
    case Kernel::kAttentionSlow:
      return reinterpret_cast<const void*>(attention_slow_kernel);
    default:
      return nullptr;
  }
}

}  // namespace prefix::ops::gpu
