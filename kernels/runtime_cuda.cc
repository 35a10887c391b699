// The Runtime over CUDA, and the entry point of libprefix_cuda.so. The CUDA runtime is linked in;
// the driver is found when it is first called, cuBLASLt is opened: without either the plugin still
// loads and says what is missing.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string>

#include "base/plugin.h"
#include "cublaslt.h"
#include "kernel_table.h"
#include "ops/gpu/runtime.h"

namespace prefix::ops::gpu {
namespace {

constexpr int32_t kOldestCapability = 80;  // bf16 tensor cores, cp.async

const void* kernel_address(Kernel kernel) {
  for (const auto table :
       {row_kernel, attention_kernel_64, attention_kernel_128, attention_kernel_256})
    if (const void* const address = table(kernel)) return address;
  return nullptr;
}

int most_shared_bytes(Kernel kernel) {
  switch (kernel) {
    case Kernel::kAttention64x4:
      return attention_shared_bytes(64, 4);
    case Kernel::kAttention64x8:
      return attention_shared_bytes(64, 8);
    case Kernel::kAttention128x4:
      return attention_shared_bytes(128, 4);
    case Kernel::kAttention128x8:
      return attention_shared_bytes(128, 8);
    case Kernel::kAttention256x4:
      return attention_shared_bytes(256, 4);
    default:
      return 0;
  }
}

Code code_of(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return Code::kOk;
    case cudaErrorMemoryAllocation:
      return Code::kOutOfDeviceMemory;
    // The context is gone, and every later call fails too.
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorECCUncorrectable:
    case cudaErrorAssert:
    case cudaErrorDevicesUnavailable:
      return Code::kDeviceLost;
    default:
      return Code::kInternal;
  }
}

std::string describe(cudaError_t error) {
  if (error == cudaErrorInsufficientDriver || error == cudaErrorInitializationError ||
      error == cudaErrorStubLibrary)
    return cat("the NVIDIA driver is missing or older than CUDA 13.0 needs (580): ",
               cudaGetErrorString(error));
  if (error == cudaErrorNoDevice) return "the NVIDIA driver sees no device";
  return cat(cudaGetErrorName(error), ": ", cudaGetErrorString(error));
}

cudaError_t read_properties(int32_t device, Properties& out) {
  cudaDeviceProp p;
  const cudaError_t error = cudaGetDeviceProperties(&p, device);
  if (error != cudaSuccess) return error;
  std::snprintf(out.name, sizeof out.name, "%.*s", static_cast<int>(sizeof out.name) - 1, p.name);
  out.capability = 10 * p.major + p.minor;
  out.processors = p.multiProcessorCount;
  out.shared_bytes = static_cast<int32_t>(p.sharedMemPerBlockOptin);
  out.total_bytes = static_cast<int64_t>(p.totalGlobalMem);
  return cudaSuccess;
}

// Of this thread's last failed call.
thread_local char error_text[1024];

void set_error(const std::string& text) {
  std::snprintf(error_text, sizeof error_text, "%s", text.c_str());
}

class CudaRuntime final : public Runtime {
 public:
  ~CudaRuntime() override {
    cudaSetDevice(device_);
    if (stream_) {
      cudaStreamSynchronize(stream_);
      cudaStreamDestroy(stream_);
    }
  }

