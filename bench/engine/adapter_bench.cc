// What adapters cost: batches with eight of them against the same batches without, prefixes shared
// in both by eights.
//
//   adapter_bench SHAPE [--layers N] [--threads N] [--isa NAME] [--pairs N] [--rank N]
//                 [--modules q_proj,v_proj,...] [--prefill B,P,S]... [--decode Q,P,S,T]...
//
// SHAPE is one of tools/checkpoint; its model and adapters for all its layers are written to a
// folder that goes at the end. --prefill: B requests, each eighth of them with a prefix P of its own
// and own suffixes S, one score each. --decode: Q generations of T tokens. JSON lines: medians of
// pairs of runs in turns, of the processor time of all threads.
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <string>
#include <vector>

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
  int layers = 0, threads = 2, pairs = 5;
  tools::PeftAdapter adapter{.rank = 16, .alpha = 32};
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
  std::printf(
      "{\"bench\": \"adapters\", \"shape\": \"%s\", \"layers\": %d, \"isa\": \"%s\", "
      "\"threads\": %d, \"rank\": %d, \"modules\": %zu, ",
      s.shape.c_str(), engine.info().layers, engine.info().isa.c_str(), s.threads,
      static_cast<int>(s.adapter.rank), s.adapter.modules.size());
  bench::print_shape(shape);
  std::printf(
      ", \"rows\": %lld, \"seconds\": %.4g, \"cpu_seconds\": %.4g, "
      "\"eight_adapters\": %.4f, \"one_adapter\": %.4f}\n",
      static_cast<long long>(without.rows), median(times), median(cpu), median(of_eight),
      median(of_one));
  std::fflush(stdout);
}

int usage(const char* program) {
  std::fprintf(stderr,
               "usage: %s SHAPE [--layers N] [--threads N] [--isa NAME] [--pairs N] [--rank N]\n"
               "       [--modules LIST] [--prefill B,P,S]... [--decode Q,P,S,T]...\n",
               program);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return usage(argv[0]);
  Settings s;
  s.shape = argv[1];
  for (int i = 2; i < argc; i += 2) {
    const std::string flag = argv[i];
    if (i + 1 == argc) return usage(argv[0]);
    const std::string value = argv[i + 1];
    if (flag == "--layers")
      s.layers = std::atoi(value.c_str());
    else if (flag == "--threads")
      s.threads = std::atoi(value.c_str());
    else if (flag == "--isa")
      s.isa = value;
    else if (flag == "--pairs")
      s.pairs = std::atoi(value.c_str());
    else if (flag == "--rank")
      s.adapter.rank = std::atoi(value.c_str());
    else if (flag == "--modules")
      s.adapter.modules = bench::parts_of(value);
    else if (flag == "--prefill" || flag == "--decode") {
      s.batches.emplace_back();
      if (!bench::read_shape(flag, value, s.batches.back())) return usage(argv[0]);
    } else {
      return usage(argv[0]);
    }
  }
  if (s.batches.empty()) s.batches = {{8, 0, 256}, {64, 256, 32}, {8, 0, 64, 64}, {64, 0, 32, 32}};
  const std::string folder = (std::filesystem::temp_directory_path() /
                              ("adapter-bench-" + std::to_string(std::time(nullptr))))
                                 .string();
  int status = 0;
  try {
    tools::CheckpointShape shape = tools::named_shape(s.shape);
    if (s.layers > 0) shape.layers = s.layers;
    tools::write_checkpoint(folder + "/model", shape);
    Options options;
    options.set("threads", std::to_string(s.threads));
    options.set("isa", s.isa);
    options.set("cache", "false");
    options.set("cache_bytes", "4G");
    const auto engine = Engine::create(folder + "/model", options, nullptr);
    for (int i = 0; i < kAdapters; ++i) {
      const std::string name = "a" + std::to_string(i);
      s.adapter.seed = static_cast<unsigned>(i) + 1;
      s.adapter.deviation = 0.01f;
      tools::write_adapter(folder + "/" + name, shape, s.adapter);
      engine->load_adapter(name, folder + "/" + name);
    }
    for (const bench::BatchShape& batch : s.batches) measure(*engine, s, batch);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", argv[0], e.what());
    status = 1;
  }
  std::filesystem::remove_all(folder);
  return status;
}
