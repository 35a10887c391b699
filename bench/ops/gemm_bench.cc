// GEMM speed of every CPU level, as a share of what the level's multiply-add reaches on registers
// in the same run. One JSON object per line.
//
//   gemm_bench [--isa name] [--dtype bf16|f32|int8] [--threads n] [--quick]
//
// Other load and clock changes move all figures of a shared machine, so the peak is measured again
// before each shape, and both take the best of several repetitions.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "measure.h"
#include "ops/cpu/pack.h"
#include "ops/op_cpu.h"
#ifdef PREFIX_WITH_ONEDNN
#include "ops/onednn/onednn_gemm.h"
#endif

namespace {

using prefix::bench::best_time;
using prefix::bench::measure_peak;
using prefix::ops::ActivationBuffer;
using prefix::ops::CpuDevice;
using prefix::ops::CpuOptions;
using prefix::ops::PackedWeights;
using prefix::ops::WeightFormat;

struct Arguments {
  std::string isa;  // empty: all that run here
  std::string dtype = "bf16";
  std::vector<int> threads = {1, 2};
  std::vector<int64_t> rows = {1, 16, 64, 96, 256, 1024, 4092};
};

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
    std::printf(
        "{\"bench\":\"gemm\",\"engine\":\"%s\",\"isa\":\"%s\",\"dtype\":\"%s\",\"threads\":%d,"
        "\"layer\":\"%s\",\"m\":%lld,\"k\":%lld,\"n\":%lld,\"gflops\":%.1f,\"peak_gflops\":%.1f,"
        "\"share\":%.3f}\n",
        engine.c_str(), std::string(device_.isa()).c_str(),
        w_.format == WeightFormat::kInt8   ? "int8"
        : w_.format == WeightFormat::kBf16 ? "bf16"
                                           : "f32",
        device_.context().threads->count(), layer_.name, static_cast<long long>(rows),
        static_cast<long long>(layer_.k), static_cast<long long>(layer_.n), flops * 1e-9,
        peak * 1e-9, flops / peak);
    std::fflush(stdout);
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

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    const auto value = [&]() -> std::string { return i + 1 < argc ? argv[++i] : ""; };
    if (option == "--isa") {
      arguments.isa = value();
    } else if (option == "--dtype") {
      arguments.dtype = value();
    } else if (option == "--threads") {
      arguments.threads = {std::stoi(value())};
    } else if (option == "--quick") {
      arguments.rows = {96, 256};
    } else {
      std::fprintf(stderr, "unknown option %s\n", option.c_str());
      std::exit(2);
    }
  }
  return arguments;
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse(argc, argv);
  for (const prefix::ops::IsaLevel& level : prefix::ops::cpu_isa_levels()) {
    if (!arguments.isa.empty() && level.name != arguments.isa) continue;
    if (!level.available) {
      std::printf("{\"bench\":\"gemm\",\"isa\":\"%s\",\"skipped\":\"%s\"}\n",
                  std::string(level.name).c_str(), std::string(level.reason).c_str());
      continue;
    }
    for (const int threads : arguments.threads) {
      CpuOptions options;
      options.isa = level.name;
      options.types = arguments.dtype == "f32" ? prefix::ops::kF32Types : prefix::ops::kBf16Types;
      options.types.int8 = arguments.dtype == "int8" ? prefix::ops::kInt8All : 0;
      options.threads = std::make_shared<prefix::Threads>(threads);
      CpuDevice device(options);
      // oneDNN chooses its own instructions: once, next to our choice, unless a level was named.
      const bool compare = level.chosen || !arguments.isa.empty();
      const int64_t max_rows = arguments.rows.back();
      for (const Layer& layer : kLayers) {
        LayerBench bench(device, layer, max_rows, compare);
        for (const int64_t rows : arguments.rows) bench.run(rows);
      }
    }
  }
  return 0;
}
