// The device of an engine is current only while one of the engine's calls runs: programs that use
// CUDA themselves find their own context again, whatever thread of theirs called the engine.
// cudaSetDevice() alone would leave ours, and they would allocate on the wrong GPU from then on.
#pragma once

#include <cstdint>

namespace prefix::ops::gpu {

// What the driver and the CUDA runtime do; 0 is success.
struct Contexts {
  int (*get)(void** context) = nullptr;  // cuCtxGetCurrent
  int (*set)(void* context) = nullptr;   // cuCtxSetCurrent
  int (*use)(int32_t device) = nullptr;  // cudaSetDevice
};

class CurrentContext {
 public:
  // `own`: the context of the device, when it is known. `keep`: leave it current, on a thread that
  // is the engine's; each call there is cheaper then.
  CurrentContext(const Contexts& contexts, int32_t device, const void* own, bool keep = false)
      : contexts_(contexts) {
    const bool known = contexts_.get && contexts_.get(&before_) == 0;
    if (known && own && before_ == own) return;
    contexts_.use(device);
    restore_ = known && !keep;
  }
  ~CurrentContext() {
    if (restore_) contexts_.set(before_);
  }
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

 private:
  const Contexts& contexts_;
  void* before_ = nullptr;  // none is a context, too
  bool restore_ = false;
};

}  // namespace prefix::ops::gpu
