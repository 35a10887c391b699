// Timing for the benchmarks: best or median of repetitions, and the register-only peak.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "ops/op_cpu.h"

namespace prefix::bench {

inline double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

// Best time of runs of `work` that together take at least `budget` seconds.
inline double best_time(double budget, const std::function<void()>& work) {
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

// FLOP/s of all threads of the device in multiply-adds on registers.
inline double measure_peak(ops::CpuDevice& device, ops::WeightFormat format) {
  const ops::GemmKernels& kernels = device.context().kernels->gemm;
  const auto peak = format == ops::WeightFormat::kInt8   ? kernels.peak_int8
                    : format == ops::WeightFormat::kBf16 ? kernels.peak_bf16
                                                         : kernels.peak_f32;
  const int threads = device.context().threads->count();
  kernels.begin();
  const double flop_per_iteration = peak(1000) / 1000;
  kernels.end();
  // Some milliseconds per call: long enough for the wake-up not to show.
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
inline double measure_peak(ops::CpuDevice& device) {
  return measure_peak(device, device.types().weights);
}

}  // namespace prefix::bench
