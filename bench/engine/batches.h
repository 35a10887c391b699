// Batches of requests that benchmarks of engines run in turns, and what a run took.
#pragma once

#include <ctime>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "../ops/measure.h"
#include "../program.h"
#include "base/quote.h"
#include "base/status.h"
#include "engine/engine.h"

namespace prefix::bench {

inline std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> list;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) list.push_back(part);
  return list;
}

// Sets an option of an engine from KEY=VALUE; `what` gave it.
inline void set_option(Options& options, std::string_view what, const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == text.npos)
    fail(Code::kInvalidArgument, what, " = ", quote(text), " is not KEY=VALUE");
  options.set(text.substr(0, equals), text.substr(equals + 1));
}

// {B, P, S}: B requests of a prefix P and an own suffix S, one score each; {Q, P, S, T}: Q
// generations of T tokens.
using BatchShape = std::vector<int>;

inline BatchShape read_shape(std::string_view flag, const std::string& value) {
  const std::vector<std::string> parts = parts_of(value);
  const bool prefill = flag == "--prefill";
  if (parts.size() != (prefill ? 3u : 4u))
    fail(Code::kInvalidArgument, flag, " = ", quote(value), " is not ",
         prefill ? "B,P,S" : "Q,P,S,T", ", whole numbers with commas between");
  BatchShape shape;
  for (size_t i = 0; i < parts.size(); ++i)  // a prefix may be empty
    shape.push_back(static_cast<int>(read_number(flag, parts[i], i == 1 ? 0 : 1, 1 << 20)));
  return shape;
}

// --prefill and --decode, added to `shapes`.
inline void add_shapes(Program& program, std::vector<BatchShape>& shapes) {
  const auto add = [&shapes](std::string_view flag) {
    return [&shapes, flag](const std::string& value) { shapes.push_back(read_shape(flag, value)); };
  };
  program.option("--prefill", "B,P,S",
                 "B requests of a prefix of P tokens and S of their own, one score each",
                 add("--prefill"));
  program.option("--decode", "Q,P,S,T", "Q generations of T tokens behind such prompts",
                 add("--decode"));
}

inline std::string text_of(const BatchShape& shape) {
  std::string text;
  for (const int part : shape) text += cat(text.empty() ? "" : ",", part);
  return text;
}

// What is measured of a request that failed is nothing.
inline void require_results(const Job& job) {
  for (size_t i = 0; i < job.count(); ++i)
    if (const RequestResult& r = job.result(i); r.status != Code::kOk) fail(r.status, r.message);
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
  require_results(*job);
  return r;
}

}  // namespace prefix::bench
