// What the device is: figures are read beside it.
#include "../line.h"
#include "base/status.h"
#include "benches.h"
#include "ops/op_gpu.h"

namespace prefix::bench {

namespace {

const ops::gpu::Properties& properties_of(ops::Device& device) {
  auto* const gpu = dynamic_cast<ops::GpuDevice*>(&device);
  PREFIX_CHECK(gpu != nullptr);
  return gpu->runtime().properties();
}

}  // namespace

std::string device_name(ops::Device& device) { return properties_of(device).name; }

void bench_device(ops::Device& device) {
  const ops::gpu::Properties& p = properties_of(device);
  Line line("device", p.name);
  line.field("name", std::string_view(p.name));
  line.field("capability", p.capability).field("processors", p.processors);
  line.field("total_bytes", p.total_bytes).field("gemm_version", p.gemm_version);
  line.list("clusters", p.clusters).print();
}

}  // namespace prefix::bench
