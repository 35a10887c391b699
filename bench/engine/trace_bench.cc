// A trace of requests on a random checkpoint, one after the other: the time to the first token with a
// cache against the time without one.
//
// Answers are generated, and later prompts of the session have them in place of
// those of the trace. Each request goes to all engines before the next one, so that other work on the
// machine slows down all of them.
//
// The policy leaf-lru (leaves by last use, a use counts for the whole path) is not one of the engine's.
// What it would reuse comes from the simulated cache, and its times from a fit through all that was
// measured: first = a + b x computed tokens + c x pairs of them with those before. Its line says so, and
// fit_error is what the fit is wrong by for the other engines.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../line.h"
#include "base/error_text.h"
#include "base/json.h"
#include "batches.h"
#include "engine/engine.h"
#include "model/files/model_files.h"
#include "tree/hybrid_replay.h"

namespace {

using namespace prefix;  // a program, not a header

using Tokens = std::vector<int32_t>;

struct Settings {
  std::string checkpoint, trace, capacity;
  std::vector<std::string> policies;
  int threads = 0, scale = 1, requests = 1000000;
};

struct Run {
  uint64_t seed;
  int64_t length;
};

struct Request {
  std::vector<Run> prompt, answer;
};

std::vector<Run> runs_of(const Json& list, int64_t scale) {
  std::vector<Run> runs;
  for (const Json& run : list)
    runs.push_back(
        {run.at(0).get<uint64_t>(), std::max<int64_t>(1, run.at(1).get<int64_t>() / scale)});
  return runs;
}

std::vector<Request> read_trace(const Settings& s) {
  std::ifstream file(s.trace);
  if (!file) fail(Code::kIo, "cannot read ", quote_path(s.trace), ": ", error_text(errno));
  std::vector<Request> requests;
  for (std::string line; std::ssize(requests) < s.requests && std::getline(file, line);) {
    const std::string where = cat(s.trace, ", line ", requests.size() + 1);
    const JsonDocument json(parse_json(line, where));
    try {
      requests.push_back({runs_of(json.tree().at("input_runs"), s.scale),
                          runs_of(json.tree().at("output_runs"), s.scale)});
    } catch (const Json::exception&) {
      requests.emplace_back();
    }
    if (requests.back().prompt.empty() || requests.back().answer.empty())
      fail(Code::kFormat, where, " is no request as make_traces --encoding runs writes it");
  }
  if (!file.eof() && std::ssize(requests) < s.requests)
    fail(Code::kIo, "cannot read ", quote_path(s.trace), ": ", error_text(errno));
  if (requests.empty()) fail(Code::kFormat, quote_path(s.trace), " has no requests");
  return requests;
}

// The tokens of a run: splitmix64, as in tools/traces/make_traces.
Tokens text_of(const Run& run, int32_t vocab) {
  Tokens tokens;
  uint64_t state = run.seed;
  for (int64_t i = 0; i < run.length; ++i) {
    uint64_t z = state += 0x9E3779B97F4A7C15;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    tokens.push_back(
        static_cast<int32_t>((z ^ z >> 31) % static_cast<uint64_t>(std::min(vocab, 32000))));
  }
  return tokens;
}

struct Point {
  double tokens, reused, first_ms;

