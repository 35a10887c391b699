// Launches of kernels with their arguments, in the shape that each kernel has.
#pragma once

#include <cstddef>
#include <cstring>

#include "ops/gpu/runtime.h"
#include "ops/gpu/staging.h"

namespace prefix::ops::gpu {

// Arguments are compared byte by byte: those behind the last member must not be chance.
template <typename Args>
void clear_tail([[maybe_unused]] Args& args) {
  if constexpr (requires { args.element; }) {
    constexpr size_t kEnd = offsetof(Args, element) + sizeof args.element;
    static_assert(sizeof args - kEnd < alignof(Args), "element is the last member");
    std::memset(reinterpret_cast<unsigned char*>(&args) + kEnd, 0, sizeof args - kEnd);
  }
}

class Launcher {
 public:
  explicit Launcher(Runtime& runtime) : runtime_(runtime) {}

  // A grid of x * y blocks; none is no launch. `shared_bytes`: beside what the kernel always has.
  template <typename Args>
  void launch(Kernel kernel, int64_t x, int64_t y, const Args& args, int shared_bytes = 0,
              int cluster = 1) {
    if (x == 0 || y == 0) return;
    const BlockShape block = block_shape(kernel);
    Args clean = args;
    clear_tail(clean);
    Launch l{};
    l.kernel = kernel;
    l.grid_x = static_cast<uint32_t>(x);
    l.grid_y = static_cast<uint32_t>(y);
    l.threads = static_cast<uint32_t>(block.threads);
    l.shared_bytes = static_cast<uint32_t>(block.shared_bytes + shared_bytes);
    l.cluster = static_cast<uint32_t>(cluster);
    l.args = &clean;
    l.arg_bytes = sizeof clean;
    check(runtime_, runtime_.launch(l), "launch");
  }

 private:
  Runtime& runtime_;
};

}  // namespace prefix::ops::gpu
