// Attention over pages, as steps of the engine lay it out.
//
// 16 query and 8 kv heads of 128. Shapes:
//   shared  `tokens` rows that all see the same n_kv keys, one tile      (prefix part of a prefill)
//   decode  `tokens` leaves with 64 keys of their own behind n_kv shared ones
//   causal  n_kv rows of one sequence in tiles of `tokens`, each sees its own past
// FLOP counts only the keys that a row sees. int8 is of keys and values, with bf16 weights.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "levels.h"
#include "measure.h"
#include "ops/step.h"

namespace {

using namespace prefix;       // NOLINT: a program of one file
using namespace prefix::ops;  // NOLINT

constexpr int32_t kHeads = 16;
constexpr int32_t kKvHeads = 8;
constexpr int32_t kHeadDim = 128;
constexpr int32_t kLeafTokens = 64;

struct Shape {
  const char* name;
  int32_t n_kv;
  int32_t tokens;
};

struct Work {
  AttentionPlan plan;
  std::vector<int32_t> positions;
  int32_t pages = 0;
  double keys = 0;  // (row, key) pairs that count
};

void add_run(Work& work, int32_t block, int32_t blocks, int32_t row_begin, int32_t row_end,
             int32_t first_page) {
  work.plan.runs.push_back(
      {static_cast<int32_t>(work.plan.pages.size()), block, blocks, row_begin, row_end});
  for (int32_t i = 0; i < blocks; ++i) work.plan.pages.push_back(first_page + i);
  work.pages = std::max(work.pages, first_page + blocks);
}

void add_tile(Work& work, int32_t row_begin, int32_t row_end, int32_t run_begin) {
  const int32_t tile = static_cast<int32_t>(work.plan.tiles.size());
  int32_t last = 0;
  for (int32_t r = row_begin; r < row_end; ++r) last = std::max(last, work.positions[r]);
  work.plan.tiles.push_back(
      {row_begin, row_end, run_begin, static_cast<int32_t>(work.plan.runs.size()), last});
  work.plan.items.push_back({tile, -1, -1});
}

Work make_work(const Shape& shape) {
  Work work;
  const std::string name = shape.name;
  const int32_t trunk = shape.n_kv / kPageTokens;
  if (name == "causal") {
    for (int32_t p = 0; p < shape.n_kv; ++p) work.positions.push_back(p);
    for (int32_t row = 0; row < shape.n_kv; row += shape.tokens) {
      const int32_t end = std::min(shape.n_kv, row + shape.tokens);
      add_run(work, 0, (end + kPageTokens - 1) / kPageTokens, row, end, 0);
      add_tile(work, row, end, static_cast<int32_t>(work.plan.runs.size()) - 1);
    }
  } else {
    const bool decode = name == "decode";
    const int32_t position = shape.n_kv - 1 + (decode ? kLeafTokens : 0);
    work.positions.assign(static_cast<size_t>(shape.tokens), position);
    add_run(work, 0, trunk, 0, shape.tokens, 0);
    for (int32_t r = 0; decode && r < shape.tokens; ++r) {
      const int32_t blocks = kLeafTokens / kPageTokens;
      add_run(work, trunk, blocks, r, r + 1, trunk + r * blocks);
    }
    add_tile(work, 0, shape.tokens, 0);
  }
  for (const int32_t p : work.positions) work.keys += p + 1;
  return work;
}

// Random bytes, and behind each block a scale for each token.
void fill_whole(std::byte* pool, size_t pool_bytes, const KvLayout& kv) {
  std::minstd_rand random(1);
  const size_t numbers = kv.numbers_bytes();
  for (size_t block = 0; block < pool_bytes; block += kv.block_bytes()) {
    for (size_t i = 0; i < numbers; ++i) pool[block + i] = static_cast<std::byte>(random() >> 8);
    for (size_t i = numbers; i < kv.block_bytes(); i += sizeof(float)) {
      const float scale = 0.001f + 1e-6f * static_cast<float>(random() % 1000);
      std::memcpy(pool + block + i, &scale, sizeof scale);
    }
  }
}

// Random finite numbers: arithmetic on zeros is faster on some machines.
void fill_random(std::byte* data, size_t elements, bool bf16) {
  std::minstd_rand random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (size_t i = 0; i < elements; ++i) {
    const float x = uniform(random);
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    if (bf16) {
      const auto half = static_cast<uint16_t>(bits >> 16);
      std::memcpy(data + 2 * i, &half, 2);
    } else {
      std::memcpy(data + 4 * i, &bits, 4);
    }
  }
}

void bench_shape(CpuDevice& device, const Shape& shape) {
  const Work work = make_work(shape);
  const KvLayout kv{device.types().kv, 1, kKvHeads, kHeadDim};
  const auto rows = static_cast<int64_t>(work.positions.size());
  const bool act_bf16 = device.act_bytes() == 2;
  const int64_t ld = device.act_ld(kHeads * kHeadDim);
  const size_t pool_bytes = static_cast<size_t>(work.pages) * kv.page_bytes();
  const size_t act_bytes = static_cast<size_t>(rows * ld) * device.act_bytes();
  std::byte* const pool = device.allocate(pool_bytes);
  const bool whole = kv.type == KvType::kInt8;
  if (whole) {
    fill_whole(pool, pool_bytes, kv);
  } else {
    fill_random(pool, pool_bytes / kv_bytes(kv.type), kv.type == KvType::kBf16);
  }
  AttentionArgs args;
  args.q = {device.allocate(act_bytes), ld};
  args.out = {device.allocate(act_bytes), ld};
  fill_random(args.q.data, act_bytes / device.act_bytes(), act_bf16);
  args.scale = 0.3f;

  StepArrays arrays;
  arrays.positions = work.positions;
  arrays.attention = {&work.plan, 1};
  arrays.heads = kHeads;
  arrays.kv = kv;
  arrays.pool = pool;
  const std::unique_ptr<Step> step = device.begin_step(arrays);
  const double flop = 4.0 * kHeadDim * kHeads * work.keys;
  const WeightFormat format = whole ? WeightFormat::kInt8 : device.types().weights;
  const double before = bench::measure_peak(device, format);
  const double time =
      bench::best_time(std::clamp(flop / before * 20, 0.2, 1.0), [&] { step->attention(args); });
  const double peak = std::max(before, bench::measure_peak(device, format));
  bench::Line line("attention");
  line.field("isa", device.isa());
  line.field("dtype", whole ? "int8" : device.types().kv == KvType::kBf16 ? "bf16" : "f32");
  line.field("threads", device.context().threads->count()).field("shape", shape.name);
  line.field("n_kv", shape.n_kv).field("tokens", shape.tokens);
  line.field("packed_rows", shape.tokens * kHeads / kKvHeads).field("microseconds", time * 1e6);
  line.field("gflops", flop / time * 1e-9).field("peak_gflops", peak * 1e-9);
  line.field("share", flop / time / peak).print();
  device.release(pool, pool_bytes);
  device.release(args.q.data, act_bytes);
  device.release(args.out.data, act_bytes);
}

std::vector<Shape> shapes(bool quick) {
  if (quick) return {{"shared", 2048, 16}, {"shared", 2048, 48}, {"decode", 2048, 32}};
  std::vector<Shape> all;
  for (const int32_t n_kv : {512, 1024, 2048, 4096})
    for (const int32_t tokens : {16, 24, 32, 48, 64}) all.push_back({"shared", n_kv, tokens});
  for (const int32_t tokens : {1, 8, 32}) all.push_back({"decode", 2048, tokens});
  all.push_back({"causal", 2048, 48});
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  bench::Levels levels;
  std::string dtype = "bf16";
  bool quick = false;
  bench::Program program(
      "attention_bench",
      "attention of a layer of 16 query and 8 kv heads of 128: microseconds, GFLOP/s, and their share\n"
      "of the peak that multiply-adds on registers reach in the same run",
      "--isa auto --threads 1 --quick");
  levels.add_options(program);
  program.choice("--dtype", "bf16|f32|int8", "of keys and values; int8 with bf16 weights", dtype);
  program.flag("--quick", "3 shapes in place of 24", quick);
  return program.run(argc, argv, [&] {
    NumericTypes types = dtype == "f32" ? kF32Types : kBf16Types;
    if (dtype == "int8") types.kv = KvType::kInt8;
    levels.each("attention", [&](const IsaLevel& level) {
      for (const int threads : levels.threads) {
        CpuDevice device({types, level.name, std::make_shared<prefix::Threads>(threads)});
        for (const Shape& shape : shapes(quick)) bench_shape(device, shape);
      }
    });
  });
}
