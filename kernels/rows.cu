// The kernels of rows and of heads: their bodies (body/rows.h, body/heads.h) as CUDA kernels.
#include <cuda_runtime.h>

#include "block_cuda.cuh"
#include "body/heads.h"
#include "body/rows.h"
#include "kernel_table.h"

namespace prefix::ops::gpu {
namespace {

#define PREFIX_KERNEL(number, body, Args)                                \
  __global__ void __launch_bounds__(block_shape(Kernel::number).threads) \
      body##_kernel(const __grid_constant__ Args args) {                 \
    CudaBlock block;                                                     \
    body(block, args);                                                   \
  }
PREFIX_ROW_KERNELS(PREFIX_KERNEL)
PREFIX_HEAD_KERNELS(PREFIX_KERNEL)

}  // namespace

#define PREFIX_CASE(number, body, Args) \
  case Kernel::number:                  \
    return reinterpret_cast<const void*>(body##_kernel);
const void* row_kernel(Kernel kernel) {
  switch (kernel) {
    PREFIX_ROW_KERNELS(PREFIX_CASE)
    PREFIX_HEAD_KERNELS(PREFIX_CASE)
    default:
      return nullptr;
  }
}

}  // namespace prefix::ops::gpu
