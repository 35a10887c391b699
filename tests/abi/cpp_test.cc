// prefix.hpp: what it adds to the C interface, which is tested elsewhere.
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <numeric>
#include <prefix.hpp>
#include <ranges>
#include <span>
#include <type_traits>

#include "abi_support.h"
#include "gguf_model.h"
#include "held_load.h"
#include "random_adapter.h"
#include "support/child_process.h"
#include "support/sanitized.h"

namespace prefix_abi {
namespace {

using std::chrono::milliseconds;

// {"a", "b"} is a list of two texts, or it does not compile: no text between two pointers.
template <typename Text>
constexpr bool kTextOfAPair = requires { Text{"a", "b"}; };
template <typename Engine>
constexpr bool kEngineTakesPairs = requires(Engine engine) { engine.find_namespace({"a", "b"}); } ||
                                   requires(Engine engine) { engine.unload_adapter({"a", "b"}); };
template <typename Options>
constexpr bool kOptionsTakePairs = requires(Options options) {
  options.compute_keep({"a", "b"});
} || requires(Options options) { options.value({"a", "b"}); } || requires { Options({"a", "b"}); };
static_assert(kTextOfAPair<std::string_view> && !kTextOfAPair<prefix::Text>);
static_assert(!kEngineTakesPairs<prefix::Engine> && !kOptionsTakePairs<prefix::Options>);

prefix::Engine small_engine() {
  const auto options = prefix::Options().set("cache_bytes", "16M").set("threads", 2);
  return prefix::Engine(model_path(), &options);
}

TEST(Cpp, OptionsHaveMethods) {
  constexpr std::array<prefix_token, 2> kStops = {2, 7};
  constexpr std::array<std::string_view, 2> kTexts = {"a", "\xc3\xa9"};
  prefix::Options options = prefix::Options().threads(3).temperature(0.5).cache(false);
  options.deadline(std::chrono::milliseconds(1500)).stop_tokens(kStops).stop(kTexts);
  options.namespace_("\xc3\xa9t\xc3\xa9");
  EXPECT_EQ(options.value("threads"), "3");
  EXPECT_EQ(options.value("temperature"), "0.5");
  EXPECT_EQ(options.value("cache"), "false");
  EXPECT_EQ(options.value("deadline_ms"), "1500");
  EXPECT_EQ(options.value("stop_tokens"), "2,7");
  EXPECT_EQ(options.value("stop"), "[\"a\",\"\xc3\xa9\"]");
  EXPECT_EQ(options.value("namespace"), "\xc3\xa9t\xc3\xa9");
  EXPECT_THROW(options.threads(-1), prefix::Error);
  prefix_error error = PREFIX_ERROR_INIT;
  options.rows(0, &error);
  EXPECT_EQ(error.code, PREFIX_ERR_OUT_OF_RANGE);
}

TEST(Cpp, OptionsTakeEveryType) {
  prefix::Options options;
  const std::vector<prefix_token> ids = {7, 8};
  const std::string policy = "lfu";
  options.set("cache_policy", policy).set("dtype", "f32").set("threads", size_t{3});
  options.set("cache", false).set("temperature", 0.5f).set("top_p", 0.25).set("stop_tokens", ids);
  EXPECT_EQ(options.value("cache_policy"), "lfu");
  EXPECT_EQ(options.value("dtype"), "f32");
  EXPECT_EQ(options.value("threads"), "3");
  EXPECT_EQ(options.value("cache"), "false");
  EXPECT_EQ(options.value("temperature"), "0.5");
  EXPECT_EQ(options.value("top_p"), "0.25");
  EXPECT_EQ(options.value("stop_tokens"), "7,8");
}

TEST(Cpp, OptionsKeepTextsThatAViewMakes) {
  // Two are on the heap and one inside its std::string.
  const std::vector<std::string> words = {std::string(40, 'a'), std::string(40, 'b'), "c"};
  const auto lines = words | std::views::transform([](const auto& word) { return word + "!"; });
  EXPECT_EQ(prefix::Options().set("stop", lines).json(),
            "{\"stop\":[\"" + words[0] + "!\",\"" + words[1] + "!\",\"c!\"]}");
  const auto views = words | std::views::transform([](const auto& word) {
                       return std::string_view(word).substr(0, 1);
                     });
  EXPECT_EQ(prefix::Options().set("stop", views).json(), "{\"stop\":[\"a\",\"b\",\"c\"]}");
  EXPECT_EQ(prefix::Options().set("stop", words | std::views::take(0)).json(), "{\"stop\":[]}");
}

// As getenv() gives it. An empty text would be another namespace, or a folder that is there.
TEST(Cpp, ATextThatIsNullIsRefused) {
  const char* const missing = nullptr;
  const auto refused = [](const auto& call) {
    try {
      call();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const prefix::Error& e) {
      EXPECT_EQ(e.status(), PREFIX_ERR_INVALID_ARGUMENT);
      EXPECT_STREQ(e.what(), "a text is NULL");
    }
  };
  prefix::Options options;
  refused([&] { prefix::Engine::open(missing); });
  refused([&] { prefix::Options(missing).json(); });
  refused([&] { options.namespace_(missing); });
  refused([&] { options.namespace_(nullptr); });
  refused([&] { options.set("namespace", missing); });
  refused([&] { options.set(missing, 1); });
  refused([&] { options.set("stop", std::array<const char*, 2>{"a", missing}); });
  EXPECT_EQ(options.json(), "{}");
  EXPECT_EQ(prefix::Text(""), "");
  static_assert(prefix::Text("ab") == "ab");
}

TEST(Cpp, NumbersWithoutASignStayWhatTheyAre) {
  prefix::Options options;
  for (const uint64_t number : {~uint64_t{0}, (uint64_t{1} << 63) + 5}) {
    prefix_error error = PREFIX_ERROR_INIT;
    options.set("seed", number, &error);  // -1 would be a seed that is drawn
    EXPECT_EQ(error.code, PREFIX_ERR_OUT_OF_RANGE) << number;
    EXPECT_NE(std::string_view(error.message).find(std::to_string(number)), std::string_view::npos)
        << error.message;
  }
  options.set("seed", uint64_t{7}).set("threads", 3u);
  EXPECT_EQ(options.json(), "{\"seed\":7,\"threads\":3}");
}

TEST(Cpp, EnginesShareAPool) {
  auto options = prefix::Options().set("cache_bytes", "16M");
  {
    const prefix::Pool pool(prefix::Options().set("threads", 3));
    EXPECT_EQ(&options.set_pool(pool), &options);
  }
  const prefix::Engine first(model_path(), &options), second(model_path(), &options);
  for (const prefix::Engine* engine : {&first, &second}) {
    prefix_engine_info info = PREFIX_ENGINE_INFO_INIT;
    EXPECT_EQ(prefix_engine_get_info(engine->get(), &info, nullptr), PREFIX_OK);
    EXPECT_EQ(info.threads, 3);
  }
  EXPECT_THROW(prefix::Pool(prefix::Options().set("dtype", "f32")), prefix::Error);
  Error error;
  EXPECT_EQ(prefix::Pool(options, &error).get(), nullptr);
  EXPECT_EQ(error.code, PREFIX_ERR_INVALID_ARGUMENT);
}

TEST(Cpp, AFailureIsAnExceptionOrAStatusByChoice) {
  prefix::Options options;
  try {
    options.set("thread", 1);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const prefix::Error& e) {
    EXPECT_EQ(e.status(), PREFIX_ERR_UNKNOWN_OPTION);
    EXPECT_STREQ(e.name(), "PREFIX_ERR_UNKNOWN_OPTION");
    EXPECT_EQ(e.function(), "prefix_options_set_int");
    EXPECT_NE(std::string_view(e.what()).find("threads"), std::string_view::npos);
  }
  prefix_error error = PREFIX_ERROR_INIT;
  options.set("thread", 1, &error);
  EXPECT_EQ(error.code, PREFIX_ERR_UNKNOWN_OPTION);
  EXPECT_NE(std::string_view(error.message).find("threads"), std::string_view::npos);
  options.set("threads", 1, &error);
  EXPECT_EQ(error.code, PREFIX_OK) << "an earlier failure does not stay";
  EXPECT_EQ(options.value("nonsense", &error), "");
  EXPECT_EQ(error.code, PREFIX_ERR_UNKNOWN_OPTION);

  const prefix::Engine none("/nowhere", nullptr, &error);
  EXPECT_EQ(error.code, PREFIX_ERR_NOT_FOUND);
  EXPECT_EQ(none.get(), nullptr);
  EXPECT_EQ(none.info(&error).layers, 0);
  EXPECT_EQ(error.code, PREFIX_ERR_INVALID_ARGUMENT);
  EXPECT_THROW(none.info(), prefix::Error);
}

// Also where no object can be made at all, as in the child of a fork.
TEST(Cpp, WithAnErrorConstructorsThrowNothing) {
  const prefix::Options parent;
  const int wrong = prefix::testing_support::in_child([&] {
    Error error;
    try {
      if (prefix::Options("{}", &error).get() || error.code != PREFIX_ERR_FORKED) return 1;
      error.code = PREFIX_OK;
      if (prefix::Pool({}, &error).get() || error.code != PREFIX_ERR_FORKED) return 2;
      error.code = PREFIX_OK;
      if (prefix::Pool(parent, &error).get() || error.code != PREFIX_ERR_FORKED) return 3;
    } catch (const prefix::Error&) {
      return 4;
    }
    try {
      const prefix::Options options;
      return 5;
    } catch (const prefix::Error& e) {
      return e.status() == PREFIX_ERR_FORKED ? 0 : 6;
    }
  });
  EXPECT_EQ(wrong, 0);
  Error error;
  const prefix::Options refused(R"({"threads": 0.5})", &error);
  EXPECT_EQ(error.code, PREFIX_ERR_INVALID_ARGUMENT);
  EXPECT_EQ(refused.json(), "{}");
  EXPECT_THROW(prefix::Options(R"({"threads": 0.5})"), prefix::Error);
  EXPECT_NE(prefix::Pool().get(), nullptr);
}

TEST(Cpp, LoadingCanBeWatchedAndAborted) {
  const prefix::Engine engine = prefix::Engine::open(model_path());
  prefix::Queue queue;
  engine.notify(queue, 7);
  double fraction = -1;
  EXPECT_TRUE(engine.wait(prefix::kForever, &fraction));
  EXPECT_EQ(fraction, 1.0);
  EXPECT_EQ(queue.next(prefix::kForever), 7);
  EXPECT_EQ(engine.info().vocabulary, 131);

  HeldLoad held;
  prefix::Engine loading(held.engine.give_up());
  EXPECT_FALSE(loading.wait(std::chrono::milliseconds(0)));
  loading.shutdown(std::chrono::milliseconds(0));
  held.finish();
  try {
    loading.wait();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const prefix::Error& e) {
    EXPECT_EQ(e.status(), PREFIX_ERR_CANCELLED);
  }
  prefix_error error = PREFIX_ERROR_INIT;
  EXPECT_FALSE(loading.wait(prefix::kForever, nullptr, &error));
  EXPECT_EQ(error.code, PREFIX_ERR_CANCELLED);
  EXPECT_THROW(prefix::Engine::open(""), prefix::Error);
}

TEST(Cpp, AModelMayBeFed) {
  const std::vector<std::byte> bytes = gguf_model().bytes();
  const prefix::Engine engine = prefix::Engine::open(prefix::Source().add("m.gguf", bytes));
  EXPECT_TRUE(engine.wait());
  EXPECT_EQ(engine.info().vocabulary, 50);
  EXPECT_THROW(prefix::Engine::open(prefix::Source()), prefix::Error);
}

TEST(Cpp, AnAdapterMayBeFed) {
  prefix::Engine engine = small_engine();
  const prefix::testing_support::TempFolder folder;
  prefix::tools::write_adapter(folder.path(), {}, {});
  const auto read = [&](const char* name) {
    std::ifstream in(folder / name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const std::string config = read("adapter_config.json");
  const std::string tensors = read("adapter_model.safetensors");
  prefix::Source source;
  source.add("adapter_config.json", std::as_bytes(std::span(config)));
  EXPECT_THROW(engine.load_adapter("fed", source), prefix::Error);
  source.add("adapter_model.safetensors", std::as_bytes(std::span(tensors)));
  engine.load_adapter("fed", source);
  EXPECT_NE(engine.adapters_json().find("\"fed\""), std::string::npos);
}

TEST(Cpp, EveryKindOfRequest) {
  const prefix::Engine engine = small_engine();
  EXPECT_EQ(engine.info().vocabulary, 131);
  EXPECT_EQ(engine.info().threads, 2);
  prefix::Batch batch(engine);
  const std::array<prefix_token, 3> prompt = {1, 2, 3};
  const std::vector<std::vector<prefix_token>> lists = {{7}, {8, 9}};
  const auto hot = prefix::Options().set("max_tokens", 5).set("ignore_eos", true);
  const auto short_one = prefix::Options().set("dimensions", 8);
  EXPECT_EQ(batch.add_logits(prompt, prompt, {nullptr, 70}), 0u);
  EXPECT_EQ(batch.add_logprobs(prompt), 1u);
  EXPECT_EQ(batch.add_choices(prompt, lists), 2u);
  EXPECT_EQ(batch.add_continuations(prompt, lists), 3u);
  EXPECT_EQ(batch.add_embedding(prompt, {&short_one}), 5u);
  EXPECT_EQ(batch.add_generate(prompt, {&hot}), 6u);
  EXPECT_EQ(batch.add_warm(prompt), 7u);
  EXPECT_EQ(batch.add_logits(std::vector<prefix_token>{1, 999}, prompt), 8u);
  EXPECT_EQ(batch.size(), 9u);
  EXPECT_NE(batch.plan_json().find("\"requests\":9"), std::string::npos) << batch.plan_json();

  const prefix::Job job = engine.run(batch);
  EXPECT_EQ(job.size(), 9u);
  EXPECT_EQ(job.finished_count(), 9u);
  EXPECT_EQ(job.info(0).user_tag, 70);
  EXPECT_EQ(job.info(0).miss_first_seen, job.info(0).computed_tokens);
  const prefix::Values all = job.all_values();
  ASSERT_EQ(all.size(), 9u);
  prefix_error no_job = PREFIX_ERROR_INIT;
  EXPECT_EQ(prefix::Job(nullptr).all_values(&no_job).size(), 0u);  // throws nothing
  EXPECT_NE(no_job.code, PREFIX_OK);
  const size_t sizes[] = {3, 2, 2, 1, 2, 8, 0, 0, 3};
  for (size_t i = 0; i < 9; ++i) EXPECT_EQ(all[i].size(), sizes[i]) << i;
  for (size_t i = 0; i < 6; ++i) {
    const std::vector<float> own = job.values(i);
    EXPECT_TRUE(std::equal(own.begin(), own.end(), all[i].begin(), all[i].end())) << i;
  }
  EXPECT_TRUE(std::isnan(all[8][0]));
  EXPECT_EQ(job.logprobs(2).size(), 3u);
  EXPECT_EQ(job.tokens(6).size(), 5u);
  EXPECT_EQ(job.partial_tokens(6), job.tokens(6));
  EXPECT_EQ(job.totals().failed, 1);
  const auto failure = job.first_failure();
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->request, 8u);
  EXPECT_EQ(failure->error.code, PREFIX_ERR_OUT_OF_RANGE);
  EXPECT_NE(std::string(failure->error.message).find(job.message(8)), std::string::npos);
  prefix_error error = PREFIX_ERROR_INIT;
  EXPECT_TRUE(job.values(8, &error).empty());
  EXPECT_EQ(error.code, PREFIX_ERR_OUT_OF_RANGE);
  EXPECT_THROW(job.values(8), prefix::Error);
  EXPECT_EQ(engine.cache().lookup(prompt).cached_tokens, 3);
  EXPECT_EQ(engine.stats().requests_failed, 1);
  EXPECT_NE(engine.metrics().find("prefix_tokens_computed_total"), std::string::npos);
  EXPECT_NE(engine.cache().tree_json().find("nodes"), std::string::npos);
  EXPECT_NE(engine.info_json().find("\"vocab_size\":131"), std::string::npos);
  EXPECT_FALSE(engine.end_tokens(&error).size() > 99 || error.code != PREFIX_OK);
}

TEST(Cpp, JobsAreWaitedForWatchedAndCancelled) {
  prefix::Engine engine = small_engine();
  const auto endless = prefix::Options().set("max_tokens", 4000).set("ignore_eos", true);
  prefix::Batch batch(engine);
  const std::vector<prefix_token> prompt = {1, 2, 3};
  for (int i = 0; i < 200; ++i) batch.add_generate(prompt, {&endless});  // seconds, if let be
  const prefix::Job job = engine.submit(batch);
  EXPECT_FALSE(job.wait(milliseconds(0)));
  // An answer is no failure: the error is as after a call that succeeded.
  prefix_error told = PREFIX_ERROR_INIT;
  told.code = 77;
  EXPECT_FALSE(job.wait(milliseconds(0), &told));
  EXPECT_EQ(told.code, PREFIX_OK);
  EXPECT_THROW(job.first_failure(), prefix::Error) << "not done";
  EXPECT_EQ(job.all_values(&told).size(), 0u) << "an empty value, not one of 200 requests";
  EXPECT_EQ(told.code, PREFIX_ERR_MISUSE);
  std::optional<prefix_event> event = job.next_event();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->kind, PREFIX_EVENT_STARTED);
  prefix::Queue queue;
  job.notify(queue, 5);
  EXPECT_FALSE(queue.next(milliseconds(0)));
  EXPECT_GE(queue.descriptor(), 0);
  prefix::Queue events;
  job.notify_events(events, 7);
  EXPECT_EQ(events.next(prefix::kForever), 7);
  job.cancel_request(0);
  job.cancel();
  EXPECT_EQ(queue.next(prefix::kForever), 5);
  EXPECT_TRUE(job.wait());
  EXPECT_EQ(job.first_failure()->error.code, PREFIX_ERR_CANCELLED);
  told.code = 77;
  EXPECT_TRUE(job.first_failure(&told));
  EXPECT_EQ(told.code, PREFIX_OK);
  while (job.next_event()) {
  }
  queue.post(6);
  EXPECT_EQ(queue.next(milliseconds(0)), 6);
  job.detach();
  const int32_t tenant = engine.open_namespace("tenant");
  EXPECT_GT(tenant, 0);
  EXPECT_EQ(engine.close_namespace(tenant), 0);
  EXPECT_THROW(engine.close_namespace(tenant), prefix::Error);
  engine.shutdown(milliseconds(0));
  EXPECT_THROW(engine.run(batch), prefix::Error);
  static_assert(std::is_nothrow_move_constructible_v<prefix::Job>);
  static_assert(!std::is_copy_constructible_v<prefix::Engine>);
}

TEST(Cpp, TheCacheIsControlled) {
  const auto options =
      prefix::Options().cache_bytes(16 << 20).cache_events(1000).cache_event_tokens(32).rows(64);
  prefix::Engine engine(model_path(), &options);
  EXPECT_EQ(engine.state(), PREFIX_ENGINE_READY);
  prefix::Batch batch(engine);
  std::vector<std::vector<prefix_token>> prompts = {std::vector<prefix_token>(64), {1, 2, 9}, {9}};
  std::iota(prompts[0].begin(), prompts[0].end(), 1);
  batch.add_warm(prompts[0]);
  (void)engine.run(batch);
  const prefix::Cache cache = engine.cache();
  EXPECT_EQ(cache.lookup_many(prompts), (std::vector<int64_t>{64, 2, 0}));
  EXPECT_GT(cache.usage().bytes, 0);
  EXPECT_EQ(cache.usage().tokens, 64);
  cache.set_limits(0, 1 << 20);
  EXPECT_EQ(cache.usage().quota_bytes, 1 << 20);
  {
    prefix::Lease lease = cache.pin(prompts[0], milliseconds(60000));
    EXPECT_EQ(lease.tokens(), 64);
    const prefix::Lease moved = std::move(lease);
    EXPECT_EQ(cache.evict(), 0);
    EXPECT_EQ(moved.tokens(), 64);
  }
  EXPECT_THROW((void)cache.pin(prompts[2]), prefix::Error);
  cache.pin(prompts[0]).keep();
  EXPECT_EQ(cache.trim(0), 0) << "a lease that is left alone goes on";

  const auto event = cache.next_event(0);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->event.kind, PREFIX_CACHE_STORED);
  EXPECT_EQ(event->tokens, std::vector<prefix_token>(prompts[0].begin(), prompts[0].begin() + 32));
  prefix_error error = PREFIX_ERROR_INIT;
  error.code = 77;
  EXPECT_FALSE(cache.next_event(1000, &error));
  EXPECT_EQ(error.code, PREFIX_OK);
  EXPECT_NE(cache.dump_events().find("\"next\":"), std::string::npos);

