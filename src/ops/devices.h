// Devices by name: "cpu", "cuda", "cuda:1".
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/threads.h"
#include "ops/op.h"

namespace prefix::ops {

namespace gpu {
class Runtime;
struct Properties;
}  // namespace gpu

// Kernels of attention where a GPU of compute capability 9.0 has two: kMma runs everywhere, kHopper
// there only and not with `invariant`. kAuto takes kHopper where it may.
enum class CudaAttention { kAuto, kMma, kHopper };
// auto, mma, hopper: the values of option cuda_attention.
CudaAttention cuda_attention_of(std::string_view name);

struct DeviceOptions {
  std::string name = "cpu";
  NumericTypes types;
  std::string isa = "auto";
  std::shared_ptr<Threads> threads;  // null: the calling thread alone
  bool invariant = false;
  bool cuda_graphs = true;
  CudaAttention small_steps = CudaAttention::kAuto;  // by clusters of blocks
  CudaAttention wide_items = CudaAttention::kAuto;   // by warpgroups
  int32_t workers = 1;                               // CpuOptions
  InputObserver* observer = nullptr;                 // CpuOptions
};

// What is known of the device that these options make, without making it. Of a GPU that is not
// there: of an H200.
std::unique_ptr<DeviceSizes> device_sizes(const DeviceOptions& options);

// GPUs have names up to cuda:63.
constexpr int kMaxDevices = 64;

// Whether a device could have this name.
bool is_device_name(std::string_view name);

// Throws kUnsupportedDevice naming what is missing: an instruction set, the plugin, the driver, the
// device.
std::unique_ptr<Device> make_device(const DeviceOptions& options);

// The GPUs that libprefix_cuda.so finds, looked for once; none without it or without a driver.
struct GpuInfo {
  std::string name;   // "NVIDIA H200"
  std::string level;  // "sm_90"
  int32_t processors = 0;
  int64_t total_bytes = 0;
  std::string reason;  // why no engine can run on it; empty when one can
};
const std::vector<GpuInfo>& gpu_devices();
GpuInfo gpu_info(const gpu::Properties& properties);
// Of the device of this name; without it, one of unknown size with as many processors as an H200.
GpuInfo gpu_of(std::string_view name);

// Tests put a runtime of their own in place of libprefix_cuda.so; an empty function undoes it.
using RuntimeOpener = std::function<std::unique_ptr<gpu::Runtime>(int index, bool invariant)>;
void replace_gpu_runtime(RuntimeOpener opener);

}  // namespace prefix::ops
