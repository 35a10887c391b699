// What a GPU gives to the device layer: memory, copies, kernels and matrix products, in the order
// of one stream.
//
//   src/ops/gpu   plans the step, stages it, launches       (libprefix.so, knows no CUDA)
//      │ Runtime
//      ├── kernels/runtime_cuda.cc  in libprefix_cuda.so, opened at run time
//      └── tests/kernels/emulator   the same launches on the CPU, block by block
//
// Nothing throws: a call returns a Code, and error() says what happened. Launches and products come
// from one thread; memory may be copied and released from others at the same time (snapshots,
// tiers).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "base/status.h"
#include "ops/gpu/launch.h"

namespace prefix::ops::gpu {

struct Properties {
  char name[128] = {};     // "NVIDIA H200"
  int32_t capability = 0;  // 90 for sm_90
  int32_t processors = 1;  // streaming multiprocessors
  int64_t total_bytes = 0;
  int64_t gemm_version = 0;  // of the library that multiplies matrices; decides bits
  bool hopper = false;       // runs the kernels for sm_90a
  // [n - 1]: clusters of n blocks of kAttentionDecode that run at once. Parts of a die have
  // different numbers of processors: an H200 has 132, but as a rule 15 clusters of eight, not 16.
  int32_t clusters[kMaxCluster] = {};
};

// A launch or a product with a copy of its arguments.
struct Command {
  static constexpr Kernel kGemm = Kernel::kCount;
  Kernel kernel = kGemm;
  uint32_t grid_x = 0, grid_y = 0, threads = 0, shared_bytes = 0, arg_bytes = 0;
  uint32_t cluster = 1;  // blocks along x that run together and read each other's shared memory
  uint32_t unused = 0;
  alignas(16) unsigned char args[256] = {};
};
// No padding: commands are compared and hashed byte by byte.
static_assert(std::has_unique_object_representations_v<Command>);

// Bytes of arguments that have been set: those behind the last member are chance.
template <typename Args>
constexpr size_t known_bytes() {
  if constexpr (requires(Args& args) { args.element; }) {
    constexpr size_t kEnd = offsetof(Args, element) + sizeof(Element);
    static_assert(sizeof(Args) - kEnd < alignof(Args), "element is the last member");
    return kEnd;
  }
  return sizeof(Args);
}
// A grid of x * y blocks. `shared_bytes`: beside what the kernel always has.
template <typename Args>
Command command_of(Kernel kernel, int64_t x, int64_t y, const Args& args, int shared_bytes = 0,
                   int cluster = 1) {
  static_assert(sizeof(Args) <= sizeof Command::args);
  const BlockShape block = block_shape(kernel);
  Command c;
  c.kernel = kernel;
  c.grid_x = static_cast<uint32_t>(x);
  c.grid_y = static_cast<uint32_t>(y);
  c.threads = static_cast<uint32_t>(block.threads);
  c.shared_bytes = static_cast<uint32_t>(block.shared_bytes + shared_bytes);
  c.arg_bytes = sizeof(Args);
  c.cluster = static_cast<uint32_t>(cluster);
  std::memcpy(c.args, &args, known_bytes<Args>());
  return c;
}
inline Command command_of(const GemmArgs& args) { return command_of(Command::kGemm, 0, 0, args); }
inline GemmArgs gemm_of(const Command& c) {
  GemmArgs args;
  std::memcpy(&args, c.args, sizeof args);
  return args;
}

// The first with tensor cores for bf16 and with cp.async.
inline constexpr int32_t kOldestCapability = 80;

class Runtime {
 public:
  virtual ~Runtime() = default;

  virtual const Properties& properties() const = 0;
  // Of this thread's last call that did not return kOk.
  virtual const char* error() const = 0;
  virtual int64_t free_bytes() = 0;

  // Zeroed, 256-byte aligned. release() waits for the work that may use the memory.
  virtual Code allocate(size_t bytes, void** out) = 0;
  virtual void release(void* data) = 0;
  // Host memory that copies asynchronously.
  virtual Code allocate_pinned(size_t bytes, void** out) = 0;
  virtual void release_pinned(void* data) = 0;

  // In stream order. upload from pinned memory returns at once, and the source must stay as it is
  // until synchronize(); from other memory it is read before the call returns. download waits.
  virtual Code upload(void* device, const void* host, size_t bytes) = 0;
  virtual Code download(void* host, const void* device, size_t bytes) = 0;
  // The same into pinned memory, which is written when synchronize() or another download returns.
  virtual Code begin_download(void* pinned, const void* device, size_t bytes) = 0;
  virtual Code launch(const Command& command) = 0;
  virtual Code gemm(const GemmArgs& args) = 0;
  // This thread is the engine's and launches from now on: the device may stay current on it.
  virtual void bind_thread() {}
  // Does once what the first such product would have to do. y may be written; a failure is not
  // returned, the product will fail again.
  virtual void prepare_gemm(const GemmArgs&) {}
  virtual Code synchronize() = 0;

  // Keeps commands, without running them, to be run in this order by one call. Not every runtime
  // can.
  virtual Code record(std::span<const Command>, int32_t* /*graph*/) { return Code::kInternal; }
  virtual Code replay(int32_t) { return Code::kInternal; }
  virtual void forget(int32_t) {}
};

// Throws what a call of the runtime answered.
inline void check(Runtime& runtime, Code code, const char* what) {
  if (code != Code::kOk) fail(code, what, ": ", runtime.error());
}
// As command_of(); no block is no launch.
template <typename Args>
void launch(Runtime& runtime, Kernel kernel, int64_t x, int64_t y, const Args& args,
            int shared_bytes = 0, int cluster = 1) {
  if (x == 0 || y == 0) return;
  check(runtime, runtime.launch(command_of(kernel, x, y, args, shared_bytes, cluster)), "launch");
}

// The entry points of libprefix_cuda.so. Each writes why it failed, zero-terminated, into `why`.
// The number of devices, or -1.
using CountDevices = int32_t (*)(char* why, size_t why_bytes);
using DescribeDevice = bool (*)(int32_t device, Properties* out, char* why, size_t why_bytes);
// Null when it failed; `code` then says how.
using OpenRuntime = Runtime* (*)(int32_t device, bool invariant, Code* code, char* why,
                                 size_t why_bytes);
struct PluginEntry {
  CountDevices count;
  DescribeDevice describe;
  OpenRuntime open;
};
inline constexpr char kPluginEntry[] = "prefix_cuda_entry";

}  // namespace prefix::ops::gpu
