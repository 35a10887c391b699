// Routed experts (ops/experts.h) beside dense blocks of the same work.
//
// The shape is a layer of Qwen3-30B-A3B: 128 experts of 768, of which a row uses 8. The dense block
// has one of 8 x 768. Routing, gathering and adding up are part of the time.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "../line.h"
#include "../program.h"
#include "measure.h"
#include "ops/op_cpu.h"

namespace {

using prefix::ops::ActivationBuffer;
using prefix::ops::CpuDevice;
using prefix::ops::CpuOptions;
using prefix::ops::ExpertSlots;
using prefix::ops::ExpertWeights;
using prefix::ops::PackedWeights;

constexpr int64_t kHidden = 2048, kInner = 768;
constexpr int32_t kExperts = 128, kPerRow = 8;

// Random rows, 64 different ones.
class Rows final : public prefix::ops::WeightSource {
 public:
  explicit Rows(int64_t k) : k_(k), values_(static_cast<size_t>(64 * k)) {
    std::minstd_rand random(1);
    std::uniform_real_distribution<float> uniform(-0.05f, 0.05f);
    for (float& x : values_) x = uniform(random);
  }
  prefix::ops::TensorType type(int64_t) const override { return prefix::ops::TensorType::kF32; }
  void read(int64_t row, std::byte* out) const override {
    std::memcpy(out, values_.data() + row % 64 * k_, static_cast<size_t>(k_) * sizeof(float));
  }

 private:
  int64_t k_;
  std::vector<float> values_;
};

class Bench {
 public:
  Bench(CpuDevice& device, int64_t rows) : device_(device), rows_(rows) {
    const int64_t slots = rows * kPerRow;
    x_ = buffer(rows, kHidden);
    gathered_ = buffer(slots, kHidden);
    inner_ = buffer(slots, kInner);
    dense_inner_ = buffer(rows, kPerRow * kInner);
    results_.resize(static_cast<size_t>(slots * kHidden));
    out_.resize(static_cast<size_t>(rows * kHidden));
    std::minstd_rand random(2);
    std::normal_distribution<float> normal;
    std::vector<float> x(static_cast<size_t>(rows * kHidden));
    for (float& v : x) v = normal(random);
    device.convert(x.data(), kHidden, rows, kHidden, x_);
    scores_.resize(static_cast<size_t>(rows * kExperts));
    for (float& v : scores_) v = normal(random);
    const Rows in(kHidden), down(kInner), dense_down(kPerRow * kInner);
    for (int32_t e = 0; e < kExperts; ++e) {
      ExpertWeights& expert = experts_.emplace_back();
      expert.gate_up = device.pack_gated(device.types().weights, kInner, kHidden, in, in);
      expert.down = device.pack(device.types().weights, kHidden, kInner, down);
    }
    gate_up_ = device.pack_gated(device.types().weights, kPerRow * kInner, kHidden, in, in);
    down_ = device.pack(device.types().weights, kHidden, kPerRow * kInner, dense_down);
  }

  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;
  ~Bench() {
    for (const auto& [data, bytes] : buffers_) device_.release(data, bytes);
    for (const ExpertWeights& expert : experts_) {
      release(expert.gate_up);
      release(expert.down);
    }
    release(gate_up_);
    release(down_);
  }

  void run() {
    const double flop = 2.0 * static_cast<double>(rows_ * kPerRow * kInner * kHidden) * 3;
    double peak = prefix::bench::measure_peak(device_);
    const double routed = prefix::bench::best_time(2, [&] { run_experts(); });
    const double dense = prefix::bench::best_time(2, [&] { run_dense(); });
    peak = std::max(peak, prefix::bench::measure_peak(device_));
    prefix::bench::Line line("experts");
    line.field("isa", device_.isa()).field("threads", device_.context().threads->count());
    line.field("rows", rows_).field("experts", kExperts).field("per_row", kPerRow);
    line.field("gflops", flop / routed * 1e-9).field("dense_gflops", flop / dense * 1e-9);
    line.field("peak_gflops", peak * 1e-9).field("share", flop / routed / peak);
    line.field("dense_share", flop / dense / peak).field("of_dense", dense / routed).print();
  }

 private:
  ActivationBuffer buffer(int64_t rows, int64_t columns) {
    const int64_t ld = device_.act_ld(columns);
    const size_t bytes = static_cast<size_t>(rows * ld) * device_.act_bytes();
    buffers_.emplace_back(device_.allocate(bytes), bytes);
    return {buffers_.back().first, ld};
  }
  void release(const PackedWeights& w) {
    device_.release(const_cast<std::byte*>(w.data), w.bytes());
  }
  void run_experts() {
    device_.route({scores_.data(), kExperts, kExperts, kPerRow, true}, rows_, slots_);
    prefix::ops::Device::ExpertsArgs args;
    args.experts = experts_;
    args.hidden = kHidden;
    args.intermediate = kInner;
    args.x = x_;
    args.gathered = gathered_;
    args.inner = inner_;
    args.results = results_.data();
    args.ld_results = kHidden;
    args.out = out_.data();
    args.ld_out = kHidden;
    device_.experts(args, slots_);
  }
  void run_dense() {
    device_.linear_gated(gate_up_, kPerRow * kInner, nullptr, nullptr,
                         prefix::ops::ActivationFn::kSilu, x_, rows_, dense_inner_);
    device_.linear(down_, nullptr, dense_inner_, rows_, out_.data(), kHidden, true);
  }

  CpuDevice& device_;
  const int64_t rows_;
  ActivationBuffer x_, gathered_, inner_, dense_inner_;
  std::vector<float> results_, out_, scores_;
  std::vector<ExpertWeights> experts_;
  PackedWeights gate_up_, down_;
  ExpertSlots slots_;
  std::vector<std::pair<std::byte*, size_t>> buffers_;
};

}  // namespace

int main(int argc, char** argv) {
  std::string isa = "auto";
  int threads = 2;
  std::vector<int> row_counts = {8, 128, 2048};
  prefix::bench::Program program(
      "experts_bench",
      "routed experts in the shape of a layer of Qwen3-30B-A3B (1.2 GB) beside a dense block of the\n"
      "same work: GFLOP/s, and their share of the peak on registers in the same run",
      "--threads 1 --rows 8");
  program.option("--isa", "NAME", "level of the CPU", isa);
  program.option("--threads", "N", "threads of the device", threads, 1, 1024);
  program.list("--rows", "N", "rows of tokens", row_counts, 1, 65536);
  return program.run(argc, argv, [&] {
    CpuOptions options;
    options.isa = isa;
    options.types = prefix::ops::kBf16Types;
    options.threads = std::make_shared<prefix::Threads>(threads);
    CpuDevice device(options);
    for (const int rows : row_counts) Bench(device, rows).run();
  });
}
