// What the cache saves: the first token of a prompt that was seen before, in memory, on disk and in a
// snapshot, against a cold one; and many calls with one template. Times are medians.
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "../folder.h"
#include "../line.h"
#include "batches.h"
#include "engine/engine.h"

namespace {

using namespace prefix;  // a program, not a header
using bench::median;

struct Settings {
  std::string checkpoint;
  int threads = 0;
  std::string folder;
  int prefix = 2048;
  int calls = 16;
  int documents = 64;
  int runs = 3;
};

constexpr int kOwn = 8;        // tokens behind a prefix that are new every time
constexpr int kDocument = 16;  // tokens

std::shared_ptr<Engine> open(const Settings& s, bool disk) {
  Options options;
  options.set("threads", std::to_string(s.threads));
  options.set("cache_bytes", "8G");
  if (disk) options.set("cache_disk", s.folder + "/pages");
  options.set("cache_fetch_ms", "60000");
  return Engine::create(s.checkpoint, options, nullptr);
}

std::vector<int32_t> random_tokens(std::mt19937& random, int n, int32_t vocab) {
  std::vector<int32_t> tokens(static_cast<size_t>(n));
  for (int32_t& t : tokens) t = static_cast<int32_t>(random() % static_cast<unsigned>(vocab));
  return tokens;
}

RequestSpec prompt(const std::vector<int32_t>& prefix, const std::vector<int32_t>& own) {
  RequestSpec r;
  r.tokens = prefix;
  r.tokens.insert(r.tokens.end(), own.begin(), own.end());
  r.sampling.max_tokens = 1;
  return r;
}

// Milliseconds from submission to the first token.
double first_token(Engine& engine, const RequestSpec& request) {
  const auto job = engine.submit({request});
  job->wait(-1);
  bench::require_results(*job);
  return static_cast<double>(job->result(0).timing.first_us) * 1e-3;
}

void bench_first_token(const Settings& s) {
  std::mt19937 random(1);
  std::vector<double> cold, memory, disk, snapshot;
  const std::string file = s.folder + "/snapshot";
  const EngineInfo info = open(s, false)->info();
  const int32_t vocab = info.vocab_size;
  for (int i = 0; i < s.runs; ++i) {
    const auto prefix = random_tokens(random, s.prefix, vocab);
    const auto request = [&] { return prompt(prefix, random_tokens(random, kOwn, vocab)); };
    {
      const auto engine = open(s, true);
      first_token(*engine, prompt({}, random_tokens(random, 64, vocab)));  // warm up
      cold.push_back(first_token(*engine, request()));
      memory.push_back(first_token(*engine, request()));
      engine->save_snapshot(file, {});
    }
    {
      const auto engine = open(s, true);
      first_token(*engine, prompt({}, random_tokens(random, 64, vocab)));
      disk.push_back(first_token(*engine, request()));
    }
    {
      const auto engine = open(s, false);
      first_token(*engine, prompt({}, random_tokens(random, 64, vocab)));
      engine->load_snapshot(file);
      snapshot.push_back(first_token(*engine, request()));
    }
    std::fprintf(stderr, "first token: run %d of %d\n", i + 1, s.runs);
  }
  const double base = median(cold);
  bench::Line line("first_token");
  line.field("isa", info.isa).field("threads", info.threads);
  line.field("prefix", s.prefix).field("own", kOwn).field("cold_ms", base);
  line.field("memory_ms", median(memory)).field("disk_ms", median(disk));
  line.field("snapshot_ms", median(snapshot)).field("memory_share", median(memory) / base);
  line.field("disk_share", median(disk) / base).field("snapshot_share", median(snapshot) / base);
  line.print();
}

// --calls batches of --documents requests: a template of 48 tokens, a query of 16, a document.
void bench_calls(const Settings& s) {
  const auto engine = open(s, false);
  const EngineInfo info = engine->info();
  const int32_t vocab = info.vocab_size;
  std::mt19937 random(2);
  const auto front = random_tokens(random, 64, vocab);
  std::vector<std::vector<RequestSpec>> calls(static_cast<size_t>(s.calls));
  for (auto& call : calls) {
    for (int d = 0; d < s.documents; ++d) {
      RequestSpec r = prompt(front, random_tokens(random, kDocument, vocab));
      r.task = Task::kLogits;
      r.logit_ids = {1, 2};
      call.push_back(std::move(r));
    }
  }
  const auto pass = [&] {
    JobTotals sum;
    for (const auto& call : calls) {
      const auto job = engine->submit(call);
      job->wait(-1);
      bench::require_results(*job);
      const JobTotals t = job->totals();
      sum.tokens_given += t.tokens_given;
      sum.tokens_computed += t.tokens_computed;
      sum.rows += t.rows;
      sum.total_us += t.total_us;
    }
    return sum;
  };
  const JobTotals first = pass();
  const JobTotals second = pass();
  const int64_t documents = int64_t{s.calls} * s.documents;
  bench::Line line("calls");
  line.field("isa", info.isa).field("threads", info.threads);
  line.field("calls", s.calls).field("documents", s.documents);
  line.field("tokens_given", first.tokens_given);
  line.field("tokens_distinct", 64 + documents * kDocument).field("first_rows", first.rows);
  line.field("first_s", static_cast<double>(first.total_us) * 1e-6);
  line.field("second_rows", second.rows);
  line.field("second_rows_per_document",
             static_cast<double>(second.rows) / static_cast<double>(documents));
  line.field("second_s", static_cast<double>(second.total_us) * 1e-6).print();
}

}  // namespace

int main(int argc, char** argv) {
  Settings s;
  bench::Program program(
      "cache_bench",
      "what the cache saves: milliseconds to the first token of a prompt that memory, the disk or a\n"
      "snapshot holds, and their share of those of a cold one; rows and seconds of calls that repeat",
      "MODEL --threads 1 --prefix 64 --calls 2 --documents 4 --runs 1");
  program.argument("CHECKPOINT", "a model: a directory or a .gguf file", s.checkpoint);
  program.option("--threads", "N", "of the engine; 0: one per processor", s.threads, 0, 1024);
  program.option("--prefix", "N", "tokens of the prompt that was seen", s.prefix, 1, 1 << 20);
  program.option("--calls", "N", "with one template", s.calls, 1, 100000);
  program.option("--documents", "N", "of a call", s.documents, 1, 100000);
  program.option("--runs", "N", "of the first token", s.runs, 1, 1000);
  return program.run(argc, argv, [&] {
    const bench::Folder folder;
    s.folder = folder.path();
    bench_first_token(s);
    bench_calls(s);
  });
}
