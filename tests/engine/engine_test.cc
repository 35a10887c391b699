// The engine as its callers see it: counts, sharing, errors that stay with their request, limits.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <stdexcept>
#include <thread>

#include "base/log.h"
#include "base/resources.h"
#include "base/threads.h"
#include "engine/engine_load.h"
#include "engine/memory_estimate.h"
#include "support/expect_error.h"
#include "support/manual_clock.h"
#include "support/temp_folder.h"
#include "support/tiny_engine.h"

namespace prefix {
namespace {

using testing_support::make_engine;
using testing_support::ManualClock;
using testing_support::OptionList;
using testing_support::tiny_checkpoint;
using testing_support::TinyCheckpoint;
using testing_support::token_comes;

RequestSpec logits(std::vector<int32_t> tokens) {
  RequestSpec spec;
  spec.task = Task::kLogits;
  spec.tokens = std::move(tokens);
  spec.logit_ids = {0, 1, 2};
  return spec;
}

RequestSpec generate(std::vector<int32_t> tokens, int32_t max_tokens) {
  RequestSpec spec;
  spec.task = Task::kGenerate;
  spec.tokens = std::move(tokens);
  spec.sampling.max_tokens = max_tokens;
  return spec;
}

std::vector<int32_t> counting(int32_t n, int32_t from = 0) {
  std::vector<int32_t> tokens(static_cast<size_t>(n));
  for (int32_t i = 0; i < n; ++i) tokens[static_cast<size_t>(i)] = (from + i * 7) % 131;
  return tokens;
}

std::shared_ptr<Job> run(Engine& engine, std::vector<RequestSpec> batch) {
  auto job = engine.submit(std::move(batch));
  job->wait(-1);
  return job;
}

TEST(Engine, CountsCachedSharedAndComputedTokens) {
  const auto engine = make_engine(tiny_checkpoint());
  const auto first =
      run(*engine, {logits({1, 2, 3, 4}), logits({1, 2, 3, 5}), logits({1, 2, 3, 4})});
  EXPECT_EQ(first->result(0).usage.computed, 4);
  EXPECT_EQ(first->result(1).usage.computed, 1);
  EXPECT_EQ(first->result(1).usage.shared, 3);
  EXPECT_EQ(first->result(2).usage.shared, 4);
  EXPECT_EQ(first->totals().rows, 5);
  EXPECT_EQ(first->totals().tokens_given, 12);

  const auto second = run(*engine, {logits({1, 2, 3, 4}), logits({1, 2, 3, 4}), logits({1, 2, 9})});
  EXPECT_EQ(second->result(0).usage.cached, 3);
  EXPECT_EQ(second->result(0).usage.computed, 1) << "the last token is computed again to be read";
  EXPECT_EQ(second->result(1).usage.cached, 3);
  EXPECT_EQ(second->result(1).usage.shared, 1) << "by the first request";
  EXPECT_EQ(second->result(2).usage.cached, 2);
  EXPECT_EQ(second->totals().rows, 2);
  EXPECT_EQ(first->result(0).values, second->result(0).values);
}

// Acceptance: rows computed equals the number of distinct (namespace, prefix) tuples.
TEST(Engine, RowsEqualDistinctPrefixes) {
  std::mt19937 random(5);
  const auto engine = make_engine(tiny_checkpoint(), {{"cache", "false"}, {"rows", "64"}});
  const int32_t spaces[] = {0, engine->open_namespace("a"), engine->open_namespace("b")};
  for (int round = 0; round < 200; ++round) {
    std::vector<RequestSpec> batch;
    std::set<std::pair<int32_t, std::vector<int32_t>>> distinct;
    for (size_t i = 1 + random() % 12; i > 0; --i) {
      RequestSpec spec = logits({});
      spec.tokens.resize(1 + random() % 30);
      for (int32_t& t : spec.tokens) t = static_cast<int32_t>(random() % 3);
      spec.name_space = spaces[random() % 3];
      for (size_t n = 1; n <= spec.tokens.size(); ++n)
        distinct.emplace(spec.name_space,
                         std::vector<int32_t>(spec.tokens.begin(),
                                              spec.tokens.begin() + static_cast<ptrdiff_t>(n)));
      batch.push_back(std::move(spec));
    }
    const auto job = run(*engine, batch);
    ASSERT_EQ(job->totals().rows, static_cast<int64_t>(distinct.size()));
    ASSERT_EQ(job->totals().tokens_computed, static_cast<int64_t>(distinct.size()));
    ASSERT_EQ(job->totals().failed, 0);
    ASSERT_EQ(engine->stats().pages_used, 0) << "with the cache off nothing stays";
  }
}

TEST(Engine, TasksAgreeWithEachOther) {
  const auto engine = make_engine(tiny_checkpoint(), {{"dtype", "f32"}});
  const std::vector<int32_t> prompt{3, 1, 4, 1, 5};
  RequestSpec all = logits(prompt);
  all.logit_ids.clear();
  for (int32_t id = 0; id < 131; ++id) all.logit_ids.push_back(id);
  RequestSpec choices;
  choices.task = Task::kChoices;
  choices.tokens = prompt;
  choices.choices = {{9, 2}, {6}};
  RequestSpec span;
  span.task = Task::kLogprobs;
  span.tokens = {3, 1, 4, 1, 5, 9, 2};
  span.from = 5;
  RequestSpec greedy = generate(prompt, 1);
  greedy.sampling.logprobs = true;
  const auto job = run(*engine, {all, choices, span, greedy});
  const std::vector<float>& row = job->result(0).values;
  double sum = 0;
  for (float v : row) sum += std::exp(static_cast<double>(v));
  const double normaliser = std::log(sum);
  const RequestResult& c = job->result(1);
  EXPECT_NEAR(c.token_logprobs[0], row[9] - normaliser, 1e-5);
  EXPECT_NEAR(c.values[1], row[6] - normaliser, 1e-5);
  EXPECT_EQ(c.choice_offsets, (std::vector<int64_t>{0, 2, 3}));
  EXPECT_EQ(job->result(2).values[0], c.token_logprobs[0]);
  EXPECT_EQ(job->result(2).values[1], c.token_logprobs[1]);
  const int32_t best = static_cast<int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
  EXPECT_EQ(job->result(3).tokens, std::vector<int32_t>{best});
  EXPECT_NEAR(job->result(3).token_logprobs[0], row[static_cast<size_t>(best)] - normaliser, 1e-5);
}

TEST(Engine, EmbeddingsAreTruncatedFirstAndNormalisedAfter) {
  const auto engine = make_engine(tiny_checkpoint());
  RequestSpec raw;
  raw.task = Task::kEmbed;
  raw.tokens = counting(10);
  raw.normalize = false;
  RequestSpec cut = raw;
  cut.dimensions = 8;
  cut.normalize = true;
  const auto job = run(*engine, {raw, cut});
  const auto& whole = job->result(0).values;
  const auto& part = job->result(1).values;
  ASSERT_EQ(whole.size(), 64u);
  ASSERT_EQ(part.size(), 8u);
  double squares = 0;
  for (size_t i = 0; i < 8; ++i) squares += static_cast<double>(whole[i]) * whole[i];
  for (size_t i = 0; i < 8; ++i) EXPECT_NEAR(part[i], whole[i] / std::sqrt(squares), 1e-6);
}

// The device of every other test here.
TEST(Engine, IsMadeForTheDeviceThatIsAskedFor) {
  const char* const asked = testing_support::test_device();
  EXPECT_EQ(testing_support::make_options({}).get("device"), asked ? asked : "cpu");
}

TEST(Engine, TheEstimateIsWhatTheEngineTakes) {
  if (testing_support::test_device())
    GTEST_SKIP() << "tests/kernels/budget_test.cc says it of a GPU, to the byte";
  for (const char* const dtype : {"bf16", "f32"}) {
    for (const char* const kind : {"4 heads", "8 heads", "mamba", "delta"}) {
      tools::CheckpointShape shape;
      shape.layers = 3;
      if (kind[0] == '8') shape.heads = 8;
      if (kind[0] == 'm' || kind[0] == 'd') {
        shape.architecture = kind[0] == 'm' ? "granitemoehybrid" : "qwen3_5_text";
        shape.recurrent.layers = "rar";
      }
      const TinyCheckpoint checkpoint(shape);
      // Longer ones could have states of attention that are merged, for which these take no memory.
      const Options options = testing_support::make_options(
          {{"dtype", dtype}, {"rows", "64"}, {"max_positions", "2048"}, {"threads", "1"}});
      const MemoryEstimate estimate = Engine::estimate(checkpoint.path(), options);
      const auto engine = Engine::create(checkpoint.path(), options, nullptr);
      std::vector<RequestSpec> batch = {logits(counting(80))};
      // As many generations as a step has rows.
      for (int32_t i = 0; i < 64; ++i) batch.push_back(generate({i + 1, 5, 7}, 3));
      run(*engine, batch);
      const EngineStats stats = engine->stats();
      EXPECT_EQ(estimate.weight_bytes, stats.weight_bytes);
      EXPECT_EQ(estimate.kv_budget_bytes / estimate.kv_bytes_per_token / 32,
                stats.kv_budget_bytes / estimate.kv_bytes_per_token / 32);
      EXPECT_GE(estimate.activation_bytes, stats.activation_bytes_peak);
      EXPECT_LE(estimate.activation_bytes, 2 * stats.activation_bytes_peak);
    }
  }
}

// What the machine has free is another number each time.
TEST(Engine, TheCacheTakesAQuarterOfTheFreeMemoryUnlessToldOtherwise) {
  constexpr int64_t kFree = int64_t{40} << 30;
  constexpr int64_t kPage = 1 << 20;
  Options options;
  EXPECT_EQ(kv_budget(options, kPage, 0, kFree, true), int64_t{10} << 30);
  EXPECT_EQ(kv_budget(options, kPage, 0, kFree, false), kFree / 10 * 9) << "of a GPU's own";
  EXPECT_EQ(kv_budget(options, kPage, 0, 0, true), 64 * kPage) << "and never less than 64 pages";
  EXPECT_EQ(kv_budget(options, kPage, 3, 0, true), 64 * kPage + 12) << "and four states";
  options.set("cache_bytes", "3G");
  for (const bool of_host : {true, false})
    EXPECT_EQ(kv_budget(options, kPage, 0, kFree, of_host), int64_t{3} << 30);
}

TEST(Engine, InfoTellsTheValuesInForce) {
  const auto engine = make_engine(tiny_checkpoint(), {{"cache_bytes", "100000"}});
  const nlohmann::json info = nlohmann::json::parse(engine->info_json());
  const nlohmann::json& options = info.at("options");
  EXPECT_EQ(options.at("threads"), std::to_string(resources().processors));
  EXPECT_EQ(options.at("rows"), cat(row_budget(testing_support::make_options({}))));
  EXPECT_EQ(options.at("max_positions"), info.at("model").at("max_positions").dump());
  EXPECT_EQ(options.at("cache_bytes"), std::to_string(engine->stats().kv_budget_bytes));
}

nlohmann::json logged_by_estimate(const OptionList& options) {
  LogLevel level;
  std::string text;
  while (next_log(SIZE_MAX, &level, &text)) {
  }
  (void)Engine::estimate(tiny_checkpoint().path(), testing_support::make_options(options));
  nlohmann::json logged = nlohmann::json::array();
  while (next_log(SIZE_MAX, &level, &text)) logged.push_back(text);
  return logged;
}

TEST(Engine, OptionsOfWhatIsNotThereAreToldOf) {
  const auto warnings = [](const OptionList& options) {
    const auto engine = make_engine(tiny_checkpoint(), options);
    return nlohmann::json::parse(engine->info_json()).at("warnings");
  };
  EXPECT_EQ(warnings({}).size(), 0u);
  EXPECT_EQ(warnings({{"cache_events", "100"}, {"cache_event_tokens", "64"}}).size(), 0u);
  const OptionList idle = {{"cache_disk_bytes", "1G"},
                           {"cache_fetch_ms", "10"},
                           {"cache_event_tokens", "64"},
                           {"cache_states", "placed"},
                           {"cache_path_states", "2"}};
  for (const auto& [option, value] : idle) {
    const nlohmann::json told = warnings({{option, value}});
    ASSERT_EQ(told.size(), 1u) << option;
    EXPECT_EQ(told[0].get<std::string>().find(cat("option ", option, " has no effect: ")), 0u)
        << told;
    EXPECT_EQ(logged_by_estimate({{option, value}}), told) << "what no engine is needed for";
  }
  EXPECT_TRUE(logged_by_estimate({}).empty());
}

TEST(Engine, AContextLongerThanThatOfTheModelIsRefused) {
  tools::CheckpointShape shape;
  shape.max_positions = 128;
  const TinyCheckpoint checkpoint(shape);
  EXPECT_EQ(make_engine(checkpoint, {{"max_positions", "128"}})->info().max_positions, 128);
  testing_support::expect_error(Code::kOutOfRange, {"max_positions is 129", "holds 128 tokens"},
                                [&] { make_engine(checkpoint, {{"max_positions", "129"}}); });
}

TEST(Engine, BadRequestsFailAloneWithValueAndLimit) {
  const auto engine = make_engine(tiny_checkpoint(), {{"max_positions", "64"}});
  std::vector<RequestSpec> batch(11, logits({1, 2, 3}));
  batch[1].tokens.clear();
  batch[2].tokens[1] = 131;
  batch[3].tokens[0] = -1;
  batch[4].tokens = counting(65);
  batch[5].logit_ids = {500};
  batch[6].task = Task::kLogprobs;
  batch[6].from = 3;
  batch[7].task = Task::kEmbed;
  batch[7].dimensions = 65;
  batch[8].task = Task::kGenerate;
  batch[8].sampling.top_p = 0;
  batch[9].name_space = 77;
  const auto job = run(*engine, batch);
  const Code expected[] = {Code::kOk,
                           Code::kInvalidArgument,
                           Code::kOutOfRange,
                           Code::kOutOfRange,
                           Code::kPromptTooLong,
                           Code::kOutOfRange,
                           Code::kOutOfRange,
                           Code::kOutOfRange,
                           Code::kOutOfRange,
                           Code::kNotFound,
                           Code::kOk};
  for (size_t i = 0; i < batch.size(); ++i)
    EXPECT_EQ(job->result(i).status, expected[i]) << i << ": " << job->result(i).message;
  EXPECT_NE(job->result(2).message.find("131"), std::string::npos);
  EXPECT_NE(job->result(4).message.find("65"), std::string::npos);
  EXPECT_NE(job->result(4).message.find("64"), std::string::npos);
  EXPECT_EQ(job->totals().failed, 9);
  EXPECT_EQ(run(*engine, {logits({1, 2})})->result(0).status, Code::kOk);
}

TEST(Engine, AnEmptyBatchIsDoneAtOnce) {
  const auto engine = make_engine(tiny_checkpoint());
  const auto job = engine->submit({});
  EXPECT_TRUE(job->wait(0));
  EXPECT_FALSE(job->next_event(1000).has_value());
}

TEST(Engine, HundredThousandRequestsInOneBatch) {
  const auto engine = make_engine(tiny_checkpoint(), {{"cache_bytes", "512M"}});
  std::vector<RequestSpec> batch;
  for (int32_t i = 0; i < 100000; ++i) batch.push_back(logits({1, 2, 3, i % 131, (i / 131) % 131}));
  const auto job = run(*engine, std::move(batch));
  EXPECT_EQ(job->totals().failed, 0);
  EXPECT_EQ(job->totals().tokens_given, 500000);
  EXPECT_EQ(job->totals().rows, 3 + 131 + 131 * 131) << "each distinct prefix once";
}

TEST(Engine, GenerationStopsAtEosStopTokensLengthAndContext) {
  const auto engine = make_engine(tiny_checkpoint(), {{"max_positions", "40"}});
  const std::vector<int32_t> prompt = counting(10);
  const auto free_run = run(*engine, {generate(prompt, 8)});
  ASSERT_EQ(free_run->result(0).tokens.size(), 8u);
  EXPECT_EQ(free_run->result(0).finish, Finish::kLength);
  RequestSpec stop = generate(prompt, 8);
  stop.sampling.stop_tokens = {free_run->result(0).tokens[3]};
  const auto& first = free_run->result(0).tokens;
  const auto at = std::find(first.begin(), first.end(), first[3]) - first.begin();
  const auto stopped = run(*engine, {stop, generate(prompt, 100)});
  EXPECT_EQ(stopped->result(0).finish, Finish::kStop);
  EXPECT_EQ(stopped->result(0).tokens.size(), static_cast<size_t>(at) + 1);
  EXPECT_EQ(stopped->result(1).finish, Finish::kLength);
  EXPECT_EQ(stopped->result(1).tokens.size(), 31u) << "the context holds 40 positions";
}

TEST(Engine, CancelEndsARequestAndKeepsTheEngine) {
  const auto engine = make_engine(tiny_checkpoint());
  RequestSpec endless = generate(counting(5), 4000);
  endless.sampling.ignore_eos = true;
  RequestSpec other = generate(counting(5, 3), 4000);
  other.sampling.ignore_eos = true;
  const auto job = engine->submit({endless, other});
  while (!job->next_event(1000)) {
  }
  job->cancel(0);
  while (!job->finished(0)) job->next_event(10);
  EXPECT_EQ(job->result(0).status, Code::kCancelled);
  EXPECT_FALSE(job->finished(1));
  job->cancel();
  EXPECT_TRUE(job->wait(-1));
  EXPECT_EQ(job->result(1).status, Code::kCancelled);
  EXPECT_EQ(job->result(1).finish, Finish::kCancelled);
  EXPECT_EQ(run(*engine, {logits({1})})->result(0).status, Code::kOk);
}

// When exactly: scheduler_time_test.cc.
TEST(Engine, ADeadlineEndsARequest) {
  ManualClock clock;
  const auto engine = make_engine(tiny_checkpoint(), {}, clock.now());
  RequestSpec endless = generate(counting(5), 4000);
  endless.sampling.ignore_eos = true;
  endless.deadline_ms = 5;
  const auto job = engine->submit({endless, logits({1})});
  ASSERT_TRUE(token_comes(*job));
  clock.advance(std::chrono::milliseconds(6));
  job->wait(-1);
  EXPECT_EQ(job->result(0).status, Code::kDeadline) << job->result(0).message;
  EXPECT_LT(job->result(0).tokens.size(), 4000u);
  EXPECT_EQ(job->result(0).timing.total_us, 6000);
  EXPECT_EQ(job->result(1).status, Code::kOk);
}

TEST(Engine, NewRequestsJoinWhileOthersDecode) {
  const auto engine = make_engine(tiny_checkpoint());
  RequestSpec endless = generate(counting(5), 4000);
  endless.sampling.ignore_eos = true;
  const auto running = engine->submit({endless});
  while (!running->next_event(1000)) {
  }
  const auto late = run(*engine, {logits(counting(5)), generate(counting(7), 3)});
  EXPECT_FALSE(running->done()) << "the late job did not wait for the running one";
  EXPECT_EQ(late->totals().failed, 0);
  EXPECT_GE(late->result(0).usage.cached, 4);
  running->cancel();
  running->wait(-1);
}

TEST(Engine, ABudgetTooSmallFailsThatRequestOnlyAndClearly) {
  // One page of the tiny model: 2 layers x 2 heads x (K and V) x 32 x 32 x 2 bytes = 16 KiB.
  const auto engine = make_engine(tiny_checkpoint(), {{"cache_bytes", "64K"}});
  const auto job = run(*engine, {logits(counting(200)), logits(counting(100)),
                                 logits(counting(30, 5)), generate(counting(20), 500)});
  EXPECT_EQ(job->result(0).status, Code::kCacheFull) << job->result(0).message;
  EXPECT_EQ(job->result(1).status, Code::kOk) << job->result(1).message;
  EXPECT_EQ(job->result(2).status, Code::kOk) << job->result(2).message;
  EXPECT_EQ(job->result(3).status, Code::kCacheFull);
  EXPECT_THROW(make_engine(tiny_checkpoint(), {{"cache_bytes", "1K"}}), Error);
}

TEST(Engine, EvictsOldPathsToAdmitNewOnes) {
  const auto engine = make_engine(tiny_checkpoint(), {{"cache_bytes", "256K"}});
  for (int32_t i = 0; i < 30; ++i)
    ASSERT_EQ(run(*engine, {logits(counting(100, i))})->result(0).status, Code::kOk);
  const EngineStats stats = engine->stats();
  EXPECT_GT(stats.evictions, 0);
  EXPECT_LE(stats.kv_bytes_peak, stats.kv_budget_bytes);
}

TEST(Engine, NamespacesShareNothingAndCanBeDropped) {
  const auto engine = make_engine(tiny_checkpoint());
  const int32_t a = engine->open_namespace("a");
  EXPECT_EQ(engine->open_namespace("a"), a);
  EXPECT_EQ(engine->find_namespace("b"), -1);
  RequestSpec spec = logits(counting(20));
  run(*engine, {spec});
  spec.name_space = a;
  const auto job = run(*engine, {spec});
  EXPECT_EQ(job->result(0).usage.cached, 0);
  EXPECT_EQ(engine->cache_lookup(a, spec.tokens.data(), spec.tokens.size()).cached_tokens, 20);
  EXPECT_EQ(engine->drop_namespace(a), 20);
  EXPECT_EQ(engine->cache_lookup(a, spec.tokens.data(), spec.tokens.size()).cached_tokens, 0);
  EXPECT_EQ(engine->cache_lookup(0, spec.tokens.data(), spec.tokens.size()).cached_tokens, 20);
}

// Without patience, a second shutdown ends the first one's too.
TEST(Engine, ImpatientShutdownEndsAPatientOne) {
  const auto engine = make_engine(tiny_checkpoint());
  RequestSpec endless = generate(counting(5), 4000);
  endless.sampling.ignore_eos = true;
  const auto job = engine->submit(std::vector<RequestSpec>(16, endless));
  std::thread patient([&] { engine->shutdown(std::numeric_limits<int64_t>::max()); });
  while (engine->state() == EngineState::kReady) std::this_thread::yield();
  engine->shutdown(0);
  patient.join();
  EXPECT_TRUE(job->wait(0));
  EXPECT_EQ(engine->state(), EngineState::kClosed);
}

// The step waits for threads that the test has, as steps of the CPU do, and goes on when the engine
// is being closed.
TEST(Engine, ShutdownGivesUpTheStepThatRuns) {
  const auto pool = std::make_shared<Threads>(1);
  Options options = testing_support::make_options({{"device", "cpu"}});
  options.exchange_pool(pool);
  const auto engine = Engine::create(tiny_checkpoint().path(), options, nullptr);
  std::shared_ptr<Job> job;
  std::thread closing;
  {
    const Threads::Turn turn(*pool);
    job = engine->submit({logits(counting(100))});
    while (pool->waiting() == 0) std::this_thread::yield();
    closing = std::thread([&] { engine->shutdown(0); });
    while (engine->state() == EngineState::kReady) std::this_thread::yield();
  }
  closing.join();
  EXPECT_TRUE(job->wait(0));
  EXPECT_EQ(job->result(0).status, Code::kCancelled);
  EXPECT_EQ(job->result(0).finish, Finish::kCancelled);
  EXPECT_EQ(engine->stats().steps, 0) << "all layers ran";
  EXPECT_EQ(engine->stats().requests_failed, 1);
}

// The thread that loaded the engine lets go of the load some time after it has said that the engine
// is there.
TEST(EngineLoad, StopShutsTheEngineDownWhoeverHoldsTheLoad) {
  const auto load =
      std::make_shared<EngineLoad>(tiny_checkpoint().path(), testing_support::make_options({}));
  load->run();
  const auto of_the_thread = load;
  ASSERT_EQ(load->state(), EngineState::kReady);
  load->stop();
  EXPECT_EQ(of_the_thread->state(), EngineState::kClosed);
}

// Its own thread would wait for itself.
TEST(Engine, ALogCallbackMayDropTheLastReference) {
  const testing_support::TempFolder folder;
  folder.write("tmp", std::string_view("not a folder"));
  static std::shared_ptr<Engine> engine;
  static std::atomic<bool> dropped;
  engine = make_engine(tiny_checkpoint(), {{"cache_disk", folder.path()}});
  set_log_callback(
      [](int32_t, const char*, void*) {
        engine.reset();
        dropped = true;
      },
      nullptr);
  const auto job = engine->submit({logits(counting(100))});
  while (!dropped) std::this_thread::yield();
  job->wait(-1);
  set_log_callback(nullptr, nullptr);
}

// Which may be in any state.
TEST(Engine, StatisticsLeaveTheTreeOfAFailedEngineAlone) {
  ManualClock clock;
  const auto broken = std::make_shared<std::atomic<bool>>(false);
  const auto engine = make_engine(
      tiny_checkpoint(), {}, [broken, time = clock.now(), own = std::this_thread::get_id()] {
        if (std::this_thread::get_id() != own && broken->exchange(false))
          throw std::runtime_error("no clock");
        return time();
      });
  RequestSpec brief = logits(counting(64));
  brief.cache_ttl_ms = 1000;
  run(*engine, {brief});
  *broken = true;
  EXPECT_EQ(run(*engine, {logits({1})})->result(0).status, Code::kEngineFailed);
  EXPECT_EQ(engine->state(), EngineState::kFailed);
  clock.advance(std::chrono::hours(1));
  EXPECT_EQ(engine->stats().tree_tokens, 64);
}

TEST(Engine, ShutdownAnswersLaterCallsWithMisuse) {
  const auto engine = make_engine(tiny_checkpoint());
  RequestSpec endless = generate(counting(5), 4000);
  endless.sampling.ignore_eos = true;
  const auto job = engine->submit({endless});
  engine->shutdown(1);
  EXPECT_TRUE(job->wait(0));
  EXPECT_EQ(job->result(0).status, Code::kCancelled);
  EXPECT_EQ(engine->state(), EngineState::kClosed);
  engine->shutdown(0);
  try {
    engine->submit({logits({1})});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kMisuse);
  }
}

TEST(Engine, QueueLimitIsRetryable) {
  const auto engine = make_engine(tiny_checkpoint(), {{"queue_limit", "2"}});
  try {
    engine->submit({logits({1}), logits({2}), logits({3})});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kQueueFull);
  }
  EXPECT_EQ(run(*engine, {logits({1}), logits({2})})->totals().failed, 0);
}

