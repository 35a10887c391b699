// Launches of kernels with their arguments, in the shape that each kernel has.
#pragma once

#include "ops/gpu/runtime.h"
#include "ops/gpu/staging.h"

namespace prefix::ops::gpu {

class Launcher {
 public:
  explicit Launcher(Runtime& runtime) : runtime_(runtime) {}

  // As command_of(); no block is no launch.
  template <typename Args>
  void launch(Kernel kernel, int64_t x, int64_t y, const Args& args, int shared_bytes = 0,
              int cluster = 1) {
    if (x == 0 || y == 0) return;
    const Command command = command_of(kernel, x, y, args, shared_bytes, cluster);
    check(runtime_, runtime_.launch(command), "launch");
  }

 private:
  Runtime& runtime_;
};

}  // namespace prefix::ops::gpu
