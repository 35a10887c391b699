// Adapters: requests with several of them in one batch get the bits that each gets alone, and
// nothing that one computed reaches another, wherever it was kept.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <future>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "engine/adapter_names.h"
#include "engine/random_requests.h"
#include "engine/variants.h"
#include "random_adapter.h"
#include "support/expect_error.h"
#include "support/resident_bytes.h"
#include "support/sanitized.h"
#include "support/temp_folder.h"

namespace prefix {
namespace {

using namespace testing_support;

// Blocks of rows project values of their own, behind queries and keys.
tools::CheckpointShape wide_heads() {
  tools::CheckpointShape shape;
  shape.heads = 6;
  shape.head_dim = 64;
  return shape;
}

// A model and eight adapters for it: of all modules and of some, of ranks that fill a register and
// that do not.
struct Models {
  tools::CheckpointShape shape = wide_heads();
  TinyCheckpoint checkpoint{shape};
  TempFolder folder;

  Models() {
    for (unsigned i = 0; i < 8; ++i) {
      tools::PeftAdapter adapter;
      adapter.seed = i + 1;
      adapter.rank = i == 3 ? 40 : 1 + 5 * i;
      adapter.alpha = 4 + i;
      if (i == 1) adapter.modules = {"q_proj", "v_proj"};
      if (i == 2) adapter.modules = {"up_proj"};
      if (i == 4) adapter.modules = {"k_proj", "gate_proj", "down_proj"};
      if (i == 5) adapter.modules = {"o_proj"};
      tools::write_adapter(path(i), shape, adapter);
    }
  }
  std::string path(unsigned i) const { return folder / ("adapter" + std::to_string(i)); }
};

const Models& models() {
  static const Models* const kModels = new Models;
  return *kModels;
}

std::string name_of(unsigned i) { return "a" + std::to_string(i); }

std::shared_ptr<Engine> open(const OptionList& list = {}, unsigned adapters = 8) {
  auto engine = make_engine(models().checkpoint, list);
  for (unsigned i = 0; i < adapters; ++i) engine->load_adapter(name_of(i), models().path(i));
  return engine;
}

std::vector<int32_t> text(size_t n, unsigned seed = 5) {
  std::mt19937 random(seed);
  return random_tokens(random, n, kVocab);
}

RequestSpec with(std::string adapter, std::vector<int32_t> tokens, int32_t name_space = 0) {
  RequestSpec spec = logits_of(std::move(tokens), name_space);
  spec.adapter = std::move(adapter);
  return spec;
}

RequestResult run(Engine& engine, RequestSpec spec) {
  return run_all(engine, {std::move(spec)})->result(0);
}

TEST(Adapters, EightInOneBatchGetTheBitsOfEightRuns) {
  const auto alone = one_at_a_time([](const OptionList& list) { return open(list); });
  const auto variants = usual_variants([](const OptionList& list) { return open(list); });
  size_t compared = 0;
  for (unsigned seed = 0; compared < static_cast<size_t>(cases(200));
       ++seed, compared += variants.size()) {
    std::mt19937 random(seed * 977 + 3);
    std::vector<RequestSpec> batch;
    const size_t count = 4 + random() % 24;
    while (batch.size() < count) {
      RequestSpec spec = random_task(random, random_prompt(random, batch));
      const unsigned adapter = random() % 9;
      if (adapter < 8) spec.adapter = name_of(adapter);
      batch.push_back(std::move(spec));
    }
    expect_equal_bits(*alone, variants, batch, random, "seed " + std::to_string(seed));
    if (HasFatalFailure()) return;
  }
}

// The same prompt in all of them, and without one: nine different answers, and each prefix is
// shared with its own kind only.
TEST(Adapters, PrefixesAreSharedWithinAnAdapterOnly) {
  const auto engine = open();
  std::vector<RequestSpec> batch;
  for (unsigned i = 0; i < 9; ++i) {
    const std::string name = i < 8 ? name_of(i) : "";
    for (const int32_t last : {1, 2}) {
      std::vector<int32_t> tokens = text(100);
      tokens.push_back(last);
      batch.push_back(with(name, tokens));
    }
  }
  const auto job = run_all(*engine, batch);
  std::vector<std::vector<float>> seen;
  for (size_t i = 0; i < batch.size(); ++i) {
    const RequestResult& r = job->result(i);
    ASSERT_EQ(r.status, Code::kOk) << r.message;
    EXPECT_EQ(r.usage.shared, i % 2 == 0 ? 0 : 100) << i;
    EXPECT_EQ(r.usage.cached, 0);
    for (const auto& other : seen) EXPECT_FALSE(same_bits(r.values, other)) << i;
    seen.push_back(r.values);
  }
  EXPECT_EQ(run(*engine, batch[2]).usage.cached, 100) << "all but the token that is read";
  EXPECT_TRUE(same_bits(run(*engine, batch[2]).values, seen[2]));
  engine->check();
}

TEST(Adapters, AnAdapterIsPartOfTheNamespace) {
  const auto engine = open();
  const int32_t tenant = engine->open_namespace("tenant");
  const int32_t own = engine->adapter_namespace(tenant, "a0");
  EXPECT_NE(own, tenant);
  EXPECT_EQ(engine->adapter_namespace(tenant, "a0"), own);
  EXPECT_NE(engine->adapter_namespace(0, "a0"), own);
  const std::vector<int32_t> tokens = text(64);
  const RequestResult first = run(*engine, with("a0", tokens, tenant));
  EXPECT_EQ(look_up(*engine, tokens, tenant).cached_tokens, 0);
  EXPECT_EQ(look_up(*engine, tokens, own).cached_tokens, 64);
  // By its number: the adapter comes with it.
  const RequestResult again = run(*engine, with("", tokens, own));
  EXPECT_TRUE(same_bits(first, again));
  EXPECT_EQ(again.usage.cached, 63);
  EXPECT_EQ(run(*engine, with("a0", tokens, own)).status, Code::kInvalidArgument);
  // What is done to a namespace is done to those of its adapters.
  EXPECT_EQ(engine->drop_namespace(tenant), 64);
  EXPECT_EQ(look_up(*engine, tokens, own).cached_tokens, 0);
  run(*engine, with("a0", tokens, tenant));
  EXPECT_EQ(engine->close_namespace(tenant), 64);
  expect_error(Code::kNotFound, {"closed"}, [&] { look_up(*engine, tokens, own); });
  engine->check();
}

TEST(Adapters, WhatIsNotLoadedIsRefusedAlone) {
  const auto engine = open({}, 1);
  const auto job =
      run_all(*engine, {with("a0", text(10)), with("a1", text(10)), with("", text(10))});
  EXPECT_EQ(job->result(0).status, Code::kOk);
  EXPECT_EQ(job->result(1).status, Code::kNotFound);
  EXPECT_EQ(job->result(1).message, "adapter \"a1\" is not loaded");
  EXPECT_EQ(job->result(2).status, Code::kOk);
  expect_error(Code::kNotFound, {"\"a1\" is not loaded"}, [&] { engine->unload_adapter("a1"); });
  expect_error(Code::kInvalidArgument, {"empty"},
               [&] { engine->load_adapter("", models().path(0)); });
  expect_error(Code::kNotFound, {"adapter_config.json"},
               [&] { engine->load_adapter("x", models().folder.path()); });
  // A tuple that names one by its content.
  const std::string part(kAdapterPart);
  const int32_t ns = engine->open_namespace({"t", part + std::string(64, 'a')});
  EXPECT_EQ(run(*engine, with("", text(10), ns)).status, Code::kNotFound);
}

// Another adapter under the same name: what the one before left in the cache is not its own.
TEST(Adapters, ANameMayStandForAnotherOne) {
  const auto engine = open({}, 2);
  const std::vector<int32_t> tokens = text(70);
  const RequestResult a0 = run(*engine, with("a0", tokens));
  const RequestResult a1 = run(*engine, with("a1", tokens));
  engine->load_adapter("a0", models().path(1));
  const RequestResult now = run(*engine, with("a0", tokens));
  EXPECT_TRUE(same_bits(now, a1));
  EXPECT_EQ(now.usage.cached, 69) << "the same adapter by another name";
  engine->load_adapter("a0", models().path(0));
  const RequestResult back = run(*engine, with("a0", tokens));
  EXPECT_TRUE(same_bits(back, a0));
  EXPECT_EQ(back.usage.cached, 0) << "its pages went when it was replaced";
  engine->check();
}

TEST(Adapters, RequestsThatRunKeepTheirs) {
  const auto engine = open({}, 1);
  RequestSpec long_one = with("a0", text(40));
  long_one.task = Task::kGenerate;
  long_one.logit_ids.clear();
  long_one.sampling.max_tokens = 400;
  long_one.sampling.ignore_eos = true;
  const RequestResult expected = run(*engine, long_one);
  for (int round = 0; round < 4; ++round) {
    const auto job = engine->submit({long_one, long_one});
    engine->unload_adapter("a0");
    EXPECT_EQ(run(*engine, with("a0", text(5))).status, Code::kNotFound);
    if (round % 2) engine->load_adapter("a0", models().path(0));
    job->wait(-1);
    for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(same_bits(job->result(i), expected));
    engine->load_adapter("a0", models().path(0));
    EXPECT_TRUE(same_bits(run(*engine, long_one), expected));
  }
  engine->check();
}

// However it loses its last name, and with a request that runs then.
TEST(Adapters, TheMemoryOfOneWithoutANameIsFreed) {
  if (is_sanitized()) GTEST_SKIP() << "a sanitizer holds on to memory";
  tools::PeftAdapter large;
  large.rank = 1024;
  const TempFolder folder;
  const std::string path = folder / "large";
  tools::write_adapter(path, models().shape, large);
  const auto engine = open({}, 1);
  int64_t settled = 0, bytes = 0;
  for (int i = 0; i < 24; ++i) {
    // Another one each time, by its bytes: the same would take the place of the one before.
    std::ofstream(path + "/adapter_config.json", std::ios::app) << ' ';
    engine->load_adapter("x", path);
    const auto job = engine->submit({with("x", text(40))});
    bytes = nlohmann::json::parse(engine->adapters_json()).at(1).at("bytes");
    if (i % 2) engine->load_adapter("x", models().path(0));
    engine->unload_adapter("x");
    job->wait(-1);
    EXPECT_EQ(job->result(0).status, Code::kOk) << job->result(0).message;
    if (i == 7) settled = resident_bytes();
  }
  // The weights of 16 came and went since then.
  EXPECT_GT(bytes, int64_t{4} << 20) << "too little to be seen";
  EXPECT_LT(resident_bytes() - settled, 4 * bytes);
}

TEST(Adapters, AreFoundAgainBehindTiersAndSnapshots) {
  const TempFolder disk;
  const std::vector<int32_t> tokens = text(96);
  RequestResult expected;
  {
    const auto engine = open({{"cache_disk", disk.path()}}, 2);
    expected = run(*engine, with("a0", tokens));
    ASSERT_EQ(expected.status, Code::kOk) << expected.message;
    engine->save_snapshot(disk / "snapshot", {});
    engine->shutdown(1000);
  }
  {
    const auto engine = make_engine(models().checkpoint,
                                    {{"cache_disk", disk.path()}, {"cache_fetch_ms", "600000"}});
    engine->load_adapter("another name", models().path(0));
    engine->load_adapter("a1", models().path(1));
    // First: later the engine may find that computing is faster than this disk.
    const RequestResult found = run(*engine, with("another name", tokens));
    EXPECT_TRUE(same_bits(found, expected));
    EXPECT_GE(found.usage.cached, 64);
    EXPECT_EQ(run(*engine, with("a1", tokens)).usage.cached, 0);
    EXPECT_EQ(run(*engine, with("", tokens)).usage.cached, 0);
  }
  const auto engine = make_engine(models().checkpoint);
  engine->load_snapshot(disk / "snapshot");  // before its adapter
  engine->load_adapter("b", models().path(0));
  const RequestResult found = run(*engine, with("b", tokens));
  EXPECT_TRUE(same_bits(found, expected));
  EXPECT_EQ(found.usage.cached, 95);
  EXPECT_EQ(run(*engine, with("", tokens)).usage.cached, 0);
}

// The files of an adapter, fed by a reader that stops at one of its calls until it is let go.
struct HeldAdapter {
  std::vector<std::string> contents;
  std::atomic<int> reads = 0;
  std::promise<void> held, let_go;
  FedFiles files;