  const std::string path = testing::TempDir() + "cpp.snapshot";
  EXPECT_EQ(engine.save_snapshot(path).tokens, 64);
  EXPECT_EQ(small_engine().load_snapshot(path).tokens, 64);
  std::remove(path.c_str());

  const std::array<std::string_view, 2> parts = {"salt", "1"};
  const int32_t both = engine.open_namespace(parts);
  EXPECT_EQ(engine.open_namespace({"salt", "1"}), both) << "no string_view between two pointers";
  EXPECT_EQ(engine.open_namespace("salt"), both + 1) << "another one";
  EXPECT_EQ(engine.open_namespace({"salt"}), both + 1) << "one part is the name";
  EXPECT_EQ(engine.open_namespace({std::string("salt"), std::string_view("12", 1)}), both);
  EXPECT_EQ(engine.find_namespace("salt"), both + 1);
  EXPECT_FALSE(engine.find_namespace("nobody"));
  EXPECT_EQ(engine.namespace_count(), 3);
  EXPECT_EQ(engine.drop_namespace(both), 0);
  EXPECT_EQ(engine.cache(both).usage().tokens, 0);
  EXPECT_THROW(engine.cache(99).usage(), prefix::Error);
}

TEST(Cpp, TheLibraryTellsAboutItself) {
  EXPECT_GE(prefix::abi_version(), 1);
  EXPECT_NE(prefix::build_info().find(prefix::version()), std::string::npos);
  EXPECT_TRUE(prefix::has_feature(prefix::features().front()));
  EXPECT_FALSE(prefix::has_feature("no feature"));
  EXPECT_EQ(std::string_view(prefix::devices().at(0).kind), "cpu");
  const auto infos = prefix::option_infos();
  EXPECT_TRUE(std::any_of(infos.begin(), infos.end(), [](const prefix_option_details& info) {
    return std::string_view(info.key) == "dtype";
  }));
  EXPECT_EQ(prefix::Options().threads(3).json(), "{\"threads\":3}");
  while (prefix::next_log()) {
  }
  prefix::set_log_level(PREFIX_LOG_INFO);
  const std::string text(3000, 'x');
  prefix::log_write(PREFIX_LOG_INFO, text);
  prefix::log_write(PREFIX_LOG_DEBUG, "dropped");
  const auto message = prefix::next_log();
  ASSERT_TRUE(message);
  EXPECT_EQ(message->level, PREFIX_LOG_INFO);
  EXPECT_EQ(message->text.substr(0, 100), text.substr(0, 100));
  EXPECT_FALSE(prefix::next_log());
  prefix::set_log_level(PREFIX_LOG_WARNING);
  EXPECT_THROW(prefix::log_write(9, "no such level"), prefix::Error);
}

TEST(Cpp, OrderPartitionAndEstimate) {
  const std::vector<int64_t> cells = {7, 5, 8, 6, 9, 5};
  const std::vector<int32_t> lengths = {1, 4, 1, 2, 1, 4};
  const prefix::TableOrder ordered = prefix::order(cells, lengths, 2);
  EXPECT_EQ(ordered.rows, (std::vector<int64_t>{0, 2, 1}));
  EXPECT_EQ(ordered.columns, (std::vector<int32_t>{1, 0, 1, 0, 0, 1}));
  EXPECT_EQ(ordered.info.hit, 4);
  const std::vector<prefix_token> tokens = {1, 2, 1, 3, 4, 5};
  const std::vector<int64_t> offsets = {0, 2, 4, 6};
  const prefix::Parts parts = prefix::partition(tokens, offsets, 2, 1.5);
  EXPECT_EQ(parts.parts, (std::vector<int32_t>{0, 0, 1}));
  EXPECT_EQ(parts.order, (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(parts.work, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(parts.info.distinct, 5);
  const prefix::BatchEstimate estimate = prefix::estimate_batch(tokens, offsets);
  EXPECT_EQ(estimate.computed, (std::vector<int64_t>{2, 1, 2}));
  EXPECT_EQ(estimate.info.tokens, 6);
  prefix_error error = PREFIX_ERROR_INIT;
  EXPECT_TRUE(prefix::order(cells, lengths, 0, &error).rows.empty());
  EXPECT_EQ(error.code, PREFIX_ERR_INVALID_ARGUMENT);
  EXPECT_TRUE(prefix::partition(tokens, offsets, 0, 0, &error).parts.empty());
  EXPECT_EQ(error.code, PREFIX_ERR_OUT_OF_RANGE);
  EXPECT_TRUE(prefix::estimate_batch(tokens, {}, &error).computed.empty());
  EXPECT_EQ(error.code, PREFIX_ERR_INVALID_ARGUMENT);
}

// 2147483647 of them would be 16 GB of numbers, taken before they are refused.
TEST(Cpp, PartsBeyondTheLimitTakeNoMemory) {
  if (prefix::testing_support::is_sanitized()) GTEST_SKIP() << "it reserves more addresses";
  const int wrong = prefix::testing_support::in_child([] {
    const rlimit limit = {size_t{8} << 30, size_t{8} << 30};
    if (setrlimit(RLIMIT_AS, &limit) != 0) return 1;
    const std::vector<prefix_token> tokens = {1, 2};
    const std::vector<int64_t> offsets = {0, 1, 2};
    Error error;
    try {
      (void)prefix::partition(tokens, offsets, INT32_MAX, 0, &error);
    } catch (const std::bad_alloc&) {
      return 2;
    }
    return error.code == PREFIX_ERR_OUT_OF_RANGE ? 0 : 3;
  });
  EXPECT_EQ(wrong, 0);
}

TEST(Cpp, TheCacheWithoutAModel) {
  prefix::Simulation simulation(R"({"capacity": 8})");
  const std::vector<prefix_token> tokens = {1, 2, 3, 4};
  EXPECT_EQ(simulation.request("", tokens, 3), 0);
  EXPECT_EQ(simulation.request("", tokens, 3), 2);
  EXPECT_NE(simulation.apply(R"({"op": "stats"})").find("\"total\":4"), std::string::npos);
  prefix_error error = PREFIX_ERROR_INIT;
  EXPECT_EQ(simulation.apply("{}", &error), "");
  EXPECT_EQ(error.code, PREFIX_ERR_INVALID_ARGUMENT);
  EXPECT_NE(prefix::model_info_json(model_path()).find("safetensors"), std::string::npos);
  EXPECT_GT(prefix::Engine::estimate(model_path()).weight_bytes, 0);
}

}  // namespace
}  // namespace prefix_abi
