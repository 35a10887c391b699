// One model under two settings, batches in turns. `gemm` and `attention` are shares of each setting's own
// time.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../line.h"
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
    for (const std::string& part : bench::parts_of(options))
      bench::set_option(o, "an option", part);
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
  void print(bench::Line& line, const char* name) const {
    line.open(name).field("options", options).field("seconds", median(seconds));
    line.field("cpu_seconds", median(cpu)).field("gemm", median(gemm));
    line.field("attention", median(attention)).close();
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
  const EngineInfo info = a.engine->info();
  bench::Line line("options");
  line.field("isa", info.isa).field("threads", s.threads).field("layers", info.layers);
  line.list("batch", shape).field("rows", a.rows);
  a.print(line, "a");
  b.print(line, "b");
  line.field("speed", median(speed)).print();
}

}  // namespace

int main(int argc, char** argv) {
  Settings s;
  bench::Program program(
      "options_bench",
      "what an option costs or gains: processor time of batches under the settings a and b in turns,\n"
      "medians; `speed` is that of a over that of b, pair by pair",
      "MODEL --b compute=int8 --pairs 1 --prefill 4,32,8");
  program.argument("CHECKPOINT", "a model: a directory or a .gguf file", s.checkpoint);
  program.option("--a", "KEY=VALUE,...", "options of an engine (default: none)", s.a);
  program.option("--b", "KEY=VALUE,...", "those of the other", s.b);
  program.option("--threads", "N", "of each", s.threads, 1, 1024);
  program.option("--pairs", "N", "runs of each, behind one that does not count", s.pairs, 1, 1000);
  bench::add_shapes(program, s.batches);
  return program.run(argc, argv, [&] {
    if (s.batches.empty())
      fail(Code::kInvalidArgument, "--prefill and --decode are both missing: nothing to measure");
    for (const bench::BatchShape& batch : s.batches) measure(s, batch);
  });
}