TEST(Engine, HigherPriorityIsComputedFirst) {
  const auto engine = make_engine(tiny_checkpoint(), {{"rows", "8"}});
  std::vector<RequestSpec> batch;
  for (int32_t i = 0; i < 20; ++i) batch.push_back(logits(counting(40, i)));
  batch[19].priority = 5;
  const auto job = run(*engine, batch);
  for (size_t i = 0; i < 19; ++i)
    EXPECT_LE(job->result(19).timing.total_us, job->result(i).timing.total_us);
}

TEST(Engine, EventsTellTheStory) {
  const auto engine = make_engine(tiny_checkpoint());
  RequestSpec spec = generate(counting(5), 3);
  spec.sampling.ignore_eos = true;
  spec.user_tag = 99;
  const auto job = engine->submit({spec});
  std::vector<int32_t> kinds, tokens;
  while (const auto event = job->next_event(-1)) {
    kinds.push_back(event->kind);
    if (event->kind == Event::kToken) tokens.push_back(event->token);
    EXPECT_EQ(event->user_tag, 99);
  }
  EXPECT_TRUE(job->done());
  EXPECT_EQ(tokens, job->result(0).tokens);
  EXPECT_EQ(kinds.front(), Event::kStarted);
  EXPECT_EQ(kinds.back(), Event::kFinished);
}

}  // namespace
}  // namespace prefix