  std::array<double, 3> terms() const {
    return {1, tokens - reused, (tokens * tokens - reused * reused) / 2};
  }
};

// Least squares over (1, computed, pairs).
std::array<double, 3> fit(const std::vector<Point>& points) {
  double m[3][4] = {};
  for (const Point& p : points) {
    const std::array<double, 3> x = p.terms();
    for (size_t i = 0; i < 3; ++i) {
      for (size_t j = 0; j < 3; ++j) m[i][j] += x[i] * x[j];
      m[i][3] += x[i] * p.first_ms;
    }
  }
  for (size_t i = 0; i < 3; ++i)
    for (size_t k = 0; k < 3; ++k) {
      if (k == i) continue;
      const double factor = m[k][i] / m[i][i];
      for (size_t j = 0; j < 4; ++j) m[k][j] -= factor * m[i][j];
    }
  return {m[0][3] / m[0][0], m[1][3] / m[1][1], m[2][3] / m[2][2]};
}

double fitted(const std::array<double, 3>& f, const Point& p) {
  const std::array<double, 3> x = p.terms();
  return f[0] * x[0] + f[1] * x[1] + f[2] * x[2];
}

double percentile(std::vector<double> v, double share) {
  std::sort(v.begin(), v.end());
  return v[std::min(v.size() - 1, static_cast<size_t>(share * static_cast<double>(v.size())))];
}

struct Arm {
  std::string policy;
  std::shared_ptr<Engine> engine;
  std::vector<Point> points;

  std::vector<double> times() const {
    std::vector<double> all;
    for (const Point& p : points) all.push_back(p.first_ms);
    return all;
  }
};

std::shared_ptr<Engine> open(const Settings& s, const std::string& policy) {
  Options options;
  options.set("threads", std::to_string(s.threads));
  const bool cache = policy != "none";
  options.set("cache", cache ? "true" : "false");
  if (cache) options.set("cache_policy", policy);
  if (cache) options.set("cache_bytes", s.capacity);
  return Engine::create(s.checkpoint, options, nullptr);
}

// What it would reuse of the budget less two states, one that the engine sets aside and one that the
// request generates with.
HybridReplay leaf_lru(const EngineInfo& info, int64_t budget) {
  const int64_t page = 32 * info.kv_bytes_per_token;
  HybridOptions options;
  options.cost.state_bytes = (info.state_bytes + page - 1) / page * page;
  options.cost.kv_bytes = info.kv_bytes_per_token;
  options.cost.mlp_layers = 1;
  options.cost.mlp.linear = 1;
  options.method = HybridMethod::kLeafLru;
  options.capacity = budget - 2 * options.cost.state_bytes;
  options.admission.prompt = true;
  options.admission.max_states = 4;
  return HybridReplay(options);
}

bench::Line line_of(const Settings& s, const EngineInfo& info, const Arm& arm,
                    const std::vector<double>& times, double none_95) {
  double tokens = 0, reused = 0, sum = 0;
  for (const Point& p : arm.points) {
    tokens += p.tokens;
    reused += p.reused;
  }
  for (const double t : times) sum += t;
  const double p95 = percentile(times, 0.95);
  bench::Line line("trace");
  line.field("trace", s.trace).field("scale", s.scale).field("policy", arm.policy);
  line.field("isa", info.isa).field("threads", info.threads).field("capacity", s.capacity);
  line.field("requests", arm.points.size()).field("prompt_tokens", static_cast<int64_t>(tokens));
  line.field("hit_rate", reused / tokens).field("mean_ms", sum / static_cast<double>(times.size()));
  line.field("p50_ms", percentile(times, 0.5)).field("p95_ms", p95);
  line.field("p95_below_none", 1 - p95 / none_95);
  return line;
}

void replay(const Settings& s) {
  const std::vector<Request> trace = read_trace(s);
  const int32_t vocab = open_model(s.checkpoint).config.vocab_size;
  std::vector<Arm> arms;
  arms.push_back({"none", open(s, "none"), {}});
  for (const std::string& policy : s.policies) arms.push_back({policy, open(s, policy), {}});
  HybridReplay simulated =
      leaf_lru(arms[0].engine->info(), arms[1].engine->stats().kv_budget_bytes);
  Arm leaves{"leaf-lru", nullptr, {}};

  std::map<uint64_t, Tokens> generated;
  int64_t different = 0;
  for (const Request& r : trace) {
    RequestSpec spec;
    const auto add = [&](const Run& run) {
      const auto known = generated.find(run.seed);
      const Tokens text = known != generated.end() ? known->second : text_of(run, vocab);
      spec.tokens.insert(spec.tokens.end(), text.begin(), text.end());
    };
    for (const Run& run : r.prompt) add(run);
    for (size_t i = 0; i + 1 < r.answer.size(); ++i) add(r.answer[i]);  // its header
    spec.task = Task::kGenerate;
    spec.sampling.max_tokens = static_cast<int32_t>(r.answer.back().length);
    spec.sampling.ignore_eos = true;
    Tokens answer;
    for (Arm& arm : arms) {
      const auto job = arm.engine->submit({spec});
      job->wait(-1);
      const RequestResult& result = job->result(0);
      if (result.status != Code::kOk) fail(result.status, arm.policy, ": ", result.message);
      if (&arm == &arms.front()) answer = result.tokens;
      different += result.tokens != answer;
      arm.points.push_back({static_cast<double>(spec.tokens.size()),
                            static_cast<double>(result.usage.cached),
                            static_cast<double>(result.timing.first_us) * 1e-3});
    }
    Tokens all = spec.tokens;
    all.insert(all.end(), answer.begin(), answer.end());
    const auto prompt = static_cast<int64_t>(spec.tokens.size());
    const int64_t reused = simulated.look_up("", spec.tokens);
    simulated.insert("", all, prompt);
    leaves.points.push_back({static_cast<double>(prompt), static_cast<double>(reused), 0});
    generated[r.answer.back().seed] = answer;
    if (leaves.points.size() % 20 == 0)
      std::fprintf(stderr, "%zu of %zu requests\n", leaves.points.size(), trace.size());
  }

  std::vector<Point> measured;
  for (const Arm& arm : arms) measured.insert(measured.end(), arm.points.begin(), arm.points.end());
  const std::array<double, 3> f = fit(measured);
  for (Point& p : leaves.points) p.first_ms = fitted(f, p);
  const double none = percentile(arms[0].times(), 0.95);
  const EngineInfo info = arms[0].engine->info();
  for (const Arm& arm : arms) {
    std::vector<double> by_fit;
    for (const Point& p : arm.points) by_fit.push_back(fitted(f, p));
    const double error = percentile(by_fit, 0.95) / percentile(arm.times(), 0.95) - 1;
    bench::Line line = line_of(s, info, arm, arm.times(), none);
    line.field("p95_fit_error", error).field("different_answers", different).print();
  }
  line_of(s, info, leaves, leaves.times(), none).field("simulated", true).print();
  if (different > 0)
    fail(Code::kInternal, different, " answers differ from those of the engine without a cache");
}

}  // namespace

