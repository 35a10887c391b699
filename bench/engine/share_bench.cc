// Whole batches on a random checkpoint: shared against unshared, and against the machine's limit.
// Times are medians; the peak (registers only) and the memory bandwidth are measured in the same
// process between the runs. Of a model with recurrent layers the limit has the chunked form of the
// scans at the peak of f32 (bench/ops/scan_flops.h).
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "../line.h"
#include "../ops/scan_flops.h"
#include "batches.h"
#include "engine/engine.h"
#include "model/files/model_files.h"
#include "model/model_info.h"

namespace {

using namespace prefix;  // a program, not a header
using bench::median;

struct Settings {
  std::string checkpoint;
  std::string isa = "auto";
  std::string rows = "2048";
  int threads = 2;
  int pairs = 3;
  bool alone = false;
  bool cache = false;
};

// Of runs in turns, pair by pair.
double median_ratio(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> ratios;
  for (size_t i = 0; i < a.size(); ++i) ratios.push_back(a[i] / b[i]);
  return median(ratios);
}

// With which types: those of the weights, or f32 for scans.
double peak(const Settings& s, const ops::NumericTypes& types = ops::kBf16Types) {
  ops::CpuOptions options;
  options.types = types;
  options.isa = s.isa;
  options.threads = std::make_shared<Threads>(s.threads);
  ops::CpuDevice device(options);
  return bench::measure_peak(device);
}

// Bytes per second that all threads together read from memory.
double bandwidth(int threads) {
  Threads pool(threads);
  std::vector<uint64_t> data(size_t{512} << 17, 1);  // 512 MiB
  const size_t part = data.size() / static_cast<size_t>(threads);
  std::vector<uint64_t> sums(static_cast<size_t>(threads) * 8);
  const double time = bench::best_time(0.3, [&] {
    pool.run(threads, [&](int64_t t, int) {
      uint64_t sum[8] = {};
      const uint64_t* p = data.data() + static_cast<size_t>(t) * part;
      for (size_t i = 0; i + 8 <= part; i += 8)
        for (int k = 0; k < 8; ++k) sum[k] += p[i + static_cast<size_t>(k)];
      sums[static_cast<size_t>(t) * 8] =
          sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] + sum[7];
    });
  });
  return static_cast<double>(data.size() * 8) / time;
}

std::shared_ptr<Engine> make_engine(const Settings& s, bool sharing, bool cache = false) {
  Options options;
  options.set("threads", std::to_string(s.threads));
  options.set("isa", s.isa);
  options.set("rows", s.rows);
  options.set("cache_bytes", "12G");
  options.set("cache", cache ? "true" : "false");
  options.set("sharing", sharing ? "true" : "false");
  return Engine::create(s.checkpoint, options, nullptr);
}

std::vector<int32_t> random_tokens(std::mt19937& random, int n, int32_t vocab) {
  std::vector<int32_t> tokens(static_cast<size_t>(n));
  for (int32_t& t : tokens) t = static_cast<int32_t>(random() % static_cast<unsigned>(vocab));
  return tokens;
}

std::vector<RequestSpec> make_batch(int count, int shared, int own, int generate, int32_t vocab,
                                    unsigned seed = 1) {
  std::mt19937 random(seed);
  const std::vector<int32_t> prefix = random_tokens(random, shared, vocab);
  std::vector<RequestSpec> batch(static_cast<size_t>(count));
  for (RequestSpec& r : batch) {
    r.tokens = prefix;
    for (int32_t t : random_tokens(random, own, vocab)) r.tokens.push_back(t);
    r.task = generate > 0 ? Task::kGenerate : Task::kLogits;
    r.logit_ids = {1, 2};
    r.sampling.max_tokens = std::max(1, generate);
    r.sampling.ignore_eos = true;
  }
  return batch;
}

struct Run {
  double seconds = 0;
  double cpu_seconds = 0;  // of all threads: steadier than `seconds` on a machine with other work
  JobTotals totals;
  EngineStats before, after;
  std::vector<std::vector<int32_t>> tokens;
};

Run run(Engine& engine, const std::vector<RequestSpec>& batch) {
  Run r;
  r.before = engine.stats();
  const double start = bench::seconds();
  const std::clock_t cpu_start = std::clock();
  const auto job = engine.submit(batch);
  job->wait(-1);
  r.seconds = bench::seconds() - start;
  r.cpu_seconds = static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC;
  r.totals = job->totals();
  r.after = engine.stats();
  for (size_t i = 0; i < job->count(); ++i) r.tokens.push_back(job->result(i).tokens);
  bench::require_results(*job);
  return r;
}

// What tokens cost: FLOP of the products with weights and of the scans for each, and attention for
// each (query, key), of it in a last layer that attends, which computes what is read of it alone.
struct Cost {
  double linear = 0, scan = 0, pair = 0, last_pair = 0;
  double heads = 0;     // products with the output, of a row that is read
  double kv_bytes = 0;  // of a token
};

