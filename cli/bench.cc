// prefix bench: the same batch with sharing on and off, in pairs.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>

#include "api.h"
#include "args.h"
#include "commands.h"
#include "common.h"
#include "engine_args.h"
#include "progress.h"

namespace prefix_cli {
namespace {

// B requests that share P tokens, have S tokens of their own and generate T more.
struct Shape {
  std::string name;
  int64_t requests = 0;
  int64_t shared = 0;
  int64_t own = 0;
  int64_t generate = 0;  // 0: the shape is scored, not continued
};

// What one run took: the difference of two readings of the engine's counters.
struct Sample {
  double seconds = 0;
  double gemm = 0;
  double gemm_flops = 0;
  double attention = 0;
  double other = 0;
  int64_t rows = 0;
  int64_t given = 0;
  int64_t generated = 0;
};

struct Side {
  std::vector<Sample> samples;
  int64_t kv_peak = 0;
  int64_t activation_peak = 0;
};

struct Comparison {
  Side shared, unshared;
  std::vector<double> ratios;  // of each pair
};

struct Model {
  int64_t vocab = 0;
  int64_t max_positions = 0;
  double peak = 0;  // FLOP/s, see measure_peak
  std::string isa;
  int64_t threads = 0;
};

std::vector<int64_t> read_numbers(std::string_view flag, const std::string& text, size_t count) {
  std::vector<int64_t> numbers;
  size_t begin = 0;
  while (begin <= text.size()) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    numbers.push_back(parse_int(flag, text.substr(begin, comma - begin), 0, 1 << 24));
    begin = comma + 1;
  }
  if (numbers.size() != count)
    fail(flag, " = ", shown(text), " has ", numbers.size(), " numbers; ", count, " are needed");
  return numbers;
}

// Of a batch, given and generated: what is beyond takes hours,
// and ids of more than memory holds end the process without a word.
constexpr int64_t kMaxTokens = int64_t{1} << 26;

std::vector<Shape> read_shapes(const Args& args) {
  std::vector<Shape> shapes;
  for (const std::string& text : args.all("--shape")) {
    const std::vector<int64_t> n = read_numbers("--shape", text, 3);
    shapes.push_back({"shape " + text, n[0], n[1], n[2], 0});
  }
  for (const std::string& text : args.all("--decode")) {
    const std::vector<int64_t> n = read_numbers("--decode", text, 4);
    shapes.push_back({"decode " + text, n[0], n[1], n[2], n[3]});
    if (n[3] < 1) fail("--decode ", shown(text), " generates 0 tokens; at least 1 is needed");
  }
  if (shapes.empty()) shapes.push_back({"shape 16,512,32", 16, 512, 32, 0});
  for (const Shape& shape : shapes) {
    if (shape.requests < 1) fail(shown(shape.name), " has 0 requests; at least 1 is needed");
    if (shape.shared + shape.own < 1)
      fail(shown(shape.name), " has 0 tokens; at least 1 is needed");
    const int64_t tokens = shape.requests * (shape.shared + shape.own + shape.generate);
    if (tokens > kMaxTokens)
      fail(shown(shape.name), " has ", tokens, " tokens; the limit is ", kMaxTokens);
  }
  return shapes;
}

Model read_model(const Engine& engine) {
  const nlohmann::json info = nlohmann::json::parse(engine.info_json());
  const nlohmann::json& m = info.at("model");
  Model model;
  model.vocab = m.at("vocab_size");
  model.max_positions = m.at("max_positions");
  model.isa = info.at("isa");
  model.threads = info.at("threads");
  return model;
}

std::vector<std::vector<int32_t>> make_prompts(const Shape& shape, int64_t vocab, uint64_t seed) {
  // The engine of the standard library, not its distributions: those differ between libraries.
  std::mt19937_64 random(seed);
  const auto draw = [&] { return static_cast<int32_t>(random() % static_cast<uint64_t>(vocab)); };
  std::vector<int32_t> shared(static_cast<size_t>(shape.shared));
  for (int32_t& token : shared) token = draw();
  std::vector<std::vector<int32_t>> prompts;
  for (int64_t i = 0; i < shape.requests; ++i) {
    prompts.push_back(shared);
    for (int64_t j = 0; j < shape.own; ++j) prompts.back().push_back(draw());
  }
  return prompts;
}

Sample measure(Engine& engine, const Shape& shape,
               const std::vector<std::vector<int32_t>>& prompts) {
  Request request;
  if (shape.generate > 0) {
    request.task = Task::kGenerate;
    request.options = {{"max_tokens", std::to_string(shape.generate)}, {"ignore_eos", "true"}};
  } else {
    request.task = Task::kLogits;
    request.ids = {0};
  }
  Batch batch(engine);
  for (const std::vector<int32_t>& tokens : prompts)
    add(batch, request, Prepared{tokens, {}, 1, {}});
  const prefix_engine_stats before = engine.stats();
  const auto start = std::chrono::steady_clock::now();
  const Job job = engine.run(batch);
  Sample sample;
  sample.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const prefix_engine_stats after = engine.stats();
  for (size_t i = 0; i < prompts.size(); ++i) {
    const Result result = result_of(job, i, {});
    if (!result.ok()) fail(shown(shape.name), ": request ", i, " failed: ", result.message);
  }
  sample.gemm = static_cast<double>(after.gemm_us - before.gemm_us) * 1e-6;
  sample.gemm_flops = static_cast<double>(after.gemm_flops - before.gemm_flops);
  sample.attention = static_cast<double>(after.attention_us - before.attention_us) * 1e-6;
  sample.other = sample.seconds - sample.gemm - sample.attention;
  sample.rows = after.rows - before.rows;
  sample.given = after.tokens_given - before.tokens_given;
  sample.generated = after.tokens_generated - before.tokens_generated;
  return sample;
}

double gemm_rate(const Sample& s) { return s.gemm > 0 ? s.gemm_flops / s.gemm : 0; }

// A measured peak: the best rate of this model's own matrices on one prompt with many rows, where
// nothing but arithmetic counts. On a busy machine a later run may beat it; then that is the peak.
double measure_peak(Engine& engine, const Model& model, uint64_t seed) {
  const int64_t rows = std::min<int64_t>(512, model.max_positions);
  const Shape probe{"peak", 1, rows, 0, 0};
  const auto prompts = make_prompts(probe, model.vocab, seed);
  double best = 0;
  for (int i = 0; i < 3; ++i) {
    best = std::max(best, gemm_rate(measure(engine, probe, prompts)));
  }
  return best;
}

// On an engine of its own, so that the memory peaks of those that are compared are those of their
// shape, and with all the memory that it takes.
double probe_peak(const std::string& path, OptionList options, uint64_t seed,
                  const std::function<void(double)>& on_load) {
  std::erase_if(options, [](const auto& o) { return o.first == "cache_bytes"; });
  Engine probe = open_engine(path, options, on_load);
  return measure_peak(probe, read_model(probe), seed);
}

// Of both sides. Nothing may be left from the run before, or the second of a pair would find all in
// the cache.
OptionList common_options(const Args& args) {
  OptionList options = engine_options(args);
  if (std::ranges::find(options, "sharing", &OptionList::value_type::first) != options.end())
    fail("option sharing is what the two sides differ in; bench sets it itself");
  options.emplace_back("cache", "false");
  refuse_contradictions(options);
  return options;
}

OptionList with_sharing(OptionList options, const char* value) {
  options.emplace_back("sharing", value);
  return options;
}

Comparison compare(Engine& shared, Engine& unshared, const Shape& shape,
                   const std::vector<std::vector<int32_t>>& prompts, int64_t pairs,
                   Progress& progress) {
  Comparison found;
  for (int64_t pair = -1; pair < pairs; ++pair) {
    progress.show(std::max<int64_t>(pair, 0), pairs);
    // The order turns around with every pair, so that neither side always comes first.
    Sample a;
    Sample b;
    if (pair % 2 == 0) {
      a = measure(shared, shape, prompts);
      b = measure(unshared, shape, prompts);
    } else {
      b = measure(unshared, shape, prompts);
      a = measure(shared, shape, prompts);
    }
    if (pair < 0) continue;  // warm-up
    found.shared.samples.push_back(a);
    found.unshared.samples.push_back(b);
    found.ratios.push_back(b.seconds / a.seconds);
  }
  progress.clear();
  for (auto& [side, engine] : {std::pair<Side&, Engine&>{found.shared, shared},
                               std::pair<Side&, Engine&>{found.unshared, unshared}}) {
    const prefix_engine_stats stats = engine.stats();
    side.kv_peak = stats.kv_bytes_peak;
    side.activation_peak = stats.activation_bytes_peak;
  }
  return found;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

template <typename Field>
double median_of(const Side& side, const Field& field) {
  std::vector<double> values;
  for (const Sample& sample : side.samples) values.push_back(field(sample));
  return median(std::move(values));
}

// The run in the middle, so that its parts add up to its whole.
Sample median_sample(const Side& side) {
  std::vector<Sample> samples = side.samples;
  std::sort(samples.begin(), samples.end(),
            [](const Sample& a, const Sample& b) { return a.seconds < b.seconds; });
  return samples[(samples.size() - 1) / 2];
}

nlohmann::ordered_json side_json(const Side& side, const Model& model) {
  const Sample s = median_sample(side);
  const double rate = gemm_rate(s);
  const double seconds = median_of(side, [](const Sample& x) { return x.seconds; });
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Sample& x : side.samples) all.push_back(x.seconds);
  return {{"seconds", seconds},
          {"samples", std::move(all)},
          {"rows", s.rows},
          {"tokens_per_second", static_cast<double>(s.given + s.generated) / seconds},
          {"gemm_seconds", s.gemm},
          {"attention_seconds", s.attention},
          {"other_seconds", s.other},
          {"gemm_gflop", s.gemm_flops * 1e-9},
          {"gemm_gflops_per_second", rate * 1e-9},
          {"gemm_share_of_peak", model.peak > 0 ? rate / model.peak : 0.0},
          {"kv_peak_bytes", side.kv_peak},
          {"activation_peak_bytes", side.activation_peak}};
}

nlohmann::ordered_json report_of(const Shape& shape, const Comparison& found, const Model& model) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const Sample& shared = found.shared.samples[0];
  const Sample& unshared = found.unshared.samples[0];
  return {{"name", shape.name},
          {"requests", shape.requests},
          {"shared_tokens", shape.shared},
          {"own_tokens", shape.own},
          {"generated_tokens", shape.generate},
          {"tokens_given", shared.given},
          {"pairs", found.ratios.size()},
          {"ratio", median(found.ratios)},
          {"isa", model.isa},
          {"threads", model.threads},
          {"rss_peak_bytes", int64_t{usage.ru_maxrss} * 1024},
          {"peak_gflops_per_second", model.peak * 1e-9},
          {"shared", side_json(found.shared, model)},
          {"unshared", side_json(found.unshared, model)},
          {"rows_ratio", static_cast<double>(unshared.rows) /
                             static_cast<double>(std::max<int64_t>(shared.rows, 1))}};
}

