// prefix_metrics_text as a Prometheus server reads it: every line, and docs/metrics.md beside it.
#include <cmath>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <tuple>

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

// A program in C may hand the text on by its zero.
TEST(MetricsOfAName, AZeroInItDoesNotEndTheText) {
  const Options options = make_options({{"cache_bytes", "16M"}});
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_options_set(options, "name", PREFIX_NUL, "a\0b", 3, e);
  });
  Engine named;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_engine_create(model_path().c_str(), PREFIX_NUL, options, named.out(), e);
  });
  const std::string all = text([&](char* buf, size_t cap, size_t* needed, prefix_error* e) {
    return prefix_metrics_text(named, buf, cap, needed, e);
  });
  EXPECT_EQ(all.find('\0'), std::string::npos);
  EXPECT_EQ(parse(all).at("kv_cache_usage_perc").samples.at(0).labels.at("model_name"),
            "a\xef\xbf\xbd"
            "b");
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

// The value of a metric, of the one series that has this label too.
double value_of(const std::map<std::string, Family>& metrics, const char* name,
                const char* label = nullptr, const char* of_label = "") {
  for (const Sample& s : metrics.at(name).samples)
    if (!label || s.labels.at(label) == of_label) return s.value;
  ADD_FAILURE() << name << " has no series of " << of_label;
  return NAN;
}

int64_t missed_of(const prefix_result_info& r) {
  return r.miss_first_seen + r.miss_namespace + r.miss_budget + r.miss_evicted +
         r.miss_granularity + r.miss_state;
}