int main(int argc, char** argv) {
  Settings s;
  bench::Program program(
      "trace_bench",
      "requests of a trace one after the other, with a cache and without one: milliseconds to the\n"
      "first token, the share of prompts that the cache had, and what the cache takes off the p95",
      "MODEL --trace TRACE --capacity 64M --threads 1 --scale 8 --requests 12");
  program.argument("CHECKPOINT", "a model: a directory or a .gguf file", s.checkpoint);
  program.option("--trace", "FILE", "of tools/traces/make_traces --encoding runs; must be given",
                 s.trace);
  program.option("--capacity", "BYTES", "of the cache, suffixes K, M, G; must be given",
                 s.capacity);
  program.option("--policy", "NAME", "of an engine with a cache (default auto)",
                 [&](const std::string& name) { s.policies.push_back(name); });
  program.option("--threads", "N", "of each engine; 0: one per processor", s.threads, 0, 1024);
  program.option("--scale", "N", "texts of the trace are so many times shorter", s.scale, 1,
                 1 << 20);
  program.option("--requests", "N", "of the trace at most", s.requests, 1, s.requests);
  return program.run(argc, argv, [&] {
    if (s.trace.empty()) fail(Code::kInvalidArgument, "--trace is missing; see trace_bench --help");
    if (s.capacity.empty())
      fail(Code::kInvalidArgument, "--capacity is missing; see trace_bench --help");
    if (s.policies.empty()) s.policies.emplace_back("auto");
    replay(s);
  });
}
