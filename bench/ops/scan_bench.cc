// Convolutions and scans of recurrent layers.
//
// Times of one thread are its processor time, of several the time that passes.
//
// Models: the recurrent layers of Granite-4.0-H-350M (Mamba-2) and Qwen3.5-0.8B (gated delta rule).
//   prefill  one text of 2048 rows. `share` is what the chunked form of the scan would compute,
//            over the measured f32 multiply-adds on registers. The scan goes token by token, so it
//            computes something else: `serial_share` is its own operations over the same peak.
//   branches 16 branches of one text, a row each, through all recurrent layers, on one thread.
//            `copies`: each over a state of its own, read and written in place.
//            `replay_R`: R tokens of each branch once more from the state where they parted, then
//            the new one; nothing is written. `replay_limit`: decay and update of all states, once,
//            on registers at the peak; going over a token once more takes at least that.
//   decode   32 texts of a row each, over stored states in place. `share` is the bytes of states
//            read and written over what a copy of as many bytes reaches in the same run.
//
// Multiply-adds of the serial form a token and head, each a vector operation that could be an FMA:
//   Mamba-2 3 P N (decay, update, sum), gated delta rule 4 K V (k S, decay, update, q S).
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "levels.h"
#include "measure.h"
#include "ops/step.h"
#include "scan_flops.h"

namespace {

using namespace prefix;       // NOLINT: a program of one file
using namespace prefix::ops;  // NOLINT

struct Model {
  const char* name;
  bool mamba;
  int32_t heads, key_heads;     // key_heads: groups
  int32_t head_dim, inner_dim;  // value_dim, key_dim
  int32_t channels;
  int32_t layers;  // recurrent ones
  KvLayout kv;     // of the others: what decides how large pages are

  StateLayout layout(int32_t layers) const {
    StateLayout layout;
    layout.layers = layers;
    layout.conv_channels = channels;
    layout.conv_width = 4;
    layout.scan_floats = int64_t{heads} * head_dim * inner_dim;
    return layout;
  }
  // Of a token.
  double chunked_flop() const { return heads * bench::chunked_flop(!mamba, head_dim, inner_dim); }
  double serial_flop() const { return 2.0 * heads * head_dim * inner_dim * (mamba ? 3 : 4); }
};

constexpr Model kModels[] = {
    {"granite-4.0-h-350m", true, 48, 1, 32, 128, 1792, 28, {KvType::kBf16, 4, 4, 64}},
    {"qwen3.5-0.8b", false, 16, 16, 128, 128, 6144, 18, {KvType::kBf16, 6, 2, 256}}};

std::vector<float> random_floats(int64_t n) {
  std::minstd_rand random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> v(static_cast<size_t>(n));
  for (float& x : v) x = uniform(random);
  return v;
}

// Of this thread: other work on the machine adds little to it.
double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Best of repetitions; of one thread its processor time.
double best_time(CpuDevice& device, double budget, const std::function<void()>& work) {
  if (device.context().threads->count() > 1) return bench::best_time(budget, work);
  double best = std::numeric_limits<double>::infinity();
  for (const double end = bench::seconds() + budget; bench::seconds() < end;) {
    const double start = processor_seconds();
    work();
    best = std::min(best, processor_seconds() - start);
  }
  return best;
}

// Bytes read and written in a second by a copy of `bytes` bytes on all threads.
double copy_speed(CpuDevice& device, size_t bytes) {
  std::byte* const from = device.allocate(bytes);
  std::byte* const to = device.allocate(bytes);
  std::memset(from, 1, bytes);
  constexpr size_t kPiece = 64 << 10;
  const double time = best_time(device, 0.2, [&] {
    device.context().threads->run(static_cast<int64_t>(bytes / kPiece), [&](int64_t i, int) {
      const size_t at = static_cast<size_t>(i) * kPiece;
      std::memcpy(to + at, from + at, kPiece);
    });
  });
  device.release(from, bytes);
  device.release(to, bytes);
  return 2.0 * static_cast<double>(bytes) / time;
}

class ModelBench {
 public:
  // `texts` of as many rows each, from nothing or from stored states: in place, or all from one,
  // which stays as it is.
  enum class From { kNothing, kOwn, kOne };
  ModelBench(CpuDevice& device, const Model& model, int32_t layers, int32_t texts, int32_t rows,
             From from)
      : device_(device), model_(model), layers_(layers), rows_(texts * rows) {
    const int64_t inner = int64_t{model.heads} * model.head_dim;
    const StateLayout layout = model.layout(layers);
    plan_.state_pages = layout.pages(model.kv.page_bytes());
    const int32_t stored = from == From::kOne ? 1 : texts;
    plan_.pages.resize(static_cast<size_t>(stored) * static_cast<size_t>(plan_.state_pages));
    std::iota(plan_.pages.begin(), plan_.pages.end(), 0);
    for (int32_t i = 0; i < texts; ++i) {
      const int32_t state = from == From::kOwn ? i : from == From::kOne ? 0 : -1;
      plan_.segments.push_back({i * rows, (i + 1) * rows, -1, state});
      if (from != From::kOne) plan_.writes.push_back({(i + 1) * rows - 1, i});
    }
    ld_ = device.f32_ld(model.channels);
    const std::vector<float> x = random_floats(rows_ * ld_);
    x_ = copied(x);
    out_ = copied(x);
    gates_ = random_floats(int64_t{rows_} * model.heads);
    vectors_ = random_floats(int64_t{model.channels} * 4);
    a_.assign(static_cast<size_t>(model.heads), -0.5f);
    y_.resize(static_cast<size_t>(rows_ * inner));
    slots_.assign(static_cast<size_t>(rows_), KvSlot{-1, 0});
    pool_bytes_ = plan_.pages.size() * model.kv.page_bytes();
    pool_ = device.allocate(pool_bytes_);
    const std::vector<float> states = random_floats(static_cast<int64_t>(pool_bytes_ / 4));
    std::memcpy(pool_, states.data(), pool_bytes_);
    StepArrays arrays;
    arrays.slots = slots_;
    arrays.kv = model.kv;
    arrays.pool = pool_;
    arrays.scan = &plan_;
    arrays.state = layout;
    step_ = device.begin_step(arrays);
  }
  ModelBench(const ModelBench&) = delete;
  ModelBench& operator=(const ModelBench&) = delete;
  ~ModelBench() {
    device_.release(pool_, pool_bytes_);
    const size_t bytes = static_cast<size_t>(rows_ * ld_) * sizeof(float);
    device_.release(reinterpret_cast<std::byte*>(x_), bytes);
    device_.release(reinterpret_cast<std::byte*>(out_), bytes);
  }

