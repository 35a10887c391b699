// Attention, matrix products and whole prefills on a GPU: what tools/gpu_check prints and compares
// with other libraries. One JSON object per line.
//
//   gpu_bench [--attention] [--gemm] [--engine MODEL_SHAPE]     (without arguments: the first two)
//
// Attention is one layer over random pages, called as a step calls it; times are wall time over
// many calls and one wait at the end, so they include launching. "unshared" gives every sequence
// its own tile over the same physical pages: paged decoding without sharing.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "base/json_text.h"
#include "base/status.h"
#include "engine/engine.h"
#include "ops/devices.h"
#include "random_checkpoint.h"

namespace {

using namespace prefix;  // a program, not a header

constexpr int kWarmUp = 5;
constexpr int kCalls = 50;

// B sequences behind a shared prefix of P tokens, each with S tokens of its own, of which the last
// `rows` are computed now.
struct Shape {
  const char* name;
  int32_t b, p, s, rows;
  int32_t heads, kv_heads;
};

constexpr Shape kShapes[] = {
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

Plan make_plan(const Shape& s, int32_t tile_rows, bool shared) {
  Plan plan;
  const int32_t prefix_pages = s.p / kPageTokens;
  const int32_t own_pages = (s.s + kPageTokens - 1) / kPageTokens;
  plan.pages = prefix_pages + s.b * own_pages;
  AttentionPlan& a = plan.attention;
  for (int32_t i = 0; i < plan.pages; ++i) a.pages.push_back(i);
  for (int32_t b = 0; b < s.b; ++b)
    for (int32_t i = s.s - s.rows; i < s.s; ++i) plan.positions.push_back(s.p + i);
  const int32_t all = s.b * s.rows;
  const int32_t step = std::max(1, tile_rows / (s.heads / s.kv_heads));
  for (int32_t begin = 0; begin < all;) {
    int32_t end = std::min(all, begin + step);
    if (!shared) end = std::min(end, (begin / s.rows + 1) * s.rows);
    AttentionTile tile{begin, end, static_cast<int32_t>(a.runs.size()), 0, 0};
    if (prefix_pages > 0) a.runs.push_back({0, 0, prefix_pages, begin, end});
    for (int32_t b = begin / s.rows; b <= (end - 1) / s.rows; ++b)
      a.runs.push_back({prefix_pages + b * own_pages, prefix_pages, own_pages,
                        std::max(begin, b * s.rows), std::min(end, (b + 1) * s.rows)});
    tile.run_end = static_cast<int32_t>(a.runs.size());
    for (int32_t r = begin; r < end; ++r)
      tile.last_position = std::max(tile.last_position, plan.positions[static_cast<size_t>(r)]);
    a.items.push_back({static_cast<int32_t>(a.tiles.size()), -1, -1});
    a.tiles.push_back(tile);
    begin = end;
  }
  return plan;
}

template <typename Call, typename Wait>
double microseconds(const Call& call, const Wait& wait) {
  for (int i = 0; i < kWarmUp; ++i) call();
  wait();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) call();
  wait();
  const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
  return time.count() / kCalls;
}

// bf16 numbers of moderate size: random bits with the exponents of [0.5, 2).
std::vector<uint16_t> noise(size_t count) {
  std::vector<uint16_t> data(count);
  std::mt19937 random(1);
  for (uint16_t& x : data) {
    const uint32_t bits = random();
    x = static_cast<uint16_t>((bits & 0x80ff) | (bits & 0x100 ? 0x3f80 : 0x3f00));
  }
  return data;
}

class Memory {
 public:
  Memory(ops::Device& device, size_t bytes) : device_(device), bytes_(bytes) {
    data_ = device.allocate(bytes);
    static const std::vector<uint16_t> piece = noise(size_t{1} << 22);
    for (size_t at = 0; at < bytes; at += piece.size() * 2)
      device.upload(data_ + at, piece.data(), std::min(bytes - at, piece.size() * 2));
  }
  ~Memory() { device_.release(data_, bytes_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::byte* data() const { return data_; }

 private:
  ops::Device& device_;
  size_t bytes_;
  std::byte* data_;
};

void bench_attention(ops::Device& device, const Shape& s, bool shared) {
  const ops::KvLayout kv{ops::DType::kBf16, 1, s.kv_heads, 128};
  const Plan plan = make_plan(s, device.tile_rows(), shared);
  const auto rows = static_cast<int64_t>(plan.positions.size());
  const int64_t ld = device.act_ld(int64_t{s.heads} * kv.head_dim);
  const Memory pool(device, kv.page_bytes() * static_cast<size_t>(plan.pages));
  const Memory q(device, static_cast<size_t>(rows * ld) * 2),
      out(device, static_cast<size_t>(rows * ld) * 2);
  ops::StepArrays step;
  step.positions = plan.positions;
  step.attention = &plan.attention;
  step.heads = s.heads;
  step.kv = kv;
  ops::AttentionArgs args;
  args.plan = &plan.attention;
  args.positions = plan.positions.data();
  args.q = {q.data(), ld};
  args.out = {out.data(), ld};
  args.heads = s.heads;
  args.scale = 0.088f;
  const auto planned = std::chrono::steady_clock::now();
  device.begin_step(step);
  const std::chrono::duration<double, std::micro> plan_time =
      std::chrono::steady_clock::now() - planned;
  char last[2];
  const double time = microseconds([&] { device.attention(args, kv, pool.data()); },
                                   [&] { device.download(last, out.data(), sizeof last); });
  double pairs = 0;  // (query, key) that count
  for (const int32_t position : plan.positions) pairs += position + 1;
  const double flops = 4.0 * pairs * s.heads * kv.head_dim;
  const double bytes = static_cast<double>(s.p + s.b * s.s) * s.kv_heads * kv.head_dim * 4;
  std::printf(
      "{\"bench\": \"attention\", \"shape\": \"%s\", \"heads\": \"%d/%d\", \"shared\": %s, "
      "\"us\": %.2f, \"tflops\": %.1f, \"kv_gb_per_s\": %.0f, \"plan_us\": %.0f}\n",
      s.name, s.heads, s.kv_heads, shared ? "true" : "false", time, flops / time * 1e-6,
      bytes / time * 1e-3, plan_time.count());
  std::fflush(stdout);
}

void bench_gemm(ops::Device& device) {
  struct {
    const char* name;
    int64_t n, k;
  } const layers[] = {
      {"8B qkv", 6144, 4096}, {"8B gate up", 24576, 4096}, {"8B down", 4096, 12288}};
  for (const auto& layer : layers) {
    ops::Matrix w;
    w.type = ops::DType::kBf16;
    w.n = layer.n;
    w.k = w.k_padded = layer.k;
    const Memory weights(device, w.bytes());
    w.data = weights.data();
    for (const int64_t rows : {64, 1024, 4096, 8192}) {
      const int64_t ld = device.act_ld(layer.k);
      const Memory x(device, static_cast<size_t>(rows * ld) * 2),
          y(device, static_cast<size_t>(rows * layer.n) * 4);
      char last[4];
      const double time = microseconds(
          [&] {
            device.linear(w, nullptr, {x.data(), ld}, rows, reinterpret_cast<float*>(y.data()),
                          layer.n, false);
          },
          [&] { device.download(last, y.data(), sizeof last); });
      std::printf(
          "{\"bench\": \"gemm\", \"layer\": \"%s\", \"rows\": %lld, \"n\": %lld, \"k\": %lld, "
          "\"us\": %.2f, \"tflops\": %.1f}\n",
          layer.name, static_cast<long long>(rows), static_cast<long long>(layer.n),
          static_cast<long long>(layer.k), time,
          2.0 * static_cast<double>(rows) * static_cast<double>(layer.n * layer.k) / time * 1e-6);
      std::fflush(stdout);
    }
  }
}

// (32, 2048, 256): one score for each of 32 sequences behind one prefix, shared and not.
void bench_engine(const std::string& shape) {
  const std::string folder =
      (std::filesystem::temp_directory_path() / ("prefix-gpu-bench-" + shape)).string();
  const tools::CheckpointShape model = tools::named_shape(shape);
  tools::write_checkpoint(folder, model);
  double seconds[2] = {};
  for (const bool sharing : {true, false}) {
    Options options;
    options.set("device", "cuda");
    options.set("rows", "8192");
    options.set("cache", "false");
    options.set("sharing", sharing ? "true" : "false");
    const auto engine = Engine::create(folder, options, nullptr);
    double best = 1e9;
    for (int round = 0; round < 3; ++round) {
      std::mt19937 random(static_cast<unsigned>(round) + 1);
      const auto token = [&] {
        return static_cast<int32_t>(random() % static_cast<unsigned>(model.vocab));
      };
      std::vector<int32_t> prefix(2048);
      for (int32_t& t : prefix) t = token();
      std::vector<RequestSpec> batch(32);
      for (RequestSpec& spec : batch) {
        spec.task = Task::kLogits;
        spec.tokens = prefix;
        for (int i = 0; i < 256; ++i) spec.tokens.push_back(token());
        spec.logit_ids = {1};
      }
      const auto start = std::chrono::steady_clock::now();
      const auto job = engine->submit(std::move(batch));
      job->wait(-1);
      const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
      if (job->result(0).status != Code::kOk) fail(job->result(0).status, job->result(0).message);
      best = std::min(best, time.count());
    }
    seconds[sharing ? 0 : 1] = best;
  }
  std::filesystem::remove_all(folder);
  std::printf(
      "{\"bench\": \"engine\", \"model\": \"%s\", \"shape\": \"32,2048,256\", \"shared_ms\": %.1f, "
      "\"unshared_ms\": %.1f, \"speedup\": %.2f}\n",
      shape.c_str(), seconds[0] * 1e3, seconds[1] * 1e3, seconds[1] / seconds[0]);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    std::vector<std::string> wanted(argv + 1, argv + argc);
    if (wanted.empty()) wanted = {"--attention", "--gemm"};
    const auto device = ops::make_device({"cuda", ops::DType::kBf16, "auto", 1, false});
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i] == "--attention") {
        for (const Shape& s : kShapes)
          for (const bool shared : {true, false})
            if (shared || s.rows == 1) bench_attention(*device, s, shared);
      } else if (wanted[i] == "--gemm") {
        bench_gemm(*device);
      } else if (wanted[i] == "--engine" && i + 1 < wanted.size()) {
        bench_engine(wanted[++i]);
      } else {
        std::fprintf(stderr, "gpu_bench: unknown argument %s\n", wanted[i].c_str());
        return 2;
      }
    }
    return 0;
  } catch (const Error& e) {
    if (e.code() == Code::kUnsupportedDevice) {
      JsonText json;
      json.open('{').field("bench", "gpu").field("not_run", e.message()).close('}');
      std::printf("%s\n", json.text().c_str());
      return 0;
    }
    std::fprintf(stderr, "gpu_bench: %s\n", e.message().c_str());
    return 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "gpu_bench: %s\n", e.what());
    return 1;
  }
}
