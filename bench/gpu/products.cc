// PackedWeights products of the layers of Qwen3 models.
#include "../line.h"
#include "benches.h"
#include "blocker.h"
#include "device_memory.h"
#include "timing.h"

namespace prefix::bench {
namespace {

constexpr Product kProducts[] = {
    {"0.6B", "qkv", 4096, 1024},     {"0.6B", "o", 1024, 2048, true},
    {"0.6B", "gate up", 6144, 1024}, {"0.6B", "down", 1024, 3072, true},
    {"4B", "qkv", 6144, 2560},       {"4B", "o", 2560, 4096, true},
    {"4B", "gate up", 19456, 2560},  {"4B", "down", 2560, 9728, true},
    {"8B", "qkv", 6144, 4096},       {"8B", "o", 4096, 4096, true},
    {"8B", "gate up", 24576, 4096},  {"8B", "down", 4096, 12288, true},
};

}  // namespace

std::span<const Product> products() { return kProducts; }

void bench_product(ops::Device& device, const Product& product, int64_t rows,
                   const Blocker& blocker, const Effort& effort) {
  ops::PackedWeights shape;
  shape.n = product.n;
  shape.k = shape.k_padded = product.k;
  const Rotation weights(device, shape.bytes(), effort.cold_bytes);
  const int64_t ld = device.act_ld(product.k);
  const Memory x(device, static_cast<size_t>(rows * ld) * 2),
      y(device, static_cast<size_t>(rows * product.n) * 4, false);
  const auto product_with = [&](const std::byte* data) {
    ops::PackedWeights w = shape;
    w.data = data;
    if (product.adds) {  // as a step has them
      device.linear(w, nullptr, {x.data(), ld}, rows, reinterpret_cast<float*>(y.data()), product.n,
                    true);
    } else {
      device.project(w, nullptr, {x.data(), ld}, rows, y.data(), product.n);
    }
  };
  const DeviceClock clock([&] { blocker.start(); },
                          [&] {
                            char last[4];
                            device.download(last, y.data(), sizeof last);
                          },
                          effort.repeats, effort.budget_us);
  const Times cold = clock.measure([&](int i) { product_with(weights[i]); });
  const double flops = 2.0 * static_cast<double>(rows) * static_cast<double>(product.n * product.k);
  Line line("gemm", device_name(device));
  line.field("model", product.model).field("layer", product.layer).field("rows", rows);
  line.field("n", product.n).field("k", product.k).field("us", cold.us);
  line.field("us_wall", cold.wall_us).field("launch_bound", cold.launch_bound);
  line.field("tflops", flops / cold.us * 1e-6).print();
}

}  // namespace prefix::bench
