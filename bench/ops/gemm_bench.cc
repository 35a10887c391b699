// GEMM speed of every CPU level, as a share of what the level's multiply-add reaches on registers
// in the same run. One JSON object per line.
//
//   gemm_bench [--isa name] [--dtype bf16|f32] [--threads n] [--quick]
//
// Other load and clock changes move all figures of a shared machine, so the peak is measured again
// before each shape, and both take the best of several repetitions.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "ops/cpu/pack.h"
#include "ops/op_cpu.h"
#ifdef PREFIX_WITH_ONEDNN
#include "ops/cpu/gemm_onednn.h"
#endif

namespace {

using prefix::ops::Act;
using prefix::ops::CpuDevice;
using prefix::ops::CpuOptions;
using prefix::ops::DType;
using prefix::ops::GemmKernels;
using prefix::ops::Matrix;

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Arguments {
  std::string isa;  // empty: all that run here
  std::string dtype = "bf16";
  std::vector<int> threads = {1, 2};
  bool quick = false;
};

// Best time of runs of `work` that together take at least `budget` seconds.
double best_time(double budget, const std::function<void()>& work) {
  work();
  double best = std::numeric_limits<double>::infinity();
  const double end = seconds() + budget;
  do {
    const double start = seconds();
    work();
    best = std::min(best, seconds() - start);
  } while (seconds() < end);
  return best;
}

// FLOP/s of all threads on registers.
double measure_peak(CpuDevice& device) {
  const GemmKernels& kernels = device.context().kernels->gemm;
  const auto peak = device.dtype() == DType::kBf16 ? kernels.peak_bf16 : kernels.peak_f32;
  const int threads = device.context().threads->count();
  kernels.begin();
  const double flop_per_iteration = peak(1000) / 1000;
  kernels.end();
  // About 2 ms at 100 GFLOP/s per call: long enough for the wake-up not to show.
  const auto iterations = static_cast<int64_t>(4e8 / flop_per_iteration);
  const double time = best_time(0.05, [&] {
    device.context().threads->run(threads, [&](int64_t, int) {
      kernels.begin();
      peak(iterations);
      kernels.end();
    });
  });
  return threads * flop_per_iteration * static_cast<double>(iterations) / time;
}

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
constexpr int64_t kRows[] = {1, 16, 64, 96, 256, 1024, 4092};

void fill(std::vector<float>& v) {
  std::minstd_rand random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (float& x : v) x = uniform(random);
}

void print(const char* engine, const CpuDevice& device, const char* dtype, const Layer& layer,
           int64_t rows, double flops, double peak) {
  std::printf(
      "{\"bench\":\"gemm\",\"engine\":\"%s\",\"isa\":\"%s\",\"dtype\":\"%s\",\"threads\":%d,"
      "\"layer\":\"%s\",\"m\":%lld,\"k\":%lld,\"n\":%lld,\"gflops\":%.1f,\"peak_gflops\":%.1f,"
      "\"share\":%.3f}\n",
      engine, std::string(device.isa()).c_str(), dtype, device.context().threads->count(),
      layer.name, static_cast<long long>(rows), static_cast<long long>(layer.k),
      static_cast<long long>(layer.n), flops * 1e-9, peak * 1e-9, flops / peak);
  std::fflush(stdout);
}

void bench_layer(CpuDevice& device, const Layer& layer, const Arguments& arguments) {
  std::vector<float> values(static_cast<size_t>(layer.k) * 64);
  fill(values);
  const Matrix w = device.pack(layer.n, layer.k, [&](int64_t row, float* out) {
    std::memcpy(out, values.data() + row % 64 * layer.k, static_cast<size_t>(layer.k) * 4);
  });
  const int64_t max_rows = arguments.quick ? 256 : 4092;
  Act x;
  x.ld = device.act_ld(layer.k);
  const size_t x_bytes = static_cast<size_t>(x.ld * max_rows) * device.act_bytes();
  x.data = device.allocate(x_bytes);
  for (int64_t r = 0; r < max_rows; ++r) {
    const float* row = values.data() + r % 64 * layer.k;
    std::byte* to = x.data + static_cast<size_t>(r * x.ld) * device.act_bytes();
    for (int64_t i = 0; i < layer.k; ++i) {
      if (device.act_bytes() == 2) {
        reinterpret_cast<uint16_t*>(to)[i] = prefix::ops::bf16_from_f32(row[i]);
      } else {
        reinterpret_cast<float*>(to)[i] = row[i];
      }
    }
  }
  std::vector<float> y(static_cast<size_t>(max_rows * layer.n));
  const char* dtype = device.dtype() == DType::kBf16 ? "bf16" : "f32";
  for (const int64_t rows : kRows) {
    if (rows > max_rows) continue;
    if (arguments.quick && rows != 96 && rows != 256) continue;
    const double flop = 2.0 * static_cast<double>(rows * layer.k * layer.n);
    const double peak = measure_peak(device);
    const double budget = std::clamp(flop / peak * 10, 0.1, 1.0);
    const double time =
        best_time(budget, [&] { device.linear(w, nullptr, x, rows, y.data(), layer.n, false); });
    print("libprefix", device, dtype, layer, rows, flop / time,
          std::max(peak, measure_peak(device)));
#ifdef PREFIX_WITH_ONEDNN
    if (device.isa() == prefix::ops::fastest_level_name() || arguments.isa.empty() == false) {
      prefix::ops::OnednnGemm other(device.dtype(), rows, layer.n, layer.k,
                                    device.context().threads->count(), values);
      const double other_time = best_time(budget, [&] { other.run(); });
      print("onednn", device, dtype, layer, rows, flop / other_time, peak);
    }
#endif
  }
  device.release(x.data, x_bytes);
  device.release(const_cast<std::byte*>(w.data), w.bytes());
}

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
      arguments.quick = true;
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
      options.dtype = arguments.dtype == "f32" ? DType::kF32 : DType::kBf16;
      options.threads = threads;
      CpuDevice device(options);
      for (const Layer& layer : kLayers) bench_layer(device, layer, arguments);
    }
  }
  return 0;
}
