// prefix kld: how far the predictions under one setting are from those under another, on a text.
//
//   text -> tokens -> sequences of --context tokens
//   a sequence  t0 t1 t2 ... tn      a request each for [t0], [t0 t1], ...: the logits of all ids after
//               [..]                 it. The tree computes every token once.
//               [.....]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "api.h"
#include "args.h"
#include "commands.h"
#include "common.h"
#include "engine_args.h"
#include "files.h"
#include "progress.h"
#include "text.h"

namespace prefix_cli {
namespace {

// Positions whose logits are held at a time, on both sides.
constexpr size_t kAtOnce = 32;

struct Statistics {
  std::vector<double> divergence;  // of each position
  int64_t same_top = 0;
  double probability_square = 0;  // of the change of the text's own next token
  double base_loss = 0, test_loss = 0;

  // The distributions after a position; `next` is the token that the text has there.
  void add(const std::vector<float>& base, const std::vector<float>& test, int32_t next);
};

// log of the sum of e^x, in f64.
double log_sum(const std::vector<float>& x) {
  const double largest = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (const float v : x) sum += std::exp(v - largest);
  return largest + std::log(sum);
}

void Statistics::add(const std::vector<float>& base, const std::vector<float>& test, int32_t next) {
  const double of_base = log_sum(base), of_test = log_sum(test);
  double kld = 0;
  for (size_t i = 0; i < base.size(); ++i) {
    const double log_base = base[i] - of_base;
    // Less p and more q than p log(p / q): both add up to 1, and no term is negative then.
    const double difference = log_base - (test[i] - of_test);
    kld += std::exp(log_base) * (difference + std::expm1(-difference));
  }
  divergence.push_back(kld);
  const auto top = [](const std::vector<float>& x) {
    return std::max_element(x.begin(), x.end()) - x.begin();
  };
  same_top += top(base) == top(test) ? 1 : 0;
  const auto at = static_cast<size_t>(next);
  const double log_base = base[at] - of_base, log_test = test[at] - of_test;
  const double change = std::exp(log_test) - std::exp(log_base);
  probability_square += change * change;
  base_loss -= log_base;
  test_loss -= log_test;
}

std::string read_all(const std::string& path) { return Input("--text", path).read_all(); }

// The options of one side: those of both and then its own KEY=VALUE.
OptionList options_of(const Args& args, const char* flag) {
  OptionList options = engine_options(args), own;
  for (const std::string& text : args.all(flag)) {
    const size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos)
      fail(flag, " ", shown(text), " is not KEY=VALUE");
    own.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  refuse_contradictions(own);
  options.insert(options.end(), own.begin(), own.end());
  return options;
}

int64_t vocabulary_of(const Engine& engine) {
  return nlohmann::json::parse(engine.info_json()).at("model").at("vocab_size");
}

// The logits of all ids after each of the positions [first, end) of a sequence.
std::vector<std::vector<float>> logits_of(Engine& engine, const std::vector<int32_t>& tokens,
                                          size_t first, size_t end, const Request& request) {
  Batch batch(engine);
  for (size_t i = first; i < end; ++i)
    add(batch, request,
        Prepared{{tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(i) + 1}, {}, 1, {}});
  const Job job = engine.run(batch);
  std::vector<std::vector<float>> rows;
  for (size_t i = 0; i < end - first; ++i) {
    Result result = result_of(job, i, {});
    if (!result.ok()) fail("position ", first + i, ": ", result.message);
    rows.push_back(std::move(result.values));
  }
  return rows;
}

// The value that a share of the positions stays below.
double quantile(const std::vector<double>& sorted, double share) {
  const auto at = static_cast<size_t>(share * static_cast<double>(sorted.size()));
  return sorted[std::min(at, sorted.size() - 1)];
}

nlohmann::ordered_json report_of(Statistics& s) {
  std::sort(s.divergence.begin(), s.divergence.end());
  const auto n = static_cast<double>(s.divergence.size());
  double sum = 0;
  for (const double d : s.divergence) sum += d;
  return {{"positions", s.divergence.size()},
          {"kld_mean", sum / n},
          {"kld_median", quantile(s.divergence, 0.5)},
          {"kld_99", quantile(s.divergence, 0.99)},
          {"kld_999", quantile(s.divergence, 0.999)},
          {"kld_max", s.divergence.back()},
          {"same_top", static_cast<double>(s.same_top) / n},
          {"rms_change", std::sqrt(s.probability_square / n)},
          {"perplexity_base", std::exp(s.base_loss / n)},
          {"perplexity_test", std::exp(s.test_loss / n)}};
}

void print_report(const nlohmann::ordered_json& r) {
  const auto line = [&](const char* what, const char* key, double factor, const char* unit) {
    std::printf("  %-34s %12.6f%s\n", what, r[key].get<double>() * factor, unit);
  };
  std::printf("%lld positions\n", static_cast<long long>(r["positions"].get<int64_t>()));
  line("KL divergence, mean", "kld_mean", 1, "");
  line("median", "kld_median", 1, "");
  line("99% are below", "kld_99", 1, "");
  line("99.9% are below", "kld_999", 1, "");
  line("largest", "kld_max", 1, "");
  line("same most likely token", "same_top", 100, " %");
  line("change of the probability, RMS", "rms_change", 100, " %");
  line("perplexity, base", "perplexity_base", 1, "");
  line("perplexity, test", "perplexity_test", 1, "");
}

}  // namespace

int kld_command(const Args& args) {
  const std::string base_path = args.need("--model");
  const std::string test_path = args.get("--test-model", base_path);
  const std::string text = read_all(args.need("--text"));
  const int64_t context = args.get_int("--context", 512, 2, 1 << 20);
  const int64_t most = args.get_int("--tokens", int64_t{1} << 40, 2, int64_t{1} << 40);
  const OptionList base_options = options_of(args, "--base");
  const OptionList test_options = options_of(args, "--test");
  Progress progress("prefix kld", args.choice("--progress", "auto", "auto|on|off"));
  const auto on_load = [&](double fraction) { progress.show_load(fraction); };
  Engine base = open_engine(base_path, base_options, on_load);
  Engine test = open_engine(test_path, test_options, on_load);
  progress.clear();
  Warnings warnings("prefix kld");
  for (const Engine* engine : {&base, &test}) warnings.tell(*engine);
  const int64_t vocabulary = vocabulary_of(base);
  if (vocabulary != vocabulary_of(test))
    fail("--model has ", vocabulary, " token ids and --test-model ", vocabulary_of(test),
         "; they must have the same");
  LazyText tokenizer(base_path);
  std::vector<int32_t> tokens = tokenizer.need().encode(text, Text::Encode::kPlain);
  if (static_cast<int64_t>(tokens.size()) > most) tokens.resize(static_cast<size_t>(most));
  // A tokenizer may have tokens that were added behind those of the model.
  for (const int32_t token : tokens)
    if (token >= vocabulary)
      fail("--text has token id ", token, "; the model has ids in [0, ", vocabulary, ")");
  if (tokens.size() < 2) fail("--text has ", tokens.size(), " tokens; at least 2 are needed");

  Request request;
  request.task = Task::kLogits;
  for (int64_t id = 0; id < vocabulary; ++id) request.ids.push_back(static_cast<int32_t>(id));
  Statistics statistics;
  for (size_t begin = 0; begin + 1 < tokens.size(); begin += static_cast<size_t>(context)) {
    const size_t end = std::min(tokens.size(), begin + static_cast<size_t>(context));
    const std::vector<int32_t> sequence(tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                                        tokens.begin() + static_cast<std::ptrdiff_t>(end));
    // Nothing is known of what follows the last one.
    for (size_t first = 0; first + 1 < sequence.size(); first += kAtOnce) {
      progress.show(static_cast<int64_t>(begin + first), static_cast<int64_t>(tokens.size()));
      const size_t last = std::min(sequence.size() - 1, first + kAtOnce);
      const auto of_base = logits_of(base, sequence, first, last, request);
      const auto of_test = logits_of(test, sequence, first, last, request);
      for (size_t i = first; i < last; ++i)
        statistics.add(of_base[i - first], of_test[i - first], sequence[i + 1]);
    }
  }
  progress.clear();
  const nlohmann::ordered_json report = report_of(statistics);
  if (args.has("--json"))
    std::cout << report.dump() << std::endl;
  else
    print_report(report);
  return kExitOk;
}

}  // namespace prefix_cli
