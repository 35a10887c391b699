// The kernels of the heads: their bodies (body/heads.h) as CUDA kernels.
#include "body/heads.h"
#include "row_kernels.cuh"

namespace prefix::ops::gpu {
namespace {

PREFIX_HEAD_KERNELS(PREFIX_KERNEL)

}  // namespace

const void* heads_kernel(Kernel kernel) {
  switch (kernel) {
    PREFIX_HEAD_KERNELS(PREFIX_KERNEL_CASE)
    default:
      return nullptr;
  }
}

}  // namespace prefix::ops::gpu