void print_row(const char* name, const nlohmann::ordered_json& side) {
  const auto number = [&](const char* key) { return side[key].get<double>(); };
  const double seconds =
      number("gemm_seconds") + number("attention_seconds") + number("other_seconds");
  const auto share = [&](const char* key) { return 100 * number(key) / seconds; };
  std::printf("  %-9s %10.4f %10lld %12.0f %6.1f %6.1f %6.1f %9.1f %6.1f %9.1f %9.1f\n", name,
              number("seconds"), static_cast<long long>(side["rows"].get<int64_t>()),
              number("tokens_per_second"), share("gemm_seconds"), share("attention_seconds"),
              share("other_seconds"), number("gemm_gflops_per_second"),
              100 * number("gemm_share_of_peak"), number("kv_peak_bytes") / (1 << 20),
              number("activation_peak_bytes") / (1 << 20));
}

void print_table(const nlohmann::ordered_json& out) {
  std::printf("%s: %lld requests, %lld tokens given, %s, %lld threads\n",
              out["name"].get<std::string>().c_str(),
              static_cast<long long>(out["requests"].get<int64_t>()),
              static_cast<long long>(out["tokens_given"].get<int64_t>()),
              out["isa"].get<std::string>().c_str(),
              static_cast<long long>(out["threads"].get<int64_t>()));
  std::printf("  %-9s %10s %10s %12s %6s %6s %6s %9s %6s %9s %9s\n", "", "seconds", "rows",
              "tokens/s", "gemm%", "attn%", "rest%", "GFLOP/s", "peak%", "KV MiB", "act MiB");
  print_row("shared", out["shared"]);
  print_row("unshared", out["unshared"]);
  std::printf("  unshared / shared: %.2f (median of %lld pairs), rows %.2f\n\n",
              out["ratio"].get<double>(), static_cast<long long>(out["pairs"].get<int64_t>()),
              out["rows_ratio"].get<double>());
}

}  // namespace

