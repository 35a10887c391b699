// The row-wise kernels: their bodies (body/rows.h) as CUDA kernels.
#include <cuda_runtime.h>

#include "block_cuda.cuh"
#include "body/rows.h"
#include "kernel_table.h"

namespace prefix::ops::gpu {
namespace {

#define PREFIX_KERNEL(name, Args)                        \
  __global__ void __launch_bounds__(kRowThreads)         \
      name##_kernel(const __grid_constant__ Args args) { \
    CudaBlock block;                                     \
    name(block, args);                                   \
  }

PREFIX_KERNEL(embed, EmbedArgs)
PREFIX_KERNEL(norm, NormArgs)
PREFIX_KERNEL(gather, GatherArgs)
PREFIX_KERNEL(convert, ConvertArgs)
PREFIX_KERNEL(gated, GatedArgs)
PREFIX_KERNEL(qkv, QkvArguments)
PREFIX_KERNEL(copy_pages, CopyArgs)
PREFIX_KERNEL(clear_pages, ClearArgs)
PREFIX_KERNEL(attention_slow, AttentionArguments)

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
    case Kernel::kAttentionSlow:
      return reinterpret_cast<const void*>(attention_slow_kernel);
    default:
      return nullptr;
  }
}

}  // namespace prefix::ops::gpu
