// The devices that there are: the CPU, then the GPUs, each with the reason why it cannot be used.
#include "abi/entry.h"
#include "base/processors.h"
#include "base/resources.h"
#include "ops/devices.h"
#include "ops/op.h"

namespace {

prefix_device_details details_of(const prefix::ops::GpuInfo& gpu) {
  prefix_device_details d{};
  d.available = gpu.reason.empty();
  d.threads = gpu.processors;
  d.total_bytes = gpu.total_bytes;
  d.kind = "cuda";
  d.level = gpu.level.c_str();
  d.reason = gpu.reason.c_str();
  d.name = gpu.name.c_str();
  return d;
}

prefix_device_details details_of_cpu() {
  static const auto* const name = new std::string(prefix::processor_name());  // handed out for good
  prefix_device_details d{};
  d.available = 1;  // some level always is
  d.chosen = 1;
  const prefix::Resources here = prefix::resources();
  d.threads = here.processors;
  d.total_bytes = here.total_bytes;
  d.free_bytes = here.available_bytes;
  d.kind = "cpu";
  for (const prefix::ops::IsaLevel& level : prefix::ops::cpu_isa_levels())
    if (level.chosen) d.level = level.name.data();
  d.reason = "";
  d.name = name->c_str();
  return d;
}

}  // namespace

extern "C" {

size_t prefix_device_count(void) {
  size_t count = 0;
  prefix::abi::guard("prefix_device_count", nullptr,
                     [&] { count = 1 + prefix::ops::gpu_devices().size(); });
  return count;
}

prefix_status prefix_device_info(size_t index, prefix_device_details* out, prefix_error* err) {
  return prefix::abi::guard("prefix_device_info", err, [&] {
    const auto& gpus = prefix::ops::gpu_devices();
    if (index > gpus.size())
      prefix::fail(prefix::Code::kOutOfRange, "device ", index, "; there are ", 1 + gpus.size());
    prefix::abi::struct_out(index == 0 ? details_of_cpu() : details_of(gpus[index - 1]), out);
  });
}

}  // extern "C"
