// One checkpoint under two settings, batches in turns: what an option costs or gains.
//
//   options_bench CHECKPOINT --a KEY=VALUE[,KEY=VALUE...] --b KEY=VALUE[,...] [--threads N] [--pairs N]
//                 [--prefill B,P,S]... [--decode Q,C,N,T]...
//
// --prefill: B sequences of a shared prefix P and an own suffix S, one score each, all at once.
// --decode: Q questions of N tokens over a context of C, T tokens each. JSON lines: processor time of
// all threads, medians; `speed` is the median of a's time over b's, pair by pair, and the parts are
// the share of each setting's own time.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "batches.h"
#include "engine/engine.h"

namespace {

using namespace prefix;  // a program, not a header
using bench::median;

struct Settings {
  std::string checkpoint, a, b;
  int threads = 2, pairs = 5;
  std::vector<bench::BatchShape> batches;
};

// An engine and what its runs took.
struct Side {
  std::string options;
  std::shared_ptr<Engine> engine;
  std::vector<double> seconds, cpu, gemm, attention;
  int64_t rows = 0;

  Side(const Settings& s, std::string list) : options(std::move(list)) {
    Options o;
    o.set("threads", std::to_string(s.threads));
    o.set("cache", "false");
    o.set("cache_bytes", "2G");
    for (const std::string& part : bench::parts_of(options)) {
      const size_t equals = part.find('=');
      o.set(part.substr(0, equals), equals == std::string::npos ? "" : part.substr(equals + 1));
    }
    engine = Engine::create(s.checkpoint, o, nullptr);
  }

  void run(const std::vector<RequestSpec>& batch) {
    const EngineStats before = engine->stats();
    const bench::Run r = bench::run(*engine, batch);
    seconds.push_back(r.seconds);
    cpu.push_back(r.cpu_seconds);
    rows = r.rows;
    const EngineStats after = engine->stats();
    const auto all = static_cast<double>(after.run_ns - before.run_ns);
    gemm.push_back(static_cast<double>(after.gemm_ns - before.gemm_ns) / all);
    attention.push_back(static_cast<double>(after.attention_ns - before.attention_ns) / all);
  }
  void print(const char* name) const {
    std::printf(
        ", \"%s\": {\"options\": \"%s\", \"seconds\": %.4g, \"cpu_seconds\": %.4g, "
        "\"gemm\": %.3f, \"attention\": %.3f}",
        name, options.c_str(), median(seconds), median(cpu), median(gemm), median(attention));
  }
};

void measure(const Settings& s, const bench::BatchShape& shape) {
  Side a(s, s.a), b(s, s.b);
  const std::vector<RequestSpec> batch = bench::make_batch(shape, 1, a.engine->info().vocab_size);
  for (int pair = -1; pair < s.pairs; ++pair) {
    a.run(batch);
    b.run(batch);
    if (pair >= 0) continue;  // the first touches memory
    for (Side* side : {&a, &b})
      for (auto* list : {&side->seconds, &side->cpu, &side->gemm, &side->attention}) list->clear();
  }
  std::vector<double> speed;
  for (size_t i = 0; i < a.cpu.size(); ++i) speed.push_back(a.cpu[i] / b.cpu[i]);
  std::printf("{\"bench\": \"options\", \"isa\": \"%s\", \"threads\": %d, \"layers\": %d, ",
              a.engine->info().isa.c_str(), s.threads, a.engine->info().layers);
  bench::print_shape(shape);
  std::printf(", \"rows\": %lld", static_cast<long long>(a.rows));
  a.print("a");
  b.print("b");
  std::printf(", \"speed\": %.3f}\n", median(speed));
  std::fflush(stdout);
}

int usage(const char* program) {
  std::fprintf(
      stderr,
      "usage: %s CHECKPOINT --a KEY=VALUE[,...] --b KEY=VALUE[,...] [--threads N] [--pairs N]\n"
      "       [--prefill B,P,S]... [--decode Q,C,N,T]...\n",
      program);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return usage(argv[0]);
  Settings s;
  s.checkpoint = argv[1];
  for (int i = 2; i < argc; i += 2) {
    const std::string flag = argv[i];
    if (i + 1 == argc) return usage(argv[0]);
    const std::string value = argv[i + 1];
    if (flag == "--a") {
      s.a = value;
    } else if (flag == "--b") {
      s.b = value;
    } else if (flag == "--threads") {
      s.threads = std::atoi(value.c_str());
    } else if (flag == "--pairs") {
      s.pairs = std::atoi(value.c_str());
    } else if (flag == "--prefill" || flag == "--decode") {
      s.batches.emplace_back();
      if (!bench::read_shape(flag, value, s.batches.back())) return usage(argv[0]);
    } else {
      return usage(argv[0]);
    }
  }
  try {
    for (const bench::BatchShape& batch : s.batches) measure(s, batch);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", argv[0], e.what());
    return 1;
  }
  return 0;
}