  bool open(int32_t device, bool invariant) {
    int count = 0;
    if (ask(cudaGetDeviceCount(&count), "") != Code::kOk) return false;
    if (device >= count) {
      set_error(cat("there are ", count, " devices"));
      return false;
    }
    device_ = device;
    if (ask(read_properties(device, properties_), "properties") != Code::kOk) return false;
    if (properties_.capability < kOldestCapability) {
      set_error(cat("\"", properties_.name, "\" has compute capability ",
                    properties_.capability / 10, ".", properties_.capability % 10,
                    "; 8.0 is the oldest that works"));
      return false;
    }
    if (ask(cudaSetDevice(device), "cudaSetDevice") != Code::kOk) return false;
    if (ask(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream") != Code::kOk)
      return false;
    for (int k = 0; k < static_cast<int>(Kernel::kCount); ++k) {
      const auto kernel = static_cast<Kernel>(k);
      const int bytes = most_shared_bytes(kernel);
      if (bytes > 0 && ask(cudaFuncSetAttribute(kernel_address(kernel),
                                                cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
                           "shared memory of the attention kernels") != Code::kOk)
        return false;
    }
    std::string why;
    if (cublas_.open(invariant, why)) return true;
    set_error(why);
    return false;
  }

  const Properties& properties() const override { return properties_; }
  const char* error() const override { return error_text; }
  int64_t free_bytes() override {
    size_t free = 0, total = 0;
    const std::lock_guard lock(mutex_);
    cudaSetDevice(device_);
    return cudaMemGetInfo(&free, &total) == cudaSuccess ? static_cast<int64_t>(free) : 0;
  }

  Code allocate(size_t bytes, void** out) override {
    const std::lock_guard lock(mutex_);
    cudaSetDevice(device_);
    const size_t size = bytes == 0 ? 1 : bytes;
    const Code code = ask(cudaMalloc(out, size), "cudaMalloc", bytes);
    if (code != Code::kOk) return code;
    return ask(cudaMemsetAsync(*out, 0, size, stream_), "cudaMemset", bytes);
  }
  void release(void* data) override {
    if (!data) return;
    const std::lock_guard lock(mutex_);
    cudaSetDevice(device_);
    cudaStreamSynchronize(stream_);
    cudaFree(data);
    cudaGetLastError();
  }
  Code allocate_pinned(size_t bytes, void** out) override {
    const std::lock_guard lock(mutex_);
    cudaSetDevice(device_);
    return ask(cudaMallocHost(out, bytes == 0 ? 1 : bytes), "cudaMallocHost", bytes);
  }
  void release_pinned(void* data) override {
    if (!data) return;
    const std::lock_guard lock(mutex_);
    cudaSetDevice(device_);
    cudaStreamSynchronize(stream_);
    cudaFreeHost(data);
    cudaGetLastError();
  }

  Code upload(void* device, const void* host, size_t bytes) override {
    if (bytes == 0) return Code::kOk;
    const std::lock_guard lock(mutex_);
    cudaSetDevice(device_);
    return ask(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream_), "upload",
               bytes);
  }
  Code download(void* host, const void* device, size_t bytes) override {
    if (bytes == 0) return Code::kOk;
    const std::lock_guard lock(mutex_);
    cudaSetDevice(device_);
    const Code code = ask(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream_),
                          "download", bytes);
    return code != Code::kOk ? code : synchronize();
  }
  Code synchronize() override {
    const std::lock_guard lock(mutex_);
    cudaSetDevice(device_);
    return ask(cudaStreamSynchronize(stream_), "waiting for the device");
  }

  Code launch(const Launch& l) override {
    const std::lock_guard lock(mutex_);
    cudaSetDevice(device_);
    const void* const kernel = kernel_address(l.kernel);
    if (!kernel) {
      set_error(cat("kernel ", static_cast<int>(l.kernel), " is not in this library"));
      return Code::kInternal;
    }
    void* args[] = {const_cast<void*>(l.args)};
    return ask(cudaLaunchKernel(kernel, dim3(l.grid_x, l.grid_y), dim3(l.threads), args,
                                l.shared_bytes, stream_),
               "launching a kernel");
  }
  Code gemm(const GemmArgs& args) override {
    const std::lock_guard lock(mutex_);
    cudaSetDevice(device_);
    std::string why;
    switch (cublas_.gemm(args, stream_, why)) {
      case CublasLt::Answer::kDone:
        return Code::kOk;
      case CublasLt::Answer::kFailed:
        set_error(why);
        return Code::kInternal;
      case CublasLt::Answer::kUnsupported:
        break;
    }
    Launch l{};
    l.kernel = Kernel::kGemmSlow;
    l.grid_x = static_cast<uint32_t>((args.n + kRowThreads - 1) / kRowThreads);
    l.threads = kRowThreads;
    l.arg_bytes = sizeof args;
    // The second dimension of a grid ends at 65535.
    constexpr int64_t kRows = 32768;
    for (int64_t row = 0; row < args.rows; row += kRows) {
      GemmArgs part = args;
      part.x =
          static_cast<const unsigned char*>(args.x) + row * args.ld_x * element_bytes(args.element);
      part.y = args.y + row * args.ld_y;
      part.rows = args.rows - row < kRows ? args.rows - row : kRows;
      l.grid_y = static_cast<uint32_t>(part.rows);
      l.args = &part;
      const Code code = launch(l);
      if (code != Code::kOk) return code;
    }
    return Code::kOk;
  }

 private:
  Code ask(cudaError_t error, const char* what, size_t bytes = 0) {
    if (error == cudaSuccess) return Code::kOk;
    cudaGetLastError();  // an error that can be survived must not come back with the next call
    std::string text = *what ? cat(what, ": ", describe(error)) : describe(error);
    if (bytes > 0) text += cat(" (", bytes, " bytes, ", free_bytes(), " free)");
    set_error(text);
    return code_of(error);
  }

  std::recursive_mutex mutex_;  // calls use one another
  int32_t device_ = 0;
  cudaStream_t stream_ = nullptr;
  Properties properties_;
  CublasLt cublas_;
};

void say(char* why, size_t bytes, const std::string& text) {
  if (bytes > 0) std::snprintf(why, bytes, "%s", text.c_str());
}

int32_t count_devices(char* why, size_t why_bytes) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess) return count;
  cudaGetLastError();
  say(why, why_bytes, describe(error));
  return -1;
}

bool describe_device(int32_t device, Properties* out, char* why, size_t why_bytes) {
  const cudaError_t error = read_properties(device, *out);
  if (error == cudaSuccess) return true;
  cudaGetLastError();
  say(why, why_bytes, describe(error));
  return false;
}

Runtime* open_runtime(int32_t device, bool invariant, char* why, size_t why_bytes) {
  try {
    auto runtime = std::make_unique<CudaRuntime>();
    if (runtime->open(device, invariant)) return runtime.release();
    say(why, why_bytes, runtime->error());
  } catch (const std::exception& e) {
    say(why, why_bytes, e.what());
  }
  return nullptr;
}

constexpr PluginEntry kEntry = {count_devices, describe_device, open_runtime};

}  // namespace
}  // namespace prefix::ops::gpu

PREFIX_PLUGIN_EXPORT const prefix::ops::gpu::PluginEntry* prefix_cuda_entry() {
  return &prefix::ops::gpu::kEntry;
}
