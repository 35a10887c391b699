// The Runtime over CUDA, and the entry point of libprefix_cuda.so. The CUDA runtime is linked in;
// the driver is found when it is first called, cuBLASLt is opened: without either the plugin still
// loads and says what is missing.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>

#include "base/plugin.h"
#include "cublaslt.h"
#include "cuda_errors.h"
#include "current_context.h"
#include "kernel_table.h"
#include "launch_shape.h"
#include "ops/gpu/runtime.h"
#include "upload_ring.h"

namespace prefix::ops::gpu {
namespace {

// Pageable memory goes up in pieces of this size, UploadRing::kSlots of them in flight.
constexpr size_t kRingSlotBytes = size_t{4} << 20;

const void* kernel_address(Kernel kernel) {
  for (const auto table : {row_kernel, mma_kernel,
#ifdef PREFIX_HOPPER
                           hopper_kernel
#endif
       })
    if (const void* const address = table(kernel)) return address;
  return nullptr;
}

std::string describe(cudaError_t error) {
  if (error == cudaErrorInsufficientDriver || error == cudaErrorStubLibrary)
    return cat("the NVIDIA driver is missing or older than CUDA 13.0 needs (580): ",
               cudaGetErrorString(error));
  if (error == cudaErrorInitializationError)
    return cat(
        "CUDA cannot start in this process: ", cudaGetErrorString(error),
        " (a child forked after CUDA was started cannot use it; start it with spawn or exec)");
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
  out.total_bytes = static_cast<int64_t>(p.totalGlobalMem);
  out.hopper = out.capability == 90 && kernel_address(Kernel::kAttentionHopper128) != nullptr;
  return cudaSuccess;
}

// Of this thread's last failed call.
thread_local char error_text[2048];

void set_error(const std::string& text) {
  std::snprintf(error_text, sizeof error_text, "%s", text.c_str());
}

int use_device(int32_t device) { return static_cast<int>(cudaSetDevice(device)); }

Contexts driver_contexts() {
  Contexts contexts{nullptr, nullptr, use_device};
  const auto find = [](auto*& function, const char* name) {
    void* address = nullptr;
    cudaDriverEntryPointQueryResult found;
    if (cudaGetDriverEntryPointByVersion(name, &address, 12000, cudaEnableDefault, &found) ==
            cudaSuccess &&
        found == cudaDriverEntryPointSuccess)
      std::memcpy(&function, &address, sizeof address);
  };
  find(contexts.get, "cuCtxGetCurrent");
  find(contexts.set, "cuCtxSetCurrent");
  cudaGetLastError();
  return contexts;
}

class CudaRuntime final : public Runtime {
 public:
  explicit CudaRuntime(int32_t device) : device_(device) {}
  ~CudaRuntime() override {
    const CurrentContext context(contexts_, device_, own_);
    const Unconcerned capture;
    // At the end of the process static objects may outlive CUDA.
    if (cudaSetDevice(device_) == cudaErrorCudartUnloading) {
      cublas_.abandon();
      return;
    }
    if (stream_) cudaStreamSynchronize(stream_);
    for (const auto& [id, graph] : graphs_) cudaGraphExecDestroy(graph);
    cublas_.close();
    cudaFree(workspace_);
    for (const cudaEvent_t event : ring_events_)
      if (event) cudaEventDestroy(event);
    cudaFreeHost(ring_memory_);
    if (stream_) cudaStreamDestroy(stream_);
  }

