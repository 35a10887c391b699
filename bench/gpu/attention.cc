// Attention of one layer over random pages.
#include <chrono>
#include <vector>

#include "../line.h"
#include "benches.h"
#include "blocker.h"
#include "device_memory.h"
#include "ops/op_gpu.h"
#include "ops/step.h"
#include "timing.h"

namespace prefix::bench {
namespace {

constexpr int32_t kHeadDim = 128;

constexpr AttentionCase kCases[] = {
    {"causal 4k", 1, 0, 4096, 4096, 32, 8},         {"causal 8k", 1, 0, 8192, 8192, 32, 8},
    {"causal 16k", 1, 0, 16384, 16384, 32, 8},      {"suffix 32x128", 32, 2048, 128, 128, 16, 8},
    {"suffix 100x100", 100, 2048, 100, 100, 16, 8}, {"suffix 1000x50", 1000, 2048, 50, 50, 16, 8},
    {"suffix 32x128", 32, 2048, 128, 128, 32, 8},   {"suffix 100x100", 100, 2048, 100, 100, 32, 8},
    {"suffix 1000x50", 1000, 2048, 50, 50, 32, 8},  {"decode 32x2048", 32, 2048, 64, 1, 16, 8},
    {"decode 128x1024", 128, 1024, 64, 1, 16, 8},   {"decode 32x8192", 32, 8192, 64, 1, 16, 8},
    {"decode 32x2048", 32, 2048, 64, 1, 32, 8},     {"decode 128x1024", 128, 1024, 64, 1, 32, 8},
    {"decode 32x8192", 32, 8192, 64, 1, 32, 8},
};

struct Plan {
  AttentionPlan attention;
  std::vector<int32_t> positions;
  int32_t pages = 0;
};

// Pages, shared:   [prefix][own of 0][own of 1] ...
//        unshared: [prefix of 0][own of 0][prefix of 1][own of 1] ...
Plan make_plan(const AttentionCase& c, int32_t tile_rows, bool shared) {
  Plan plan;
  const int32_t prefix = c.p / kPageTokens;
  const int32_t own = (c.s + kPageTokens - 1) / kPageTokens;
  plan.pages = (shared ? prefix : c.b * prefix) + c.b * own;
  const auto prefix_of = [&](int32_t b) { return shared ? 0 : b * (prefix + own); };
  const auto own_of = [&](int32_t b) { return prefix + (shared ? b * own : b * (prefix + own)); };
  AttentionPlan& a = plan.attention;
  for (int32_t i = 0; i < plan.pages; ++i) a.pages.push_back(i);
  for (int32_t b = 0; b < c.b; ++b)
    for (int32_t i = c.s - c.rows; i < c.s; ++i) plan.positions.push_back(c.p + i);
  const int32_t all = c.b * c.rows;
  const int32_t step = std::max(1, tile_rows / (c.heads / c.kv_heads));
  for (int32_t begin = 0; begin < all;) {
    const int32_t first = begin / c.rows;
    int32_t end = std::min(all, begin + step);
    if (!shared) end = std::min(end, (first + 1) * c.rows);
    AttentionTile tile{begin, end, static_cast<int32_t>(a.runs.size()), 0, 0};
    if (prefix > 0) a.runs.push_back({prefix_of(first), 0, prefix, begin, end});
    for (int32_t b = first; b <= (end - 1) / c.rows; ++b)
      a.runs.push_back(
          {own_of(b), prefix, own, std::max(begin, b * c.rows), std::min(end, (b + 1) * c.rows)});
    tile.run_end = static_cast<int32_t>(a.runs.size());
    for (int32_t r = begin; r < end; ++r)
      tile.last_position = std::max(tile.last_position, plan.positions[static_cast<size_t>(r)]);
    a.items.push_back({static_cast<int32_t>(a.tiles.size()), -1, -1});
    a.tiles.push_back(tile);
    begin = end;
  }
  return plan;
}

// What the call must do: pairs of query and key that count, and each key, value, query and result
// once.
double flops_of(const AttentionCase& c, const Plan& plan) {
  double pairs = 0;
  for (const int32_t position : plan.positions) pairs += position + 1;
  return 4.0 * pairs * c.heads * kHeadDim;
}

double bytes_of(const AttentionCase& c, bool shared) {
  const double tokens = (shared ? c.p : 1.0 * c.b * c.p) + 1.0 * c.b * c.s;
  return (tokens * c.kv_heads + 1.0 * c.b * c.rows * c.heads) * kHeadDim * 4;
}

// Layers of the models of products.cc by their query heads, fewer where the device has less memory.
int32_t layers_of(ops::Device& device, const AttentionCase& c, const Plan& plan,
                  const Effort& effort) {
  const int32_t wanted = effort.layers > 0 ? effort.layers : c.heads <= 16 ? 28 : 36;
  const ops::KvLayout one{ops::KvType::kBf16, 1, c.kv_heads, kHeadDim};
  const auto each = static_cast<int64_t>(one.page_bytes()) * plan.pages;
  return std::clamp<int32_t>(static_cast<int32_t>(device.free_bytes() / 10 * 9 / each), 1, wanted);
}

// A pool as an engine has it: a page holds all layers, so that the pages of one layer lie megabytes
// apart. Each layer is read in its turn: then the last cache holds nothing of it any more.
class Pool {
 public:
  Pool(ops::Device& device, const ops::KvLayout& kv, int32_t pages)
      : memory_(device, kv.page_bytes() * static_cast<size_t>(pages), false) {
    // A few pages come from the host, the others are copies of them.
    const int32_t sent = std::min(pages, 8);
    Memory::fill(device, memory_.data(), kv.page_bytes() * static_cast<size_t>(sent));
    std::vector<PageCopy> copies;
    for (int32_t i = sent; i < pages; ++i) copies.push_back({i % sent, i, kPageTokens});
    ops::StepArrays arrays;
    arrays.copies = copies;
    arrays.kv = kv;
    arrays.pool = memory_.data();
    const std::unique_ptr<ops::Step> step = device.begin_step(arrays);
    for (int32_t layer = 0; layer < kv.layers; ++layer) step->copy_pages(layer);
    step->end();
  }
  std::byte* data() const { return memory_.data(); }

