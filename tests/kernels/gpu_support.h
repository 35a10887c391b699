// Devices for tests of the GPU backend: over the emulator, or over a real GPU where there is one.
#pragma once

#include <memory>
#include <vector>

#include "kernels/emulator.h"
#include "ops/devices.h"
#include "ops/op_gpu.h"

namespace prefix::ops::testing {

inline std::unique_ptr<GpuDevice> emulated_device(DType type = DType::kBf16, bool invariant = false,
                                                  int processors = 4, uint64_t seed = 1) {
  return std::make_unique<GpuDevice>(std::make_unique<gpu::EmulatedRuntime>(processors, seed),
                                     GpuOptions{type, 1, invariant});
}

// While it lives, device=cuda means the emulator.
class EmulatedCuda {
 public:
  explicit EmulatedCuda(int processors = 4) {
    replace_gpu_runtime([processors](int index, bool) {
      return std::make_unique<gpu::EmulatedRuntime>(processors, static_cast<uint64_t>(index) + 1);
    });
  }
  ~EmulatedCuda() { replace_gpu_runtime({}); }
  EmulatedCuda(const EmulatedCuda&) = delete;
  EmulatedCuda& operator=(const EmulatedCuda&) = delete;
};

}  // namespace prefix::ops::testing
