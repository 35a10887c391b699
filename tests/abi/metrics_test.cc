// prefix_metrics_text as a Prometheus server reads it: every line, and docs/metrics.md beside it.
#include <cmath>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "abi_support.h"

namespace prefix_abi {
namespace {

using Labels = std::map<std::string, std::string>;

struct Sample {
  std::string name;
  Labels labels;
  double value = 0;
};

struct Family {
  std::string type, help;
  std::vector<Sample> samples;
};

bool is_name(const std::string& text) {
  return !text.empty() &&
         text.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVW"
             "XYZ0123456789_") == std::string::npos &&
         (text[0] < '0' || text[0] > '9');
}

std::optional<double> number_of(const std::string& text) {
  if (text.empty()) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (*end != 0) return std::nullopt;
  return value;
}

// name{label="value",...} number
std::optional<Sample> sample_of(const std::string& line) {
  Sample sample;
  const size_t open = line.find('{');
  if (open == std::string::npos) return std::nullopt;
  sample.name = line.substr(0, open);
  size_t at = open + 1;
  for (;;) {
    const size_t equals = line.find("=\"", at);
    if (equals == std::string::npos) return std::nullopt;
    const std::string label = line.substr(at, equals - at);
    std::string value;
    for (at = equals + 2; at < line.size() && line[at] != '"'; ++at) {
      if (line[at] == '\\') ++at;
      if (at < line.size()) value += line[at];
    }
    if (!is_name(label) || !sample.labels.emplace(label, value).second) return std::nullopt;
    if (++at >= line.size()) return std::nullopt;
    if (line[at++] == ',') continue;
    if (line[at - 1] != '}' || at >= line.size() || line[at] != ' ') return std::nullopt;
    const std::optional<double> number = number_of(line.substr(at + 1));
    if (!number || !is_name(sample.name)) return std::nullopt;
    sample.value = *number;
    return sample;
  }
}

// Every line is one that the format knows, and every family is declared once, before its samples,
// which stand together.
std::map<std::string, Family> parse(const std::string& text) {
  std::map<std::string, Family> families;
  std::istringstream lines(text);
  std::string current;
  EXPECT_EQ(text.back(), '\n');
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# HELP ")) {
      std::istringstream words(line.substr(7));
      words >> current;
      EXPECT_FALSE(families.contains(current)) << line;
      std::getline(words >> std::ws, families[current].help);
      EXPECT_FALSE(families[current].help.empty()) << line;
      continue;
    }
    if (line.starts_with("# TYPE ")) {
      std::istringstream words(line.substr(7));
      std::string name;
      words >> name;
      EXPECT_EQ(name, current) << line;
      EXPECT_TRUE(families[current].type.empty() && families[current].samples.empty()) << line;
      words >> families[current].type;
      continue;
    }
    const std::optional<Sample> sample = sample_of(line);
    if (!sample) {
      ADD_FAILURE() << "what is this? " << line;
      continue;
    }
    const bool histogram = families[current].type == "histogram";
    const std::string suffix = sample->name.substr(std::min(current.size(), sample->name.size()));
    EXPECT_TRUE(sample->name.starts_with(current)) << line;
    EXPECT_TRUE(histogram ? suffix == "_bucket" || suffix == "_sum" || suffix == "_count"
                          : suffix.empty())
        << line;
    families[current].samples.push_back(*sample);
  }
  return families;
}

std::map<std::string, Family> metrics_of(const prefix_engine* engine) {
  return parse(text([&](char* buf, size_t cap, size_t* needed, prefix_error* e) {
    return prefix_metrics_text(engine, buf, cap, needed, e);
  }));
}

struct Totals {
  double count = 0, sum = 0;
  bool operator==(const Totals&) const = default;
};