struct Peaks {
  double weights = 0, f32 = 0;
};

Cost cost_of(const std::string& checkpoint, const ModelConfig& c) {
  const std::string info = model_info_json(checkpoint);
  const size_t at = info.find("\"flops_per_token\":");
  int32_t attention_layers = 0;
  for (int32_t layer = 0; layer < c.layers; ++layer)
    attention_layers += c.kind(layer) == LayerKind::kAttention;
  Cost cost;
  cost.heads = 2.0 * c.hidden * c.vocab_size;
  cost.linear = std::strtod(info.c_str() + at + 18, nullptr) - cost.heads;
  cost.pair = 4.0 * attention_layers * c.heads * c.head_dim;
  if (c.kind(c.layers - 1) == LayerKind::kAttention) cost.last_pair = 4.0 * c.heads * c.head_dim;
  cost.kv_bytes = 4.0 * attention_layers * c.kv_heads * c.head_dim;
  const RecurrentConfig& r = c.recurrent;
  if (r.state > 0)
    cost.scan = double(c.recurrent_count()) * r.heads *
                bench::chunked_flop(r.mixer == Mixer::kGatedDelta, r.head_dim, r.state);
  return cost;
}

double scan_seconds(const Cost& cost, const Peaks& peaks, double rows) {
  return cost.scan > 0 ? cost.scan * rows / peaks.f32 : 0;
}

double triangle(double from, double to) { return (to * (to + 1) - from * (from + 1)) / 2; }

bench::Line line_of(const char* kind, const std::string& shape, const Settings& s,
                    const ModelConfig& c, const Run& r, const EngineInfo& info) {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const double total = static_cast<double>(r.after.run_ns - r.before.run_ns);
  const auto share = [&](int64_t after, int64_t before) {
    return static_cast<double>(after - before) / total;
  };
  bench::Line line(kind);
  line.field("shape", shape).field("layers", c.layers).field("isa", info.isa);
  line.field("dtype", info.dtype).field("threads", s.threads);
  line.field("tokens_given", r.totals.tokens_given).field("rows", r.totals.rows);
  line.field("steps", r.totals.steps);
  line.field("gemm_share", share(r.after.gemm_ns, r.before.gemm_ns));
  line.field("attention_share", share(r.after.attention_ns, r.before.attention_ns));
  line.field("other_share", share(r.after.other_ns, r.before.other_ns));
  line.field("plan_ms", static_cast<double>(r.after.plan_ns - r.before.plan_ns) * 1e-6);
  line.field("kv_peak_mb", static_cast<double>(r.after.kv_bytes_peak) * 1e-6);
  line.field("activation_peak_mb", static_cast<double>(r.after.activation_bytes_peak) * 1e-6);
  line.field("rss_peak_mb", static_cast<double>(usage.ru_maxrss) * 1e-3);
  return line;
}

// The least time that the machine needs, and what share of `seconds` that is. `flops`: of all
// products with weights.
void add_limit(bench::Line& line, const Settings& s, const Cost& cost, double flops,
               double weight_bytes, double state_bytes, const bench::BatchShape& shape,
               const Peaks& peaks, double seconds) {
  const int count = shape[0], shared = shape[1], own = shape[2];
  const int generate = shape.size() > 3 ? shape[3] : 0;
  const double pairs = triangle(0, shared) + count * triangle(shared, shared + own);
  const double last_pairs = static_cast<double>(count) * (shared + own);
  double limit =
      ((cost.pair - cost.last_pair) * pairs + cost.last_pair * last_pairs) / peaks.weights +
      scan_seconds(cost, peaks, shared + static_cast<double>(count) * own);
  double prefill = flops;
  if (generate > 0) {
    // A step computes one row per question and reads the weights, every key and the questions'
    // states once.
    const double rate = bandwidth(s.threads);
    const double products = count * (cost.linear + cost.heads);
    for (int t = 1; t < generate; ++t) {
      const double keys = shared + own + t;
      prefill -= products;
      const double compute =
          (products + cost.pair * count * keys) / peaks.weights + scan_seconds(cost, peaks, count);
      const double bytes = weight_bytes +
                           cost.kv_bytes * (shared + static_cast<double>(count) * (own + t)) +
                           2.0 * count * state_bytes;
      limit += std::max(compute, bytes / rate);
    }
  }
  limit += prefill / peaks.weights;
  line.field("peak_gflops", peaks.weights * 1e-9).field("limit_s", limit);
  line.field("share_of_limit", limit / seconds);
  if (cost.scan > 0) line.field("f32_peak_gflops", peaks.f32 * 1e-9);
}