int bench_command(const Args& args) {
  const std::string path = args.need("--model");
  const std::vector<Shape> shapes = read_shapes(args);
  const int64_t pairs = args.get_int("--pairs", 3, 1, 1000);
  const auto seed = static_cast<uint64_t>(args.get_int("--seed", 1, 0, int64_t{1} << 62));
  Progress progress("prefix bench", args.choice("--progress", "auto", "auto|on|off"));

  const OptionList options = common_options(args);
  const OptionList shared_options = with_sharing(options, "true");
  const OptionList unshared_options = with_sharing(options, "false");

  Warnings warnings("prefix bench");
  const auto on_load = [&](double fraction) { progress.show_load(fraction); };
  double peak = probe_peak(path, shared_options, seed, on_load);
  // Both engines live together, so that a pair runs back to back on an equally warm machine. Each
  // shape gets new ones, because peaks are counted since creation.
  for (const Shape& shape : shapes) {
    Engine shared = open_engine(path, shared_options, on_load);
    Engine unshared = open_engine(path, unshared_options, on_load);
    progress.clear();
    warnings.tell(shared);
    Model model = read_model(shared);
    const auto prompts = make_prompts(shape, model.vocab, seed);
    const Comparison found = compare(shared, unshared, shape, prompts, pairs, progress);
    for (const Side* side : {&found.shared, &found.unshared})
      for (const Sample& s : side->samples) peak = std::max(peak, gemm_rate(s));
    model.peak = peak;
    const nlohmann::ordered_json out = report_of(shape, found, model);
    if (args.has("--json"))
      std::cout << out.dump() << std::endl;
    else
      print_table(out);
    std::fflush(stdout);
  }
  return kExitOk;
}

}  // namespace prefix_cli