  void prefill(double peak) {
    const double flop = model_.chunked_flop() * rows_;
    const double conv_time = best_time(device_, 0.2, [&] { conv(); });
    const double time = best_time(device_, 0.5, [&] { scan(); });
    peak = std::max(peak, bench::measure_peak(device_));
    bench::Line line = line_of("prefill", time, conv_time);
    line.field("gflops", flop / time * 1e-9).field("peak_gflops", peak * 1e-9);
    line.field("serial_share", model_.serial_flop() * rows_ / time / peak);
    line.field("share", flop / time / peak).print();
  }
  void decode(double speed) {
    const double bytes = 2.0 * rows_ * static_cast<double>(model_.layout(1).scan_floats) * 4;
    const double conv_time = best_time(device_, 0.2, [&] { conv(); });
    const double time = best_time(device_, 0.5, [&] { scan(); });
    speed = std::max(speed, copy_speed(device_, pool_bytes_));
    bench::Line line = line_of("decode", time, conv_time);
    line.field("gigabytes_per_second", bytes / time * 1e-9);
    line.field("copy_gigabytes_per_second", speed * 1e-9);
    line.field("share", bytes / time / speed).print();
  }
  void scan_layers() {
    for (int32_t layer = 0; layer < layers_; ++layer) scan(layer);
  }
  size_t pool_bytes() const { return pool_bytes_; }