// An engine with recurrent layers and too little memory, so that everything is counted that one
// process can bring about.
TEST(EngineStats, AreTheNumbersOfTheMetricsAndTheSumsOfRequests) {
  const prefix::testing_support::TempFolder folder;
  prefix::tools::CheckpointShape shape;
  shape.architecture = "granitemoehybrid";
  shape.recurrent.layers = "ra";
  prefix::tools::write_checkpoint(folder / "model", shape);
  const Options options = make_options({{"cache_bytes", "512K"}, {"threads", "2"}});
  Engine engine;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_engine_create((folder / "model").c_str(), PREFIX_NUL, options, engine.out(), e);
  });
  const Options generated = make_options({{"max_tokens", "7"}, {"ignore_eos", "true"}});
  const Options tenant = make_options({{"namespace", "tenant"}});
  prefix_result_info all{};
  const auto ask = [&](int32_t round) {
    const Batch batch = make_batch(engine);
    Tokens prompt(200, 9);
    prompt[0] = round % 8;
    add_logits(batch, prompt);
    prompt.back() = 10;
    add_logits(batch, prompt);
    add_generate(batch, {1, 2, 3, round}, generated);
    add_logits(batch, {1, 2, 3, round}, {0}, tenant);
    add_logits(batch, {-1});
    const Job job = run(engine, batch);
    for (size_t i = 0; i < 5; ++i) {
      const prefix_result_info r = info_of(job, i);
      EXPECT_EQ(r.computed_tokens, missed_of(r)) << "round " << round << ", request " << i;
      all.miss_first_seen += r.miss_first_seen;
      all.miss_namespace += r.miss_namespace;
      all.miss_budget += r.miss_budget;
      all.miss_evicted += r.miss_evicted;
      all.miss_granularity += r.miss_granularity;
      all.miss_state += r.miss_state;
    }
  };
  for (int32_t round = 0; round < 12; ++round) ask(round);
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_namespace_drop(engine, 0, nullptr, e); });
  ask(11);
  // Of the last step something may be counted after the results are there.
  prefix_engine_stats s, after = stats_of(engine);
  std::map<std::string, Family> metrics;
  do {
    s = after;
    metrics = metrics_of(engine);
    after = stats_of(engine);
  } while (std::memcmp(&s, &after, sizeof(s)) != 0);

  const std::pair<const char*, int64_t> numbers[] = {
      {"num_requests_waiting", s.requests_waiting},
      {"num_requests_running", s.requests_running},
      {"prefix_cache_queries_total", s.tokens_given},
      {"prefix_cache_hits_total", s.tokens_cached + s.tokens_shared},
      {"prefix_tokens_computed_total", s.tokens_computed},
      {"prefix_tokens_generated_total", s.tokens_generated},
      {"prefix_requests_finished_total", s.requests_finished},
      {"prefix_requests_failed_total", s.requests_failed},
      {"prefix_steps_total", s.steps},
      {"prefix_rows_total", s.rows},
      {"prefix_gemm_flops_total", s.gemm_flops},
      {"prefix_evicted_tokens_total", s.evicted_tokens},
      {"prefix_fetched_tokens_total", s.fetched_tokens},
      {"prefix_fetch_skipped_tokens_total", s.fetch_skipped_tokens},
      {"prefix_fetch_timeouts_total", s.fetch_timeouts},
      {"prefix_metadata_bytes", s.metadata_bytes},
      {"prefix_kv_bytes", s.kv_bytes},
      {"prefix_states", s.states},
      {"prefix_state_bytes", s.state_bytes},
      {"prefix_state_evictions_total", s.state_evictions}};
  for (const auto& [name, number] : numbers)
    EXPECT_EQ(value_of(metrics, name), static_cast<double>(number)) << name;
  const std::tuple<const char*, int64_t, int64_t> misses[] = {
      {"first_seen", s.miss_first_seen, all.miss_first_seen},
      {"namespace", s.miss_namespace, all.miss_namespace},
      {"budget", s.miss_budget, all.miss_budget},
      {"evicted", s.miss_evicted, all.miss_evicted},
      {"granularity", s.miss_granularity, all.miss_granularity},
      {"state", s.miss_state, all.miss_state}};
  int64_t missed = 0;
  for (const auto& [reason, tokens, of_requests] : misses) {
    EXPECT_EQ(value_of(metrics, "prefix_cache_miss_tokens_total", "reason", reason),
              static_cast<double>(tokens))
        << reason;
    EXPECT_EQ(tokens, of_requests) << reason;
    missed += tokens;
  }
  const std::pair<const char*, int64_t> times[] = {
      {"prefix_gemm_seconds_total", s.gemm_us}, {"prefix_attention_seconds_total", s.attention_us}};
  for (const auto& [name, us] : times)
    EXPECT_NEAR(value_of(metrics, name), static_cast<double>(us) * 1e-6, 1e-6) << name;
  EXPECT_EQ(value_of(metrics, "kv_cache_usage_perc"),
            static_cast<double>(s.pages_used) / static_cast<double>(s.pages_total));
  const Labels& config = metrics.at("cache_config_info").samples.at(0).labels;
  EXPECT_EQ(config.at("block_size"), std::to_string(s.page_tokens));
  EXPECT_EQ(config.at("num_blocks"), std::to_string(s.pages_total));

  // And what no metric tells.
  EXPECT_EQ(s.tokens_given, s.tokens_cached + s.tokens_shared + s.tokens_computed);
  EXPECT_EQ(missed, s.tokens_computed);
  EXPECT_EQ(s.kv_bytes % s.pages_used, 0);
  EXPECT_EQ(s.kv_budget_bytes, s.kv_bytes / s.pages_used * s.pages_total);
  EXPECT_GE(s.kv_bytes_peak, s.kv_bytes);
  EXPECT_LE(s.kv_bytes_peak, s.kv_budget_bytes);
  EXPECT_GE(s.evicted_tokens, s.evictions);
  prefix_engine_info info = PREFIX_ENGINE_INFO_INIT;
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_engine_get_info(engine, &info, e); });
  EXPECT_EQ(s.weight_bytes, info.weight_bytes);
  const std::pair<const char*, int64_t> counted[] = {
      {"requests_finished", s.requests_finished},
      {"requests_failed", s.requests_failed},
      {"tokens_cached", s.tokens_cached},
      {"tokens_shared", s.tokens_shared},
      {"tokens_generated", s.tokens_generated},
      {"steps", s.steps},
      {"rows", s.rows},
      {"tree_nodes", s.tree_nodes},
      {"tree_tokens", s.tree_tokens},
      {"evictions", s.evictions},
      {"states", s.states},
      {"state_bytes", s.state_bytes},
      {"state_evictions", s.state_evictions},
      {"miss_first_seen", s.miss_first_seen},
      {"miss_namespace", s.miss_namespace},
      {"miss_budget", s.miss_budget},
      {"miss_evicted", s.miss_evicted},
      {"miss_state", s.miss_state},
      {"activation_bytes_peak", s.activation_bytes_peak},
      {"live_state_bytes_peak", s.live_state_bytes_peak},
      {"gemm_us", s.gemm_us},
      {"gemm_flops", s.gemm_flops},
      {"attention_us", s.attention_us},
      {"other_us", s.other_us},
      {"plan_us", s.plan_us},
      {"run_us", s.run_us},
      {"load_us", s.load_us}};
  for (const auto& [name, number] : counted) EXPECT_GT(number, 0) << name;
}

