// What the cache saves on a random checkpoint: the first token of a prompt that was seen before, in
// memory, on disk and in a snapshot, against a cold one; and many calls with one template.
//
//   cache_bench CHECKPOINT [--threads N] [--prefix P] [--calls C] [--documents D] [--runs N]
//
// JSON lines; times are medians of --runs.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "../ops/measure.h"
#include "engine/engine.h"

namespace {

using namespace prefix;  // a program, not a header
using bench::median;

struct Settings {
  std::string checkpoint;
  std::string threads = "0";
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
  options.set("threads", s.threads);
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
  if (job->result(0).status != Code::kOk) {
    std::fprintf(stderr, "failed: %s\n", job->result(0).message.c_str());
    std::exit(1);
  }
  return static_cast<double>(job->result(0).timing.first_us) * 1e-3;
}

void bench_first_token(const Settings& s) {
  std::mt19937 random(1);
  std::vector<double> cold, memory, disk, snapshot;
  const std::string file = s.folder + "/snapshot";
  const int32_t vocab = open(s, false)->info().vocab_size;
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
  std::printf(
      "{\"bench\":\"first_token\",\"prefix\":%d,\"own\":%d,\"cold_ms\":%.1f,\"memory_ms\":%.1f,"
      "\"disk_ms\":%.1f,\"snapshot_ms\":%.1f,\"memory_share\":%.4f,\"disk_share\":%.4f,"
      "\"snapshot_share\":%.4f}\n",
      s.prefix, kOwn, base, median(memory), median(disk), median(snapshot), median(memory) / base,
      median(disk) / base, median(snapshot) / base);
  std::fflush(stdout);
}

// --calls batches of --documents requests: a template of 48 tokens, a query of 16, a document.
void bench_calls(const Settings& s) {
  const auto engine = open(s, false);
  const int32_t vocab = engine->info().vocab_size;
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
  std::printf(
      "{\"bench\":\"calls\",\"calls\":%d,\"documents\":%d,\"tokens_given\":%lld,"
      "\"tokens_distinct\":%lld,\"first_rows\":%lld,\"first_s\":%.3f,\"second_rows\":%lld,"
      "\"second_rows_per_document\":%.3f,\"second_s\":%.3f}\n",
      s.calls, s.documents, static_cast<long long>(first.tokens_given),
      static_cast<long long>(64 + documents * kDocument), static_cast<long long>(first.rows),
      static_cast<double>(first.total_us) * 1e-6, static_cast<long long>(second.rows),
      static_cast<double>(second.rows) / static_cast<double>(documents),
      static_cast<double>(second.total_us) * 1e-6);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  Settings s;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const auto value = [&]() -> std::string {
      if (i + 1 < argc) return argv[++i];
      std::fprintf(stderr, "%s needs a value\n", arg.c_str());
      std::exit(2);
    };
    const auto number = [&] { return std::max(1, std::atoi(value().c_str())); };
    if (arg == "--threads")
      s.threads = value();
    else if (arg == "--prefix")
      s.prefix = number();
    else if (arg == "--calls")
      s.calls = number();
    else if (arg == "--documents")
      s.documents = number();
    else if (arg == "--runs")
      s.runs = number();
    else
      s.checkpoint = arg;
  }
  if (s.checkpoint.empty()) {
    std::fprintf(stderr,
                 "usage: %s CHECKPOINT [--threads N] [--prefix P] [--calls C] [--documents D] "
                 "[--runs N]\n",
                 argv[0]);
    return 2;
  }
  const auto folder =
      std::filesystem::temp_directory_path() / ("prefix-cache-bench-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  s.folder = folder.string();
  int status = 0;
  try {
    bench_first_token(s);
    bench_calls(s);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    status = 1;
  }
  std::filesystem::remove_all(folder);
  return status;
}