// Buckets ascend and add up, and the last is the count.
Totals totals_of(const Family& family) {
  EXPECT_EQ(family.type, "histogram");
  double bound = -INFINITY, below = 0;
  std::map<std::string, double> ends;
  for (const Sample& s : family.samples) {
    const std::string suffix = s.name.substr(s.name.rfind('_'));
    if (suffix != "_bucket") {
      EXPECT_TRUE(ends.emplace(suffix, s.value).second);
      EXPECT_EQ(bound, INFINITY) << "the buckets come first";
      continue;
    }
    const std::string& text = s.labels.at("le");
    const double le = text == "+Inf" ? INFINITY : number_of(text).value_or(NAN);
    EXPECT_GT(le, bound) << s.name;
    EXPECT_GE(s.value, below) << s.name;
    bound = le, below = s.value;
  }
  EXPECT_EQ(ends.size(), 2u);
  EXPECT_EQ(ends["_count"], below);
  return {ends["_count"], ends["_sum"]};
}

// An engine that has all metrics, and a job of every kind of request, with some that fail.
struct Metrics : testing::Test {
  Metrics() {
    engine = make_engine({{"cache_disk", folder.path().c_str()}, {"name", "a \"b\"\\c"}});
    const Options options = make_options({{"max_tokens", "7"}, {"ignore_eos", "true"}});
    const Batch batch = make_batch(engine);
    for (int32_t i = 0; i < 3; ++i) add_generate(batch, {1, 2, 3, i}, options);
    add_logits(batch, Tokens(40, 9));
    add_logits(batch, {-1});
    // One that is refused when its turn comes.
    int32_t ns = 0;
    expect(PREFIX_OK, [&](prefix_error* e) {
      return prefix_namespace_open(engine, "small", PREFIX_NUL, &ns, e);
    });
    expect(PREFIX_OK,
           [&](prefix_error* e) { return prefix_cache_set_limits(engine, ns, 0, 10000, e); });
    add_logits(batch, Tokens(1000, 9), {0}, make_options({{"namespace", "small"}}));
    job = run(engine, batch);
    metrics = metrics_of(engine);
  }
  double value(const char* name) const { return metrics.at(name).samples.at(0).value; }
  Totals totals(const char* name) const { return totals_of(metrics.at(name)); }

  const prefix::testing_support::TempFolder folder;
  Engine engine;
  Job job;
  std::map<std::string, Family> metrics;
};

TEST_F(Metrics, EveryLineIsWhatTheFormatSays) {
  for (const auto& [name, family] : metrics) {
    EXPECT_TRUE(is_name(name)) << name;
    EXPECT_FALSE(family.samples.empty()) << name;
    std::set<std::pair<std::string, Labels>> series;
    for (const Sample& s : family.samples) {
      EXPECT_EQ(s.labels.at("model_name"), "a \"b\"\\c") << name;
      EXPECT_TRUE(series.emplace(s.name, s.labels).second) << name << " has a series twice";
      EXPECT_GE(s.value, 0) << name;
      EXPECT_TRUE(std::isfinite(s.value)) << name;
    }
    if (family.type == "histogram") {
      totals_of(family);
    } else {
      EXPECT_EQ(family.type, name.ends_with("_total") ? "counter" : "gauge") << name;
    }
  }
}

TEST_F(Metrics, HistogramsAreOfTheRequestsThatSucceeded) {
  double queue = 0, total = 0, first = 0, between = 0, prompt = 0;
  for (size_t i = 0; i < 4; ++i) {
    const prefix_result_info info = info_of(job, i);
    ASSERT_EQ(info.status, PREFIX_OK);
    queue += static_cast<double>(info.queue_us) * 1e-6;
    total += static_cast<double>(info.total_us) * 1e-6;
    prompt += static_cast<double>(info.prompt_tokens);
    if (info.generated_tokens == 0) continue;
    first += static_cast<double>(info.first_us) * 1e-6;
    between += static_cast<double>(info.total_us - info.first_us) * 1e-6;
  }
  EXPECT_EQ(totals("request_queue_time_seconds").count, 4);
  EXPECT_NEAR(totals("request_queue_time_seconds").sum, queue, 1e-9);
  EXPECT_EQ(totals("e2e_request_latency_seconds").count, 4);
  EXPECT_NEAR(totals("e2e_request_latency_seconds").sum, total, 1e-9);
  EXPECT_EQ(totals("request_prompt_tokens").count, 4);
  EXPECT_EQ(totals("request_prompt_tokens").sum, prompt);
  EXPECT_EQ(totals("request_generation_tokens").count, 3);
  EXPECT_EQ(totals("request_generation_tokens").sum, 21);
  EXPECT_EQ(totals("time_to_first_token_seconds").count, 3);
  EXPECT_NEAR(totals("time_to_first_token_seconds").sum, first, 1e-9);
  EXPECT_EQ(totals("inter_token_latency_seconds").count, 18);
  EXPECT_GT(totals("inter_token_latency_seconds").sum, 0);
  EXPECT_LE(totals("inter_token_latency_seconds").sum, between + 1e-5)
      << "the last token comes before the end";
  EXPECT_EQ(value("prefix_requests_finished_total"), 4);
  EXPECT_EQ(value("prefix_requests_failed_total"), 2);
  EXPECT_EQ(info_of(job, 5).status, PREFIX_ERR_CACHE_FULL);
}

