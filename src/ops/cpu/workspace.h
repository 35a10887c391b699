// The memory that the CPU device takes for itself in steps up to some shape, known before the first
// one: the estimate of an engine adds it up without a device. Every Scratch of the device grows to
// what the largest operation wants of it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/cpu/kernels.h"
#include "ops/device_sizes.h"

namespace prefix::ops {

struct CpuWorkspace {
  size_t partials = 0;       // CpuContext::partials
  size_t scratch = 0;        // of a thread
  size_t wide = 0;           // of a thread
  size_t worker_device = 0;  // what a thread has for blocks of rows; 0: there are none

  size_t bytes(int64_t threads) const {
    return partials + static_cast<size_t>(threads) * (scratch + wide + worker_device);
  }
};

// Upper bounds, but for states of recurrent layers beyond kNestedStates.
CpuWorkspace cpu_workspace(const ReserveShape& shape, const NumericTypes& types,
                           const KernelTable& kernels, int64_t threads);

}  // namespace prefix::ops
