// Attention, matrix products, whole prefills and decoding on a GPU: what tools/gpu_check prints and compares
// with other libraries.
//
// Times are medians: "us" on the device with cold caches, "us_hot" over the same pages again and again,
// "us_wall" with launching.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "../line.h"
#include "../program.h"
#include "base/status.h"
#include "benches.h"
#include "blocker.h"
#include "ops/devices.h"

namespace {

using namespace prefix;  // a program, not a header

std::unique_ptr<ops::Device> gpu(const char* attention = "auto") {
  const ops::CudaAttention kernels = ops::cuda_attention_of(attention);
  return ops::make_device(
      {"cuda", ops::kBf16Types, "auto", nullptr, false, false, kernels, kernels});
}

void attention(const std::string& only, const char* kernel) {
  const auto device = gpu(kernel);
  const bench::Blocker blocker(*device, {});
  for (const bench::AttentionCase& c : bench::attention_cases()) {
    if (std::string(c.name).find(only) == std::string::npos) continue;
    bench::bench_attention(*device, c, true, blocker, {}, kernel);
    if (c.rows == 1) bench::bench_attention(*device, c, false, blocker, {}, kernel);
  }
}

void gemm() {
  const auto device = gpu();
  const bench::Blocker blocker(*device, {});
  for (const int64_t rows : {4096, 8192, 16384, 1024, 64})
    for (const bench::Product& product : bench::products())
      bench::bench_product(*device, product, rows, blocker);
}

}  // namespace

int main(int argc, char** argv) {
  bool device = false, mma = false, hopper = false, products = false;
  std::string only;
  std::vector<std::string> models;
  bench::Program program(
      "gpu_bench",
      "a GPU: microseconds of attention (TFLOP/s, GB/s) and of matrix products, milliseconds of whole\n"
      "batches; without options --attention and --gemm, without a GPU a line that says why not",
      "--device");
  program.flag("--device", "what the device is", device);
  program.flag("--attention", "attention by the kernels of all devices", mma);
  program.flag("--hopper", "attention by those of compute capability 9.0", hopper);
  program.option("--shape", "TEXT", "only shapes of attention with that text in their name", only);
  program.flag("--gemm", "matrix products", products);
  program.option("--engine", "SHAPE",
                 "batches of such a model, as prefix-random-checkpoint takes it",
                 [&](const std::string& model) { models.push_back(model); });
  return program.run(argc, argv, [&] {
    if (!device && !mma && !hopper && !products && models.empty()) mma = products = true;
    try {
      if (device) bench::bench_device(*gpu());
      if (mma) attention(only, "mma");
      if (hopper) attention(only, "hopper");
      if (products) gemm();
      for (const std::string& model : models) {
        gpu();  // before gigabytes are written
        bench::bench_engine(model);
      }
    } catch (const Error& e) {
      if (e.code() != Code::kUnsupportedDevice) throw;
      bench::Line("gpu").field("not_run", e.message()).print();
    }
  });
}
