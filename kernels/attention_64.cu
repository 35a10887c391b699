#include "attention_kernel.cuh"

namespace prefix::ops::gpu {

const void* attention_kernel_64(Kernel kernel) {
  switch (kernel) {
    case Kernel::kAttention64x4:
      return reinterpret_cast<const void*>(attention_kernel<64, 4>);
    case Kernel::kAttention64x8:
      return reinterpret_cast<const void*>(attention_kernel<64, 8>);
    default:
      return nullptr;
  }
}

}  // namespace prefix::ops::gpu
