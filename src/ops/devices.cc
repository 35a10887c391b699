#include "ops/devices.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/plugin.h"
#include "base/quote.h"
#include "base/status.h"
#include "ops/gpu/runtime.h"
#include "ops/op_gpu.h"

namespace prefix::ops {
namespace {

// The index of "cuda" or "cuda:N"; -1 when the name is neither.
int cuda_index(std::string_view name) {
  if (name == "cuda") return 0;
  if (!name.starts_with("cuda:")) return -1;
  name.remove_prefix(5);
  int index = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
  const bool number = error == std::errc() && end == name.data() + name.size();
  return number && index < kMaxDevices ? index : -1;
}

RuntimeOpener& replacement() {
  static auto* const opener = new RuntimeOpener;  // never destroyed: engines may outlive statics
  return *opener;
}

const gpu::PluginEntry* open_entry() {
  using Entry = const gpu::PluginEntry*();
  return reinterpret_cast<Entry*>(open_plugin("cuda", gpu::kPluginEntry))();
}

std::unique_ptr<gpu::Runtime> open_runtime(int index, bool invariant) {
  if (replacement()) return replacement()(index, invariant);
  const gpu::PluginEntry* entry = nullptr;
  try {
    entry = open_entry();
  } catch (const Error& e) {
    fail(Code::kUnsupportedDevice, "device=cuda: ", e.message());
  }
  char why[2048] = "";
  Code code = Code::kUnsupportedDevice;
  std::unique_ptr<gpu::Runtime> runtime(entry->open(index, invariant, &code, why, sizeof why));
  if (runtime) return runtime;
  // A device that is full or lost would do at another time.
  if (code != Code::kOutOfDeviceMemory && code != Code::kDeviceLost)
    code = Code::kUnsupportedDevice;
  fail(code, "device=cuda:", index, ": ", why);
}

}  // namespace

bool is_device_name(std::string_view name) { return name == "cpu" || cuda_index(name) >= 0; }

CudaAttention cuda_attention_of(std::string_view name) {
  if (name == "mma") return CudaAttention::kMma;
  if (name == "hopper") return CudaAttention::kHopper;
  PREFIX_CHECK(name == "auto");
  return CudaAttention::kAuto;
}

std::unique_ptr<Device> make_device(const DeviceOptions& options) {
  if (options.name == "cpu")
    return make_cpu_device({.types = options.types,
                            .isa = options.isa,
                            .threads = options.threads,
                            .workers = options.workers,
                            .observer = options.observer});
  const int index = cuda_index(options.name);
  if (index < 0) fail(Code::kUnsupportedDevice, "there is no device ", quote(options.name));
  return std::make_unique<GpuDevice>(open_runtime(index, options.invariant),
                                     GpuOptions{.types = options.types,
                                                .threads = options.threads,
                                                .invariant = options.invariant,
                                                .graphs = options.cuda_graphs,
                                                .small_steps = options.small_steps,
                                                .wide_items = options.wide_items});
}

std::unique_ptr<DeviceSizes> device_sizes(const DeviceOptions& options) {
  if (options.name == "cpu")
    return cpu_device_sizes({.types = options.types,
                             .isa = options.isa,
                             .threads = options.threads,
                             .workers = options.workers});
  const GpuInfo gpu = gpu_of(options.name);
  return std::make_unique<gpu::GpuSizes>(options.types, gpu.processors, gpu.total_bytes);
}

void replace_gpu_runtime(RuntimeOpener opener) { replacement() = std::move(opener); }

GpuInfo gpu_info(const gpu::Properties& p) {
  GpuInfo info{p.name, cat("sm_", p.capability), p.processors, p.total_bytes, ""};
  if (p.capability < gpu::kOldestCapability)
    info.reason =
        cat("compute capability ", p.capability / 10, ".", p.capability % 10, " is older than 8.0");
  return info;
}

const std::vector<GpuInfo>& gpu_devices() {
  static const auto* const devices = [] {
    auto* const list = new std::vector<GpuInfo>;  // its strings are handed out for good
    try {
      const gpu::PluginEntry* const entry = open_entry();
      char why[512] = "";
      const int32_t count = entry->count(why, sizeof why);
      for (int32_t i = 0; i < std::min(count, kMaxDevices); ++i) {
        gpu::Properties p;
        if (entry->describe(i, &p, why, sizeof why))
          list->push_back(gpu_info(p));
        else  // it keeps its place: the next one is cuda:(i + 1)
          list->push_back({"", "", 0, 0, why});
      }
    } catch (const Error&) {  // no plugin: no GPUs
    }
    return list;
  }();
  return *devices;
}

GpuInfo gpu_of(std::string_view name) {
  const int index = cuda_index(name);
  if (index >= 0 && replacement()) return gpu_info(open_runtime(index, false)->properties());
  const std::vector<GpuInfo>& all = gpu_devices();
  if (index >= 0 && index < static_cast<int>(all.size()) &&
      all[static_cast<size_t>(index)].processors > 0)
    return all[static_cast<size_t>(index)];
  return {"", "", 132, 0, ""};
}

}  // namespace prefix::ops