 private:
  Memory memory_;
};

// Blocks of a cluster, where the step was done by clusters.
int cluster_of(const ops::Device& device) {
  const auto* const gpu = dynamic_cast<const ops::GpuDevice*>(&device);
  return gpu ? gpu->decode_plan().cluster : 0;
}

}  // namespace

std::span<const AttentionCase> attention_cases() { return kCases; }

void bench_attention(ops::Device& device, const AttentionCase& c, bool shared,
                     const Blocker& blocker, const Effort& effort, const char* kernel) {
  const Plan plan = make_plan(c, device.tile_rows(), shared);
  const int32_t layers = layers_of(device, c, plan, effort);
  const ops::KvLayout kv{ops::KvType::kBf16, layers, c.kv_heads, kHeadDim};
  const auto rows = static_cast<int64_t>(plan.positions.size());
  const int64_t ld = device.act_ld(int64_t{c.heads} * kHeadDim);
  const Pool pool(device, kv, plan.pages);
  const Memory q(device, static_cast<size_t>(rows * ld) * 2),
      out(device, static_cast<size_t>(rows * ld) * 2);
  ops::StepArrays arrays;
  arrays.positions = plan.positions;
  arrays.attention = {&plan.attention, 1};
  arrays.heads = c.heads;
  arrays.kv = kv;
  arrays.pool = pool.data();
  ops::AttentionArgs args;
  args.q = {q.data(), ld};
  args.out = {out.data(), ld};
  args.scale = 0.088f;
  const DeviceClock clock([&] { blocker.start(); },
                          [&] {
                            char last[2];
                            device.download(last, out.data(), sizeof last);
                          },
                          effort.repeats, effort.budget_us);
  const auto planned = std::chrono::steady_clock::now();
  const std::unique_ptr<ops::Step> step = device.begin_step(arrays);
  const std::chrono::duration<double, std::micro> plan_time =
      std::chrono::steady_clock::now() - planned;
  const auto attend = [&](int call) {
    args.layer = call % layers;
    step->attention(args);
  };
  const Times cold = clock.measure(attend);
  const Times hot = clock.measure([&](int) { attend(0); });
  const double flops = flops_of(c, plan), bytes = bytes_of(c, shared);
  Line line("attention", device_name(device));
  line.field("kernel", kernel).field("shape", c.name).field("heads", cat(c.heads, "/", c.kv_heads));
  line.field("shared", shared).field("us", cold.us).field("us_hot", hot.us);
  line.field("us_wall", cold.wall_us).field("launch_bound", cold.launch_bound);
  line.field("layers", layers).field("flops", static_cast<int64_t>(flops));
  line.field("bytes", static_cast<int64_t>(bytes)).field("tflops", flops / cold.us * 1e-6);
  line.field("gb_per_s", bytes / cold.us * 1e-3).field("plan_us", plan_time.count());
  line.field("cluster", cluster_of(device)).print();
  step->end();
}

}  // namespace prefix::bench