void bench_shape(const Settings& s, const ModelConfig& c, const bench::BatchShape& shape) {
  const bool decode = shape.size() > 3;
  const std::string text = bench::text_of(shape);
  const int count = shape[0], shared = shape[1], own = shape[2], generate = decode ? shape[3] : 0;
  const std::vector<RequestSpec> batch = make_batch(count, shared, own, generate, c.vocab_size);
  std::vector<double> with, without, with_cpu, without_cpu, cache_cpu, peaks, f32_peaks;
  Run first, plain, cached;
  const char* kind = decode ? "decode" : "prefill";
  std::shared_ptr<Engine> on = make_engine(s, true);
  std::shared_ptr<Engine> off = s.alone ? nullptr : make_engine(s, false);
  std::shared_ptr<Engine> cache = s.cache ? make_engine(s, true, true) : nullptr;
  for (Engine* engine : {on.get(), cache.get()})  // warm up
    if (engine != nullptr) run(*engine, make_batch(2, 64, 8, 2, c.vocab_size));
  for (int i = 0; i < s.pairs; ++i) {
    peaks.push_back(peak(s));
    first = run(*on, batch);
    with.push_back(first.seconds);
    with_cpu.push_back(first.cpu_seconds);
    peaks.push_back(peak(s));
    f32_peaks.push_back(peak(s, ops::kF32Types));
    if (cache) {  // other tokens each time: nothing of them is cached yet
      const auto seed = static_cast<unsigned>(2 + i);
      cached = run(*cache, make_batch(count, shared, own, generate, c.vocab_size, seed));
      cache_cpu.push_back(cached.cpu_seconds);
    }
    if (off) {
      plain = run(*off, batch);
      without.push_back(plain.seconds);
      without_cpu.push_back(plain.cpu_seconds);
    }
    std::fprintf(stderr, "%s %s: pair %d of %d, %.2f s%s\n", kind, text.c_str(), i + 1, s.pairs,
                 with.back(), off ? cat(" against ", without.back(), " s").c_str() : "");
  }
  const EngineInfo info = on->info();
  bench::Line line = line_of(kind, text, s, c, first, info);
  line.field("seconds", median(with));
  if (info.recurrent_layers > 0) {
    line.field("live_state_bytes", first.after.live_state_bytes_peak);
    line.field("layer_state_bytes", info.state_bytes / info.recurrent_layers);
  }
  add_limit(line, s, cost_of(s.checkpoint, c),
            static_cast<double>(first.after.gemm_flops - first.before.gemm_flops),
            static_cast<double>(on->stats().weight_bytes), static_cast<double>(info.state_bytes),
            shape, {median(peaks), median(f32_peaks)}, median(with));
  if (off) {
    line.field("unshared_s", median(without)).field("unshared_rows", plain.totals.rows);
    line.field("unshared_kv_mb", static_cast<double>(plain.after.kv_bytes_peak) * 1e-6);
    line.field("speedup", median_ratio(without, with)).field("unshared_cpu_s", median(without_cpu));
    line.field("cpu_speedup", median_ratio(without_cpu, with_cpu));
    line.field("same_tokens", plain.tokens == first.tokens);
  }
  line.field("cpu_s", median(with_cpu));
  if (cache) {
    line.field("cache_cpu_s", median(cache_cpu));
    line.field("cache_cost", median_ratio(cache_cpu, with_cpu) - 1);
    line.field("states_kept", cached.after.states - cached.before.states);
  }
  line.print();
}

}  // namespace

int main(int argc, char** argv) {
  Settings s;
  std::vector<bench::BatchShape> shapes;
  bench::Program program(
      "share_bench",
      "whole batches with sharing and without, in turns: seconds, their ratio (`speedup`), and the share\n"
      "of the time that the peak and the memory of this machine would take (`share_of_limit`)",
      "MODEL --pairs 1 --prefill 4,64,16 --decode 4,64,8,4");
  program.argument("CHECKPOINT", "a model: a directory or a .gguf file", s.checkpoint);
  program.option("--threads", "N", "of the engine", s.threads, 1, 1024);
  program.option("--isa", "NAME", "level of the CPU", s.isa);
  program.option("--pairs", "N", "runs of each", s.pairs, 1, 1000);
  program.option("--rows", "N", "most tokens of a step, the option rows of the engine", s.rows);
  program.flag("--alone", "without the runs that do not share", s.alone);
  program.flag("--cache", "with runs that keep what they compute", s.cache);
  bench::add_shapes(program, shapes);
  return program.run(argc, argv, [&] {
    if (shapes.empty())
      fail(Code::kInvalidArgument, "--prefill and --decode are both missing: nothing to measure");
    const ModelConfig config = open_model(s.checkpoint).config;
    for (const bench::BatchShape& shape : shapes) bench_shape(s, config, shape);
  });
}
