#include "abi/entry.h"
#include "base/resources.h"
#include "ops/devices.h"
#include "ops/op.h"

extern "C" {

size_t prefix_device_count(void) {
  size_t count = 0;
  prefix::abi::guard("prefix_device_count", nullptr, [&] {
    count = prefix::ops::cpu_isa_levels().size();
    count += prefix::ops::gpu_devices().size();
  });
  return count;
}

prefix_status prefix_device_info(size_t index, prefix_device_details* out, prefix_error* err) {
  return prefix::abi::guard("prefix_device_info", err, [&] {
    const auto levels = prefix::ops::cpu_isa_levels();
    const auto& gpus = prefix::ops::gpu_devices();
    if (index >= levels.size() + gpus.size())
      prefix::fail(prefix::Code::kOutOfRange, "device ", index, "; there are ",
                   levels.size() + gpus.size());
    if (index >= levels.size()) {
      const prefix::ops::GpuInfo& gpu = gpus[index - levels.size()];
      prefix_device_details d{};
      d.available = gpu.reason.empty();
      d.threads = gpu.processors;
      d.total_bytes = gpu.total_bytes;
      d.kind = "cuda";
      d.level = gpu.level.c_str();
      d.reason = gpu.reason.c_str();
      prefix::abi::struct_out(d, out);
      return;
    }
    const prefix::ops::IsaLevel& level = levels[index];
    prefix_device_details d{};
    d.available = level.available;
    d.chosen = level.chosen;
    const prefix::Resources here = prefix::resources();
    d.threads = here.processors;
    d.total_bytes = here.total_bytes;
    d.free_bytes = here.available_bytes;
    d.kind = "cpu";
    d.level = level.name.data();
    d.reason = level.reason.data();
    prefix::abi::struct_out(d, out);
  });
}

}  // extern "C"
