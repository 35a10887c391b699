// Other load and clock changes move all figures of a shared machine, so the peak is measured again
// before each shape, and both take the best of several repetitions.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "levels.h"
#include "measure.h"
#include "ops/cpu/pack.h"
#include "ops/op_cpu.h"
#ifdef PREFIX_WITH_ONEDNN
#include "ops/onednn_gemm.h"
#endif

namespace {

using prefix::bench::best_time;
using prefix::bench::measure_peak;
using prefix::ops::ActivationBuffer;
using prefix::ops::CpuDevice;
using prefix::ops::CpuOptions;
using prefix::ops::PackedWeights;
using prefix::ops::WeightFormat;

struct Layer {
  const char* name;
  int64_t k, n;
};

constexpr Layer kLayers[] = {
    {"qwen3-0.6b qkv", 1024, 4096},     {"qwen3-0.6b out", 2048, 1024},
    {"qwen3-0.6b gate+up", 1024, 6144}, {"qwen3-0.6b down", 3072, 1024},
    {"qwen3-4b qkv", 2560, 6144},       {"qwen3-4b out", 4096, 2560},
    {"qwen3-4b gate+up", 2560, 19456},  {"qwen3-4b down", 9728, 2560},
};

void fill(std::vector<float>& v) {
  std::minstd_rand random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (float& x : v) x = uniform(random);
}

const float* row_of(const std::vector<float>& values, int64_t row, int64_t k) {
  return values.data() + row % 64 * k;
}

// The weights of a layer: 64 random rows, repeated.
class Rows final : public prefix::ops::WeightSource {
 public:
  Rows(const Layer& layer, const std::vector<float>& values) : k_(layer.k), values_(values) {}
  prefix::ops::TensorType type(int64_t) const override { return prefix::ops::TensorType::kF32; }
  void read(int64_t row, std::byte* out) const override {
    std::memcpy(out, row_of(values_, row, k_), static_cast<size_t>(k_) * sizeof(float));
  }

 private:
  int64_t k_;
  const std::vector<float>& values_;
};

// The weights and inputs of a layer, inputs from the same rows.
class LayerBench {
 public:
  LayerBench(CpuDevice& device, const Layer& layer, int64_t max_rows, bool compare)
      : device_(device),
        layer_(layer),
        compare_(compare),
        values_(static_cast<size_t>(layer.k) * 64),
        y_(static_cast<size_t>(max_rows * layer.n)) {
    fill(values_);
    w_ = device.pack(device.types().format(prefix::ops::MatrixKind::kDown), layer.n, layer.k,
                     Rows(layer, values_));
    x_.ld = device.act_ld(layer.k);
    x_bytes_ = static_cast<size_t>(x_.ld * max_rows) * device.act_bytes();
    x_.data = device.allocate(x_bytes_);
    const std::vector<float> x = rows_of(max_rows);
    device.convert(x.data(), layer.k, max_rows, layer.k, x_);
  }
  LayerBench(const LayerBench&) = delete;
  LayerBench& operator=(const LayerBench&) = delete;
  ~LayerBench() {
    device_.release(x_.data, x_bytes_);
    device_.release(const_cast<std::byte*>(w_.data), w_.bytes());
  }

  void run(int64_t rows) {
    const double flop = 2.0 * static_cast<double>(rows * layer_.k * layer_.n);
    double peak = measure_peak(device_, w_.format);
    const double budget = std::clamp(flop / peak * 10, 0.1, 1.0);
    const double time = best_time(budget, [&] { multiply(rows); });
    peak = std::max(peak, measure_peak(device_, w_.format));
    print("libprefix", rows, flop / time, peak);
#ifdef PREFIX_WITH_ONEDNN
    if (!compare_ || w_.format == WeightFormat::kInt8) return;
    prefix::ops::OnednnGemm other(device_.types().weights, rows, layer_.n, layer_.k, rows_of(rows),
                                  rows_of(layer_.n));
    const int threads = device_.context().threads->count();
    const double other_time = best_time(budget, [&] { other.run(threads); });
    print("onednn " + other.implementation(), rows, flop / other_time, peak);
#endif
  }

 private:
  std::vector<float> rows_of(int64_t count) const {
    std::vector<float> rows;
    rows.reserve(static_cast<size_t>(count * layer_.k));
    for (int64_t r = 0; r < count; ++r) {
      const float* const row = row_of(values_, r, layer_.k);
      rows.insert(rows.end(), row, row + layer_.k);
    }
    return rows;
  }
  void multiply(int64_t rows) { device_.linear(w_, nullptr, x_, rows, y_.data(), layer_.n, false); }
  void print(const std::string& engine, int64_t rows, double flops, double peak) const {
    prefix::bench::Line line("gemm");
    line.field("engine", engine).field("isa", device_.isa());
    line.field("dtype", w_.format == WeightFormat::kInt8   ? "int8"
                        : w_.format == WeightFormat::kBf16 ? "bf16"
                                                           : "f32");
    line.field("threads", device_.context().threads->count()).field("layer", layer_.name);
    line.field("m", rows).field("k", layer_.k).field("n", layer_.n);
    line.field("gflops", flops * 1e-9).field("peak_gflops", peak * 1e-9);
    line.field("share", flops / peak).print();
  }

  CpuDevice& device_;
  const Layer layer_;
  [[maybe_unused]] const bool compare_;
  std::vector<float> values_;
  std::vector<float> y_;
  PackedWeights w_;
  ActivationBuffer x_;
  size_t x_bytes_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  prefix::bench::Levels levels;
  std::string dtype = "bf16";
  bool quick = false;
  prefix::bench::Program program(
      "gemm_bench",
      "matrix products of the layers of two models: GFLOP/s (GOP/s of int8), and their share of the\n"
      "peak that multiply-adds on registers reach in the same run",
      "--isa auto --threads 1 --quick");
  levels.add_options(program);
  program.choice("--dtype", "bf16|f32|int8", "what is multiplied", dtype);
  program.flag("--quick", "96 and 256 rows only, in place of 1 to 4,092", quick);
  return program.run(argc, argv, [&] {
    const std::vector<int64_t> row_counts =
        quick ? std::vector<int64_t>{96, 256}
              : std::vector<int64_t>{1, 16, 64, 96, 256, 1024, 4092};
    levels.each("gemm", [&](const prefix::ops::IsaLevel& level) {
      for (const int threads : levels.threads) {
        CpuOptions options;
        options.isa = level.name;
        options.types = dtype == "f32" ? prefix::ops::kF32Types : prefix::ops::kBf16Types;
        options.types.int8 = dtype == "int8" ? prefix::ops::kInt8All : 0;
        options.threads = std::make_shared<prefix::Threads>(threads);
        CpuDevice device(options);
        // oneDNN chooses its own instructions: once, next to our choice, unless a level was named.
        const bool compare = level.chosen || !levels.isa.empty();
        for (const Layer& layer : kLayers) {
          LayerBench bench(device, layer, row_counts.back(), compare);
          for (const int64_t rows : row_counts) bench.run(rows);
        }
      }
    });
  });
}
