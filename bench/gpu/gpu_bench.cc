// Attention, matrix products, whole prefills and decoding on a GPU: what tools/gpu_check prints and compares
// with other libraries. One JSON object per line.
//
//   gpu_bench [--device] [--shape TEXT] [--attention] [--hopper] [--gemm] [--engine MODEL_SHAPE]
//
// Without arguments: --attention --gemm. --shape keeps the attention shapes with that text in their
// name. Times are medians: "us" on the device with cold caches, "us_hot" over the same pages again
// and again, "us_wall" with launching. --hopper is --attention with the kernel for compute
// capability 9.0 (option cuda_attention).
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/json_text.h"
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

void refuse(const std::string& why) {
  JsonText json;
  json.open('{').field("bench", "gpu").field("not_run", why).close('}');
  std::printf("%s\n", json.text().c_str());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    std::vector<std::string> wanted(argv + 1, argv + argc);
    if (wanted.empty()) wanted = {"--attention", "--gemm"};
    std::string only;
    for (size_t i = 0; i < wanted.size(); ++i) {
      const bool more = i + 1 < wanted.size();
      if (wanted[i] == "--shape" && more) {
        only = wanted[++i];
      } else if (wanted[i] == "--device") {
        bench::bench_device(*gpu());
      } else if (wanted[i] == "--attention") {
        attention(only, "mma");
      } else if (wanted[i] == "--hopper") {
        attention(only, "hopper");
      } else if (wanted[i] == "--gemm") {
        gemm();
      } else if (wanted[i] == "--engine" && more) {
        gpu();  // before gigabytes are written
        bench::bench_engine(wanted[++i]);
      } else {
        std::fprintf(stderr, "gpu_bench: unknown argument %s\n", wanted[i].c_str());
        return 2;
      }
    }
    return 0;
  } catch (const Error& e) {
    if (e.code() == Code::kUnsupportedDevice) {
      refuse(e.message());
      return 0;
    }
    std::fprintf(stderr, "gpu_bench: %s\n", e.message().c_str());
    return 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "gpu_bench: %s\n", e.what());
    return 1;
  }
}