  explicit HeldAdapter(int at) {
    const std::string names[] = {"adapter_config.json", "adapter_model.safetensors"};
    for (const std::string& name : names) {
      std::ifstream file(models().path(0) + "/" + name, std::ios::binary);
      contents.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
    for (size_t i = 0; i < contents.size(); ++i)
      files.add(names[i], contents[i].size(), [this, i, at](uint64_t from, size_t n, void* out) {
        if (reads++ == at) {
          held.set_value();
          let_go.get_future().wait();
        }
        std::memcpy(out, contents[i].data() + from, n);
      });
  }
};

TEST(Adapters, AShutdownDoesNotWaitForTheirReader) {
  HeldAdapter whole(-1);
  make_engine(models().checkpoint)->load_adapter("a", whole.files);
  for (const int at : {0, whole.reads / 2, whole.reads - 1}) {
    const auto engine = make_engine(models().checkpoint);
    HeldAdapter adapter(at);
    std::thread loader([&] {
      try {
        engine->load_adapter("a", adapter.files);
        ADD_FAILURE() << "it was loaded";
      } catch (const Error& e) {
        EXPECT_TRUE(e.code() == Code::kMisuse || e.code() == Code::kCancelled) << e.message();
      }
    });
    adapter.held.get_future().wait();
    engine->shutdown(0);
    EXPECT_EQ(engine->state(), EngineState::kClosed);
    adapter.let_go.set_value();
    loader.join();
  }
}

TEST(Adapters, TheListTellsOfThem) {
  const auto engine = open({}, 2);
  const std::string json = engine->adapters_json();
  EXPECT_NE(json.find("\"name\":\"a0\""), std::string::npos) << json;
  EXPECT_NE(json.find("\"matrices\":14"), std::string::npos) << json;
  EXPECT_NE(json.find("\"matrices\":4"), std::string::npos) << json;
  engine->unload_adapter("a0");
  EXPECT_EQ(engine->adapters_json().find("\"a0\""), std::string::npos);
}

}  // namespace
}  // namespace prefix
