// The kernels of the heads: their bodies (body/heads.h) as CUDA kernels.
#include <cuda_runtime.h>

#include "block_cuda.cuh"
#include "body/heads.h"
#include "kernel_table.h"

namespace prefix::ops::gpu {
namespace {

#define PREFIX_KERNEL(name, Args)                        \
  __global__ void __launch_bounds__(kRowThreads)         \
      name##_kernel(const __grid_constant__ Args args) { \
    CudaBlock block;                                     \
    name(block, args);                                   \
  }

PREFIX_KERNEL(logit_part_stats, LogitStatsArgs)
PREFIX_KERNEL(logit_stats, LogitStatsArgs)
PREFIX_KERNEL(gather_logits, GatherLogitsArgs)
PREFIX_KERNEL(top_parts, TopArgs)
PREFIX_KERNEL(top_merge, TopArgs)

}  // namespace

const void* heads_kernel(Kernel kernel) {
  switch (kernel) {
    case Kernel::kLogitParts:
      return reinterpret_cast<const void*>(logit_part_stats_kernel);
    case Kernel::kLogitStats:
      return reinterpret_cast<const void*>(logit_stats_kernel);
    case Kernel::kGatherLogits:
      return reinterpret_cast<const void*>(gather_logits_kernel);
    case Kernel::kTopParts:
      return reinterpret_cast<const void*>(top_parts_kernel);
    case Kernel::kTopMerge:
      return reinterpret_cast<const void*>(top_merge_kernel);
    default:
      return nullptr;
  }
}

}  // namespace prefix::ops::gpu
