#include "attention_kernel.cuh"

namespace prefix::ops::gpu {

const void* attention_kernel_128(Kernel kernel) {
  switch (kernel) {
    case Kernel::kAttention128x4:
      return reinterpret_cast<const void*>(attention_kernel<128, 4>);
    case Kernel::kAttention128x8:
      return reinterpret_cast<const void*>(attention_kernel<128, 8>);
    default:
      return nullptr;
  }
}

}  // namespace prefix::ops::gpu