  // Throws Error.
  void open(bool invariant) {
    int count = 0;
    must(cudaGetDeviceCount(&count), "");
    if (device_ >= count) fail(Code::kUnsupportedDevice, "there are ", count, " devices");
    must(read_properties(device_, properties_), "properties");
    if (properties_.capability < kOldestCapability)
      fail(Code::kUnsupportedDevice, "\"", properties_.name, "\" has compute capability ",
           properties_.capability / 10, ".", properties_.capability % 10,
           "; 8.0 is the oldest that works");
    contexts_ = driver_contexts();
    const CurrentContext context(contexts_, device_, nullptr);
    const Unconcerned capture;
    must(cudaSetDevice(device_), "cudaSetDevice");
    must(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream");
    if (contexts_.get) contexts_.get(&own_);
    prepare_kernels();
    count_clusters();
    make_ring();
    must(cudaMalloc(&workspace_, CublasLt::kWorkspaceBytes), "a workspace for cuBLASLt",
         CublasLt::kWorkspaceBytes);
    std::string why;
    if (!cublas_.open(invariant, workspace_, why)) fail(Code::kUnsupportedDevice, why);
    properties_.gemm_version = cublas_.version();
  }

  const Properties& properties() const override { return properties_; }
  const char* error() const override { return error_text; }
  int64_t free_bytes() override {
    size_t free = 0, total = 0;
    const Call call(*this);
    return cudaMemGetInfo(&free, &total) == cudaSuccess ? static_cast<int64_t>(free) : 0;
  }

  Code allocate(size_t bytes, void** out) override {
    const Call call(*this);
    const size_t size = bytes == 0 ? 1 : bytes;
    const Code code = ask(cudaMalloc(out, size), "cudaMalloc", bytes);
    if (code != Code::kOk) return code;
    return ask(cudaMemsetAsync(*out, 0, size, stream_), "cudaMemset", bytes);
  }
  void release(void* data) override {
    if (!data) return;
    const Call call(*this);
    cudaStreamSynchronize(stream_);
    cudaFree(data);
    cudaGetLastError();
  }
  Code allocate_pinned(size_t bytes, void** out) override {
    const Call call(*this);
    const size_t size = bytes == 0 ? 1 : bytes;
    const Code code = ask(cudaMallocHost(out, size), "cudaMallocHost", bytes);
    if (code == Code::kOk) pinned_[static_cast<unsigned char*>(*out)] = size;
    return code;
  }
  void release_pinned(void* data) override {
    if (!data) return;
    const Call call(*this);
    pinned_.erase(static_cast<unsigned char*>(data));
    cudaStreamSynchronize(stream_);
    cudaFreeHost(data);
    cudaGetLastError();
  }

  Code upload(void* device, const void* host, size_t bytes) override {
    if (bytes == 0) return Code::kOk;
    const Call call(*this);
    return is_pinned(host, bytes) ? copy(device, host, bytes)
                                  : ring_->upload(*this, device, host, bytes);
  }
  Code download(void* host, const void* device, size_t bytes) override {
    if (bytes == 0) return Code::kOk;
    const Call call(*this);
    const Code code = begin_download(host, device, bytes);
    return code != Code::kOk ? code : synchronize();
  }
  Code begin_download(void* pinned, const void* device, size_t bytes) override {
    if (bytes == 0) return Code::kOk;
    const Call call(*this);
    return ask(cudaMemcpyAsync(pinned, device, bytes, cudaMemcpyDeviceToHost, stream_), "download",
               bytes);
  }
  Code synchronize() override {
    const Call call(*this);
    return ask(cudaStreamSynchronize(stream_), "waiting for the device");
  }

  Code launch(const Command& command) override {
    const Call call(*this, true);
    const void* const kernel = kernel_address(command.kernel);
    if (!kernel) {
      set_error(cat("kernel ", static_cast<int>(command.kernel), " is not in this library"));
      return Code::kInternal;
    }
    void* args[] = {const_cast<unsigned char*>(command.args)};
    LaunchShape shape(command, stream_, overlaps_[static_cast<size_t>(command.kernel)]);
    return ask(cudaLaunchKernelExC(&shape.config, kernel, args), "launching a kernel");
  }
  Code gemm(const GemmArgs& args) override {
    const Call call(*this, true);
    std::string why;
    using Answer = CublasLt::Answer;
    const Answer answer = cublas_.gemm(args, stream_, why);
    if (answer == Answer::kDone) return Code::kOk;
    if (answer == Answer::kUnsupported) return gemm_slow(args);
    if (answer == Answer::kFailed) return blame(why);
    set_error(why);
    return answer == Answer::kNoMemory ? Code::kOutOfDeviceMemory : Code::kUnsupportedDevice;
  }

  void bind_thread() override {
    const std::lock_guard lock(mutex_);
    engine_ = std::this_thread::get_id();
  }
  // By computing it: the first call of a kernel of the library loads it.
  void prepare_gemm(const GemmArgs& args) override { gemm(args); }

  // The lock is held meanwhile: whatever another thread asked for would become a part of the graph.
  Code record(std::span<const Command> commands, int32_t* graph) override {
    const Call call(*this, true);
    Code code = ask(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "a graph");
    if (code != Code::kOk) return code;
    recording_ = true;
    for (const Command& command : commands) {
      code = command.kernel == Command::kGemm ? gemm(gemm_of(command)) : launch(command);
      if (code != Code::kOk) break;
    }
    cudaGraph_t captured = nullptr;
    const cudaError_t ended = cudaStreamEndCapture(stream_, &captured);
    recording_ = false;
    if (code == Code::kOk) code = ask(ended, "a graph");
    cudaGraphExec_t made = nullptr;
    if (code == Code::kOk) code = ask(cudaGraphInstantiate(&made, captured, 0), "a graph");
    if (captured) cudaGraphDestroy(captured);
    cudaGetLastError();
    if (code != Code::kOk) return code;
    *graph = next_graph_++;
    graphs_[*graph] = made;
    return Code::kOk;
  }
  Code replay(int32_t graph) override {
    const Call call(*this, true);
    const auto found = graphs_.find(graph);
    if (found == graphs_.end()) {
      set_error(cat("there is no graph ", graph));
      return Code::kInternal;
    }
    return ask(cudaGraphLaunch(found->second, stream_), "replaying a graph");
  }
  void forget(int32_t graph) override {
    const Call call(*this);
    const auto found = graphs_.find(graph);
    if (found == graphs_.end()) return;
    cudaGraphExecDestroy(found->second);
    cudaGetLastError();
    graphs_.erase(found);
  }

  // For UploadRing.
  Code copy(void* device, const void* pinned, size_t bytes) {
    return ask(cudaMemcpyAsync(device, pinned, bytes, cudaMemcpyHostToDevice, stream_), "upload",
               bytes);
  }
  Code mark(int slot) { return ask(cudaEventRecord(ring_events_[slot], stream_), "upload"); }
  Code wait(int slot) { return ask(cudaEventSynchronize(ring_events_[slot]), "upload"); }

 private:
  // A thread of the program may be capturing a graph of its own, in the mode that forbids
  // cudaMalloc() and the like to all other threads: to those that did not say that they do not
  // mind.
  class Unconcerned {
   public:
    Unconcerned() { cudaThreadExchangeStreamCaptureMode(&mode_); }
    ~Unconcerned() { cudaThreadExchangeStreamCaptureMode(&mode_); }
    Unconcerned(const Unconcerned&) = delete;
    Unconcerned& operator=(const Unconcerned&) = delete;

   private:
    cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
  };
  // One call of the engine: alone, with its device.
  class Call {
   public:
    // `launches`: where that is the engine's thread, the device stays current.
    explicit Call(CudaRuntime& r, bool launches = false)
        : lock_(r.mutex_),
          context_(r.contexts_, r.device_, r.own_,
                   launches && r.engine_ == std::this_thread::get_id()) {}

   private:
    std::lock_guard<std::recursive_mutex> lock_;
    CurrentContext context_;
    Unconcerned capture_;
  };

  void must(cudaError_t error, const char* what, size_t bytes = 0) {
    if (const Code code = ask(error, what, bytes); code != Code::kOk) fail(code, error_text);
  }
  Code ask(cudaError_t error, const char* what, size_t bytes = 0) {
    if (error == cudaSuccess) return Code::kOk;
    cudaGetLastError();  // an error that can be survived must not come back with the next call
    std::string text = *what ? cat(what, ": ", describe(error)) : describe(error);
    if (bytes > 0) text += cat(" (", bytes, " bytes, ", free_bytes(), " free)");
    set_error(text);
    return code_of(error);
  }

  // The libraries have CUDA runtimes of their own, which keep the error: the stream knows whether
  // the device is lost.
  Code blame(const std::string& why) {
    cudaError_t error = recording_ ? cudaSuccess : cudaGetLastError();
    // A stream that records must not be asked.
    if (error == cudaSuccess && !recording_) error = cudaStreamQuery(stream_);
    if (error == cudaSuccess || error == cudaErrorNotReady) {
      set_error(why);
      return Code::kInternal;
    }
    set_error(cat(why, ": ", describe(error)));
    return code_of(error);
  }

  void prepare_kernels() {
    for (int k = 0; k < static_cast<int>(Kernel::kCount); ++k) {
      const auto kernel = static_cast<Kernel>(k);
      const void* const address = kernel_address(kernel);
      const int bytes = block_shape(kernel).shared_bytes;
      if (!address || (for_hopper(kernel) && !properties_.hopper)) continue;
      // Loads the kernel; its first launch would do it otherwise.
      cudaFuncAttributes attributes{};
      cudaFuncGetAttributes(&attributes, address);
      cudaGetLastError();
      // Compiled from PTX for an older target it would not wait (block_cuda.cuh).
      overlaps_[static_cast<size_t>(k)] = attributes.ptxVersion >= 90;
      if (bytes == 0 && attributes.ptxVersion < 90) continue;
      // A wish: two blocks fit side by side only where the cache leaves them the room. The same of
      // all kernels where they overlap: a processor that divides its memory anew has to be empty.
      cudaFuncSetAttribute(address, cudaFuncAttributePreferredSharedMemoryCarveout,
                           cudaSharedmemCarveoutMaxShared);
      cudaGetLastError();
      if (bytes == 0) continue;
      must(cudaFuncSetAttribute(address, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
           "shared memory of the attention kernels");
    }
  }

  // Of the larger decoding kernel; none where it does not run.
  void count_clusters() {
    if (!properties_.hopper) return;
    constexpr Kernel kLarger = Kernel::kAttentionDecode128;
    for (int i = 0; i < kMaxCluster; ++i) {
      LaunchShape shape(command_of(kLarger, i + 1, 1, DecodeKernelArgs{}, 0, i + 1), stream_);
      shape.config.numAttrs = 1;
      if (cudaOccupancyMaxActiveClusters(&properties_.clusters[i], kernel_address(kLarger),
                                         &shape.config) != cudaSuccess)
        properties_.clusters[i] = 0;
      cudaGetLastError();
    }
  }

  bool is_pinned(const void* host, size_t bytes) const {
    const auto* const at = static_cast<const unsigned char*>(host);
    const auto after = pinned_.upper_bound(at);
    if (after == pinned_.begin()) return false;
    const auto& [begin, size] = *std::prev(after);
    return at + bytes <= begin + size;
  }

  void make_ring() {
    for (cudaEvent_t& event : ring_events_)
      must(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "an event");
    constexpr size_t kBytes = UploadRing<CudaRuntime>::kSlots * kRingSlotBytes;
    must(cudaMallocHost(&ring_memory_, kBytes), "cudaMallocHost", kBytes);
    ring_ = std::make_unique<UploadRing<CudaRuntime>>(static_cast<unsigned char*>(ring_memory_),
                                                      kRingSlotBytes);
  }

  Code gemm_slow(const GemmArgs& args) {
    // The second dimension of a grid ends at 65535.
    constexpr int64_t kRows = 32768;
    for (int64_t row = 0; row < args.rows; row += kRows) {
      GemmArgs part = args;
      part.x =
          static_cast<const unsigned char*>(args.x) + row * args.ld_x * element_bytes(args.element);
      part.y = static_cast<unsigned char*>(args.y) +
               row * args.ld_y * element_bytes(element_of(args.output, args.element));
      part.rows = args.rows - row < kRows ? args.rows - row : kRows;
      const int64_t blocks = (args.n + kRowThreads - 1) / kRowThreads;
      const Code code = launch(command_of(Kernel::kGemmSlow, blocks, part.rows, part));
      if (code != Code::kOk) return code;
    }
    return Code::kOk;
  }

  std::recursive_mutex mutex_;  // calls use one another
  const int32_t device_;
  Contexts contexts_ = {nullptr, nullptr, use_device};
  void* own_ = nullptr;  // the device's context
  cudaStream_t stream_ = nullptr;
  Properties properties_;
  CublasLt cublas_;
  void* workspace_ = nullptr;
  std::map<const unsigned char*, size_t> pinned_;
  std::thread::id engine_;                                   // that launches
  bool overlaps_[static_cast<size_t>(Kernel::kCount)] = {};  // those that wait for the one before
  bool recording_ = false;
  int32_t next_graph_ = 0;
  std::map<int32_t, cudaGraphExec_t> graphs_;
  void* ring_memory_ = nullptr;
  cudaEvent_t ring_events_[UploadRing<CudaRuntime>::kSlots] = {};
  std::unique_ptr<UploadRing<CudaRuntime>> ring_;
};

void say(char* why, size_t bytes, const std::string& text) {
  if (bytes > 0) std::snprintf(why, bytes, "%s", text.c_str());
}

bool succeeds(cudaError_t error, char* why, size_t why_bytes) {
  if (error == cudaSuccess) return true;
  cudaGetLastError();
  say(why, why_bytes, describe(error));
  return false;
}

int32_t count_devices(char* why, size_t why_bytes) {
  int count = 0;
  return succeeds(cudaGetDeviceCount(&count), why, why_bytes) ? count : -1;
}

bool describe_device(int32_t device, Properties* out, char* why, size_t why_bytes) {
  return succeeds(read_properties(device, *out), why, why_bytes);
}

Runtime* open_runtime(int32_t device, bool invariant, Code* code, char* why, size_t why_bytes) {
  try {
    auto runtime = std::make_unique<CudaRuntime>(device);
    runtime->open(invariant);
    *code = Code::kOk;
    return runtime.release();
  } catch (const Error& e) {
    *code = e.code();
    say(why, why_bytes, e.message());
  } catch (const std::exception& e) {
    *code = Code::kInternal;
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
