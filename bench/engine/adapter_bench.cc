// Batches with eight adapters, with one and with none, in turns; prefixes are shared in all by eights.
#include <string>
#include <vector>

#include "../folder.h"
#include "../line.h"
#include "batches.h"
#include "engine/engine.h"
#include "random_adapter.h"

namespace {

using namespace prefix;  // a program, not a header
using bench::median;
using bench::Run;
using bench::run;

constexpr int kAdapters = 8;

struct Settings {
  std::string shape, isa = "auto";
  int layers = 0, threads = 2, pairs = 5, rank = 16;
  tools::PeftAdapter adapter{.alpha = 32};
  std::vector<bench::BatchShape> batches;
};

void measure(Engine& engine, const Settings& s, const bench::BatchShape& shape) {
  const std::vector<RequestSpec> plain =
      bench::make_batch(shape, kAdapters, engine.info().vocab_size);
  std::vector<RequestSpec> adapted = plain, one = plain;
  for (size_t i = 0; i < adapted.size(); ++i) {
    adapted[i].adapter = "a" + std::to_string(i % kAdapters);
    one[i].adapter = "a0";
  }
  std::vector<double> times, cpu, of_eight, of_one;
  run(engine, adapted);
  Run without;
  for (int pair = 0; pair < s.pairs; ++pair) {
    without = run(engine, plain);
    const Run eight = run(engine, adapted);
    const Run single = run(engine, one);
    times.push_back(without.seconds);
    cpu.push_back(without.cpu_seconds);
    of_eight.push_back(eight.cpu_seconds / without.cpu_seconds);
    of_one.push_back(single.cpu_seconds / without.cpu_seconds);
  }
  const EngineInfo info = engine.info();
  bench::Line line("adapters");
  line.field("shape", s.shape).field("layers", info.layers).field("isa", info.isa);
  line.field("threads", s.threads).field("rank", s.rank);
  line.field("modules", s.adapter.modules.size()).list("batch", shape).field("rows", without.rows);
  line.field("seconds", median(times)).field("cpu_seconds", median(cpu));
  line.field("eight_adapters", median(of_eight)).field("one_adapter", median(of_one)).print();
}

void measure_all(Settings s) {
  tools::CheckpointShape shape = tools::named_shape(s.shape);
  if (s.layers > 0) shape.layers = s.layers;
  const bench::Folder folder;
  const std::string model = folder.path() + "/model";
  tools::write_checkpoint(model, shape);
  Options options;
  options.set("threads", std::to_string(s.threads));
  options.set("isa", s.isa);
  options.set("cache", "false");
  options.set("cache_bytes", "4G");
  const auto engine = Engine::create(model, options, nullptr);
  s.adapter.rank = s.rank;
  s.adapter.deviation = 0.01f;
  for (int i = 0; i < kAdapters; ++i) {
    const std::string name = cat("a", i);
    s.adapter.seed = static_cast<unsigned>(i) + 1;
    tools::write_adapter(folder.path() + "/" + name, shape, s.adapter);
    engine->load_adapter(name, folder.path() + "/" + name);
  }
  if (s.batches.empty()) s.batches = {{8, 0, 256}, {64, 256, 32}, {8, 0, 64, 64}, {64, 0, 32, 32}};
  for (const bench::BatchShape& batch : s.batches) measure(*engine, s, batch);
}

}  // namespace

int main(int argc, char** argv) {
  Settings s;
  bench::Program program(
      "adapter_bench",
      "what adapters cost: processor time of batches with eight of them, and with one, over that\n"
      "without, medians of pairs of runs in turns (eight_adapters, one_adapter)",
      "tiny --pairs 1 --prefill 8,32,8 --decode 8,16,8,4");
  program.argument("SHAPE", "of a model with random weights, as prefix-random-checkpoint takes it",
                   s.shape);
  program.option("--layers", "N", "of the model; 0: as many as it has", s.layers, 0, 1000);
  program.option("--threads", "N", "of the engine", s.threads, 1, 1024);
  program.option("--isa", "NAME", "level of the CPU", s.isa);
  program.option("--pairs", "N", "runs of each", s.pairs, 1, 1000);
  program.option("--rank", "N", "of the adapters", s.rank, 1, 4096);
  program.option("--modules", "LIST", "q_proj,v_proj and so on (default: all seven)",
                 [&](const std::string& list) { s.adapter.modules = bench::parts_of(list); });
  bench::add_shapes(program, s.batches);
  return program.run(argc, argv, [&] { measure_all(s); });
}