// Of a prompt that is asked again, so that its answer is guessed and its last token read again.
TEST(EngineStats, CountTokensOfDrafts) {
  const Engine engine = make_engine();
  int64_t guessed = 0;
  for (const char* draft : {"0", "8", "8"}) {
    const Batch batch = make_batch(engine);
    add_generate(
        batch, {1, 2, 3, 4},
        make_options({{"max_tokens", "20"}, {"draft_tokens", draft}, {"ignore_eos", "true"}}));
    const prefix_result_info info = info_of(run(engine, batch), 0);
    const prefix_engine_stats s = stats_of(engine);
    EXPECT_EQ(info.draft_tokens > 0, std::string(draft) != "0");
    EXPECT_EQ(info.draft_tokens, info.draft_tokens_accepted);
    guessed += info.draft_tokens;
    EXPECT_EQ(s.draft_tokens, guessed);
    EXPECT_EQ(info.miss_granularity, s.requests_finished > 1 ? 1 : 0);
    EXPECT_EQ(info.computed_tokens, missed_of(info));
    EXPECT_EQ(s.draft_tokens, s.draft_tokens_accepted) << "the cache has what is said again";
    const auto metrics = metrics_of(engine);
    EXPECT_EQ(value_of(metrics, "prefix_draft_tokens_total"), s.draft_tokens);
    EXPECT_EQ(value_of(metrics, "prefix_draft_tokens_accepted_total"), s.draft_tokens_accepted);
  }
}

// What the log says of the last load; -1: nothing.
int64_t logged_load_ms() {
  int64_t ms = -1;
  char line[4096];
  size_t needed = 0;
  while (prefix_log_next(nullptr, line, sizeof(line), &needed) == PREFIX_OK) {
    const std::string text = line;
    const size_t at = text.rfind(" threads, in ");
    if (at != std::string::npos) ms = std::stoll(text.substr(at + std::strlen(" threads, in ")));
  }
  return ms;
}

// The parts of steps lie within the steps, and load, plans and steps follow each other.
TEST(EngineTimes, AreMicrosecondsOfPartsAndOfTheWhole) {
  prefix_set_log_level(PREFIX_LOG_INFO);
  const int64_t start = monotonic_us();
  const Engine engine = make_engine();
  const int64_t loaded = monotonic_us();
  prefix_set_log_level(PREFIX_LOG_WARNING);
  const Batch batch = make_batch(engine);
  const Options options = make_options({{"max_tokens", "20"}, {"ignore_eos", "true"}});
  for (int32_t first = 0; first < 20; ++first) add_generate(batch, {first, 1, 2, 3}, options);
  const Job job = run(engine, batch);
  // Drained: the thread of the engine writes its last times after the job is done.
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_engine_shutdown(engine, 0, e); });
  const prefix_engine_stats s = stats_of(engine);
  const int64_t end = monotonic_us();
  EXPECT_EQ(s.load_us / 1000, logged_load_ms());
  EXPECT_LE(s.load_us, loaded - start);
  EXPECT_LE(s.plan_us + s.run_us, end - loaded);
  EXPECT_LE(s.gemm_us + s.attention_us + s.other_us, s.run_us);
  for (const int64_t us : {s.load_us, s.plan_us, s.gemm_us, s.attention_us, s.other_us})
    EXPECT_GT(us, 0);
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

// What docs/service.md says to look at is a metric, or a function.
TEST_F(Metrics, ThePageOfServicesNamesNoOther) {
  std::set<std::string> known;
#define PREFIX_NAME(name) known.insert(#name);
  PREFIX_FUNCTIONS(PREFIX_NAME)
#undef PREFIX_NAME
  for (const auto& [name, family] : metrics) known.insert(name);
  std::ifstream page(PREFIX_DOCS "/service.md");
  std::string line;
  while (std::getline(page, line) && line != "## What to watch") {
  }
  size_t names = 0;
  while (std::getline(page, line)) {
    if (!line.starts_with("| `")) continue;
    std::istringstream column(line.substr(2, line.find(" |", 2) - 2));
    std::string name;
    while (std::getline(column, name, '`') && std::getline(column, name, '`')) {
      EXPECT_TRUE(known.contains(name.substr(0, name.find_first_of("({")))) << line;
      ++names;
    }
  }
  EXPECT_GE(names, 10u);
}

}  // namespace
}  // namespace prefix_abi