 private:
  float* copied(const std::vector<float>& v) {
    std::byte* const to = device_.allocate(v.size() * sizeof(float));
    std::memcpy(to, v.data(), v.size() * sizeof(float));
    return reinterpret_cast<float*>(to);
  }
  bench::Line line_of(const char* shape, double time, double conv_time) const {
    bench::Line line("scan");
    line.field("isa", device_.isa()).field("threads", device_.context().threads->count());
    line.field("model", model_.name).field("shape", shape).field("rows", rows_);
    line.field("microseconds", time * 1e6).field("conv_microseconds", conv_time * 1e6);
    return line;
  }
  void conv() {
    ConvArgs args;
    args.x = x_;
    args.ld = args.ld_out = ld_;
    args.weight = vectors_.data();
    args.bias = vectors_.data();
    args.silu = true;
    args.out = out_;
    step_->conv(args);
  }
  void scan(int32_t layer = 0) {
    if (model_.mamba) {
      Mamba2Args args;
      args.layer = layer;
      args.heads = model_.heads;
      args.head_dim = model_.head_dim;
      args.groups = model_.key_heads;
      args.state = model_.inner_dim;
      args.x = x_;
      args.ld = ld_;
      args.dt = gates_.data();
      args.ld_dt = model_.heads;
      args.dt_bias = args.d = vectors_.data();
      args.a = a_.data();
      args.y = y_.data();
      args.ld_y = int64_t{model_.heads} * model_.head_dim;
      step_->scan(args);
      return;
    }
    GatedDeltaArgs args;
    args.layer = layer;
    args.key_heads = model_.key_heads;
    args.value_heads = model_.heads;
    args.key_dim = model_.inner_dim;
    args.value_dim = model_.head_dim;
    args.qkv = x_;
    args.ld = ld_;
    args.a = args.b = gates_.data();
    args.ld_ab = model_.heads;
    args.a_scale = a_.data();
    args.dt_bias = vectors_.data();
    args.y = y_.data();
    args.ld_y = int64_t{model_.heads} * model_.head_dim;
    step_->scan(args);
  }

  CpuDevice& device_;
  const Model& model_;
  const int32_t layers_, rows_;
  ScanPlan plan_;
  float* x_ = nullptr;
  float* out_ = nullptr;
  int64_t ld_ = 0;
  std::vector<float> gates_, vectors_, a_, y_;
  std::vector<KvSlot> slots_;
  size_t pool_bytes_ = 0;
  std::byte* pool_ = nullptr;
  std::unique_ptr<Step> step_;
};

void bench_branches(CpuDevice& device, const Model& model) {
  constexpr int32_t kBranches = 16;
  constexpr int kRounds = 7;
  const std::vector<int32_t> records = {0, 1, 2, 4, 8, 16};
  using From = ModelBench::From;
  std::vector<std::unique_ptr<ModelBench>> ways;
  ways.push_back(
      std::make_unique<ModelBench>(device, model, model.layers, kBranches, 1, From::kOwn));
  for (const int32_t n : records)
    ways.push_back(
        std::make_unique<ModelBench>(device, model, model.layers, kBranches, n + 1, From::kOne));
  std::vector<double> best(ways.size(), 1e9);
  double peak = 0;
  for (int round = 0; round < kRounds; ++round) {
    peak = std::max(peak, bench::measure_peak(device));
    for (size_t i = 0; i < ways.size(); ++i) {
      const double start = processor_seconds();
      ways[i]->scan_layers();
      best[i] = std::min(best[i], processor_seconds() - start);
    }
  }
  bench::Line line("scan");
  line.field("isa", device.isa()).field("threads", 1).field("model", model.name);
  line.field("shape", "branches").field("rows", kBranches).field("layers", model.layers);
  line.field("copies_ms", best[0] * 1e3);
  for (size_t i = 0; i < records.size(); ++i)
    line.field(cat("replay_", records[i], "_ms"), best[i + 1] * 1e3);
  // A multiplication and a multiply-add for each number of a state.
  const double floats = static_cast<double>(model.layout(1).scan_floats) * model.layers;
  line.field("replay_limit_ms", 4 * floats * kBranches / peak * 1e3).print();
}

}  // namespace

int main(int argc, char** argv) {
  bench::Levels levels;
  bool quick = false;
  bench::Program program(
      "scan_bench",
      "recurrent layers of two models: microseconds of a scan, and its share of the peak of f32 on\n"
      "registers (prefill) or of what a copy of the states takes (decode); milliseconds of branches",
      "--isa auto --threads 1 --quick");
  levels.add_options(program);
  program.flag("--quick", "a prefill of 256 rows in place of 2,048", quick);
  return program.run(argc, argv, [&] {
    levels.each("scan", [&](const IsaLevel& level) {
      for (const int threads : levels.threads) {
        CpuDevice device({kF32Types, level.name, std::make_shared<prefix::Threads>(threads)});
        for (const Model& model : kModels) {
          ModelBench prefill(device, model, 1, 1, quick ? 256 : 2048, ModelBench::From::kNothing);
          prefill.prefill(bench::measure_peak(device));
        }
        for (const Model& model : kModels) {
          ModelBench decode(device, model, 1, 32, 1, ModelBench::From::kOwn);
          decode.decode(copy_speed(device, decode.pool_bytes()));
        }
        if (threads == 1)
          for (const Model& model : kModels) bench_branches(device, model);
      }
    });
  });
}
