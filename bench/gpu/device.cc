// What the device is: figures are read beside it.
#include <cstdio>

#include "base/json_text.h"
#include "base/status.h"
#include "benches.h"
#include "ops/op_gpu.h"

namespace prefix::bench {

void bench_device(ops::Device& device) {
  auto* const gpu = dynamic_cast<ops::GpuDevice*>(&device);
  PREFIX_CHECK(gpu != nullptr);
  const ops::gpu::Properties& p = gpu->runtime().properties();
  JsonText json;
  json.open('{').field("bench", "device").field("name", std::string_view(p.name));
  json.field("capability", p.capability).field("processors", p.processors);
  json.field("total_bytes", p.total_bytes).field("gemm_version", p.gemm_version);
  json.list("clusters", p.clusters).close('}');
  std::printf("%s\n", json.text().c_str());
  std::fflush(stdout);
}

}  // namespace prefix::bench