TEST_F(Metrics, AValueIsInTheFirstBucketThatHoldsIt) {
  std::map<std::string, double> below;
  for (const Sample& s : metrics.at("request_prompt_tokens").samples)
    if (s.labels.contains("le")) below[s.labels.at("le")] = s.value;
  EXPECT_EQ(below["2"], 0);
  EXPECT_EQ(below["5"], 3) << "prompts of 4 tokens";
  EXPECT_EQ(below["20"], 3);
  EXPECT_EQ(below["50"], 4) << "one of 40";
  EXPECT_EQ(below["2000"], 4);
  EXPECT_FALSE(below.contains("5000")) << "longer than the longest sequence, 4,096 tokens";
  // A generation of 2 tokens is one of at most 2.
  const Batch batch = make_batch(engine);
  add_generate(batch, {1, 2}, make_options({{"max_tokens", "2"}, {"ignore_eos", "true"}}));
  run(engine, batch);
  const auto all = metrics_of(engine);
  for (const Sample& s : all.at("request_generation_tokens").samples)
    EXPECT_TRUE(!s.labels.contains("le") || s.labels.at("le") != "2" || s.value == 1) << s.value;
}

// What was counted stays; of what is held now nothing does.
TEST_F(Metrics, CountsOutliveTheEngine) {
  const prefix_engine_stats before = stats_of(engine);
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_engine_shutdown(engine, 1000, e); });
  const prefix_engine_stats after = stats_of(engine);
  EXPECT_GT(after.requests_finished, 0);
  EXPECT_EQ(after.requests_finished, before.requests_finished);
  EXPECT_EQ(after.requests_failed, before.requests_failed);
  EXPECT_EQ(after.tokens_given, before.tokens_given);
  EXPECT_EQ(after.kv_bytes_peak, before.kv_bytes_peak);
  EXPECT_EQ(after.pages_total, before.pages_total);
  EXPECT_EQ(after.pages_used + after.kv_bytes + after.weight_bytes + after.tree_tokens, 0);
  const auto were = metrics;
  metrics = metrics_of(engine);
  for (const auto& [name, family] : were)
    if (family.type == "histogram") {
      EXPECT_EQ(totals(name.c_str()), totals_of(family)) << name;
    }
}

TEST_F(Metrics, NothingIsCountedWhereNothingRan) {
  const Engine idle = make_engine();
  for (const auto& [name, family] : metrics_of(idle)) {
    if (family.type != "histogram") continue;
    EXPECT_EQ(totals_of(family).count, 0) << name;
    EXPECT_EQ(totals_of(family).sum, 0) << name;
  }
}

// docs/metrics.md has a line for each of them, with its type, and for no other.
TEST_F(Metrics, ThePageNamesThemAll) {
  std::ifstream page(PREFIX_DOCS "/metrics.md");
  ASSERT_TRUE(page) << PREFIX_DOCS;
  std::map<std::string, std::string> named, found;
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("| `")) continue;
    const size_t end = line.find('`', 3);
    const std::string type = line.substr(end + 4, line.find(" |", end + 4) - end - 4);
    EXPECT_TRUE(named.emplace(line.substr(3, end - 3), type).second) << line;
  }
  for (const auto& [name, family] : metrics) found[name] = family.type;
  EXPECT_EQ(named, found);
}

}  // namespace
}  // namespace prefix_abi
