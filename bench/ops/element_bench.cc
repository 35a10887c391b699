// The row-wise operations, one after the other over the same rows.
#include <cstdio>
#include <string>
#include <vector>

#include "levels.h"
#include "measure.h"
#include "ops/cpu/kernels.h"
#include "ops/rotation.h"
#include "ops/step.h"

namespace {

using namespace prefix;       // NOLINT: a program of one file
using namespace prefix::ops;  // NOLINT

constexpr int64_t kRows = 1024;
constexpr int32_t kHeads = 16;
constexpr int32_t kKvHeads = 8;
constexpr int32_t kHeadDim = 128;
constexpr int64_t kHidden = 1024;

void print(const CpuDevice& device, const char* op, double time) {
  bench::Line line("element");
  line.field("isa", device.isa()).field("threads", device.context().threads->count());
  line.field("op", op).field("rows", kRows).field("nanoseconds_per_row", time / kRows * 1e9);
  line.print();
}

// Rows of f32 in whole numbers, on the calling thread.
void bench_quantise(const CpuDevice& device, const std::vector<float>& x) {
  std::vector<float> signs(kHidden), work(kHidden);
  std::vector<int8_t> out(kHidden);
  fill_rotation_signs(kHidden, signs.data());
  QuantiseArgs args;
  args.k = args.k_padded = kHidden;
  args.block = rotation_block(kHidden);
  args.signs = signs.data();
  args.work = work.data();
  args.out = out.data();
  print(device, "quantise", bench::best_time(0.2, [&] {
          for (int64_t row = 0; row < kRows; ++row) {
            args.x = x.data() + row * kHidden;
            device.context().kernels->rows.quantise(args);
          }
        }));
}

void bench_level(std::string_view isa, int threads) {
  CpuDevice device({kBf16Types, isa, std::make_shared<prefix::Threads>(threads)});
  const int64_t width = (kHeads + 2 * kKvHeads) * kHeadDim;
  std::vector<float> x(kRows * width, 0.5f), weight(kHidden, 1.0f), cos(kRows * kHeadDim / 2, 0.6f),
      sin(kRows * kHeadDim / 2, 0.8f);
  const KvLayout kv{KvType::kBf16, 1, kKvHeads, kHeadDim};
  std::vector<int32_t> positions;
  std::vector<KvSlot> slots;
  for (int32_t r = 0; r < kRows; ++r) {
    positions.push_back(r);
    slots.push_back({r / kPageTokens, r % kPageTokens});
  }
  const size_t pool_bytes = kRows / kPageTokens * kv.page_bytes();
  std::byte* const pool = device.allocate(pool_bytes);
  const int64_t ld = device.act_ld(kHeads * kHeadDim);
  const size_t act_bytes = static_cast<size_t>(kRows * ld) * device.act_bytes();
  const ActivationBuffer act{device.allocate(act_bytes), ld};
  QkvArgs args;
  args.qkv = x.data();
  args.ld = width;
  args.q_norm = args.k_norm = weight.data();
  args.norm_eps = 1e-6f;
  args.rotary_dim = kHeadDim;
  args.cos = cos.data();
  args.sin = sin.data();
  args.q = act;
  StepArrays arrays;
  arrays.rope_rows = positions;
  arrays.slots = slots;
  arrays.heads = kHeads;
  arrays.kv = kv;
  arrays.pool = pool;
  const std::unique_ptr<Step> step = device.begin_step(arrays);
  print(device, "qkv", bench::best_time(0.2, [&] { step->qkv(args); }));
  print(device, "rms_norm", bench::best_time(0.2, [&] {
          device.rms_norm(x.data(), width, weight.data(), 1e-6f, kRows, kHidden, act);
        }));
  bench_quantise(device, x);
  device.release(pool, pool_bytes);
  device.release(act.data, act_bytes);
}

}  // namespace

int main(int argc, char** argv) {
  bench::Levels levels;
  bench::Program program("element_bench",
                         "row-wise operations in the shapes of Qwen3-0.6B: nanoseconds a row",
                         "--isa auto --threads 1");
  levels.add_options(program);
  return program.run(argc, argv, [&] {
    levels.each("element", [&](const IsaLevel& level) {
      for (const int threads : levels.threads) bench_level(level.name, threads);
    });
  });
}
