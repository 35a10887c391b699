// The row-wise kernels: their bodies (body/rows.h) as CUDA kernels.
#include "body/rows.h"
#include "row_kernels.cuh"

namespace prefix::ops::gpu {
namespace {

PREFIX_ROW_KERNELS(PREFIX_KERNEL)

}  // namespace

const void* row_kernel(Kernel kernel) {
  switch (kernel) {
    PREFIX_ROW_KERNELS(PREFIX_KERNEL_CASE)
    default:
      return nullptr;
  }
}

}  // namespace prefix::ops::gpu
