#include "attention_kernel.cuh"

namespace prefix::ops::gpu {

const void* attention_kernel_256(Kernel kernel) {
  switch (kernel) {
    case Kernel::kAttention256x4:
      return reinterpret_cast<const void*>(attention_kernel<256, 4>);
    default:
      return nullptr;
  }
}

}  // namespace prefix::ops::gpu
