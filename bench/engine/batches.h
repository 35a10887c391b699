// Batches of requests that benchmarks of engines run in turns, and what a run took.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "../ops/measure.h"
#include "engine/engine.h"

namespace prefix::bench {

inline std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> list;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) list.push_back(part);
  return list;
}

// {B, P, S}: B requests of a prefix P and an own suffix S, one score each; {Q, P, S, T}: Q
// generations of T tokens.
using BatchShape = std::vector<int>;

// Reads the value of --prefill or --decode; false if it has another number of parts.
inline bool read_shape(const std::string& flag, const std::string& value, BatchShape& shape) {
  for (const std::string& part : parts_of(value)) shape.push_back(std::atoi(part.c_str()));
  return shape.size() == (flag == "--prefill" ? 3u : 4u);
}

// The requests have `prefixes` different prefixes in turns.
inline std::vector<RequestSpec> make_batch(const BatchShape& b, int prefixes, int32_t vocab) {
  std::mt19937 random(1);
  const auto tokens = [&](int n) {
    std::vector<int32_t> list(static_cast<size_t>(n));
    for (int32_t& t : list) t = static_cast<int32_t>(random() % static_cast<unsigned>(vocab));
    return list;
  };
  std::vector<std::vector<int32_t>> shared;
  for (int i = 0; i < prefixes; ++i) shared.push_back(tokens(b[1]));
  std::vector<RequestSpec> batch(static_cast<size_t>(b[0]));
  for (size_t i = 0; i < batch.size(); ++i) {
    RequestSpec& r = batch[i];
    r.tokens = shared[i % shared.size()];
    for (const int32_t t : tokens(b[2])) r.tokens.push_back(t);
    r.task = b.size() > 3 ? Task::kGenerate : Task::kLogits;
    r.logit_ids = {1, 2};
    r.sampling.max_tokens = b.size() > 3 ? b[3] : 1;
    r.sampling.ignore_eos = true;
  }
  return batch;
}

// `cpu_seconds` are of all threads.
struct Run {
  double seconds = 0, cpu_seconds = 0;
  int64_t rows = 0;
};

inline Run run(Engine& engine, const std::vector<RequestSpec>& batch) {
  Run r;
  const double start = seconds();
  const std::clock_t cpu_start = std::clock();
  const auto job = engine.submit(batch);
  job->wait(-1);
  r.seconds = seconds() - start;
  r.cpu_seconds = static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC;
  r.rows = job->totals().rows;
  if (job->totals().failed > 0)
    std::fprintf(stderr, "failed: %s\n", job->result(0).message.c_str());
  return r;
}

inline void print_shape(const BatchShape& shape) {
  std::printf("\"batch\": [");
  for (size_t i = 0; i < shape.size(); ++i) std::printf("%s%d", i > 0 ? ", " : "", shape[i]);
  std::printf("]");
}

}  // namespace prefix::bench
