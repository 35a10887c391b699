// Models whose tokens see those behind them: against Hugging Face transformers, and bit by bit
// alone, in company, and with any number of threads.
#include <gtest/gtest.h>

#include <map>

#include "embedding_support.h"
#include "ops/cpu/isa.h"
#include "support/expect_error.h"
#include "support/golden.h"

namespace prefix {
namespace {

using namespace testing_support;
using nlohmann::json;

const json& golden() {
  static const json& all = *new json([] {
    std::ifstream file(golden_folder() + "/bidirectional.json");
    return json::parse(file);
  }());
  return all;
}

std::shared_ptr<Engine> open(const std::string& model, OptionList list) {
  return Engine::create(golden_models() + "/" + model, make_options(list), nullptr);
}

Pooling pooling_of(const std::string& name) {
  return name == "mean" ? Pooling::kMean : name == "first" ? Pooling::kFirst : Pooling::kLast;
}

struct Distances {
  Distance hidden, pooled, vector, logits;
};

Distances distances(const json& model, Engine& engine) {
  Distances d;
  const Pooling pooling = pooling_of(model.at("pooling"));
  for (const json& each : model.at("cases")) {
    const auto add = [&](Distance& distance, const RequestSpec& spec, const json& want) {
      const std::vector<float> got = values_of(engine, spec), expected = want;
      ASSERT_EQ(got.size(), expected.size());
      distance.add(got.data(), expected.data(), got.size());
    };
    RequestSpec spec = embedding(each.at("tokens"), pooling);
    add(d.vector, spec, each.at("vector"));
    spec.dense = false;
    add(d.pooled, spec, each.at("pooled"));
    RequestSpec head = spec;
    head.head = true;
    if (each.contains("logits")) add(d.logits, head, each.at("logits"));
    spec.pooling = Pooling::kTokens;
    spec.positions = each.at("positions").get<std::vector<int32_t>>();
    std::vector<float> all;
    for (const json& row : each.at("hidden"))
      for (const json& value : row) all.push_back(value);
    add(d.hidden, spec, all);
  }
  return d;
}

TEST(Bidirectional, AgreesWithTransformersInF32) {
  for (const json& model : golden().at("models")) {
    for (const ops::IsaLevel& level : ops::cpu_isa_levels()) {
      if (!level.available) continue;
      SCOPED_TRACE(model.at("model").get<std::string>() + " on " + std::string(level.name));
      const auto engine =
          open(model.at("model"), {{"dtype", "f32"}, {"isa", std::string(level.name)}});
      const Distances d = distances(model, *engine);
      for (const Distance* distance : {&d.hidden, &d.pooled, &d.vector, &d.logits})
        EXPECT_LE(distance->max_abs, 1e-4);
    }
  }
}

// A vector may be cut; of the values of labels each has a meaning of its own.
TEST(Bidirectional, ValuesOfLabelsAreNotCut) {
  const auto engine = open("llama-bidirectional-three", {});
  RequestSpec whole = embedding({5, 6, 7}, Pooling::kMean);
  whole.head = true;
  RequestSpec cut = whole;
  cut.dimensions = 1;
  const auto job = run_all(*engine, {whole, cut});
  EXPECT_EQ(job->result(0).values.size(), 3u);
  EXPECT_EQ(job->result(1).status, Code::kInvalidArgument);
  EXPECT_NE(job->result(1).message.find("dimensions is 1; with option head"), std::string::npos)
      << job->result(1).message;
}

// The same numbers from llama.cpp's kind of file.
TEST(Bidirectional, AgreesFromGguf) {
  int files = 0;
  for (const json& model : golden().at("models")) {
    if (!model.at("gguf").get<bool>()) continue;
    const auto engine = open(model.at("model").get<std::string>() + ".gguf", {{"dtype", "f32"}});
    const Distances d = distances(model, *engine);
    for (const Distance* distance : {&d.hidden, &d.pooled, &d.vector})
      EXPECT_LE(distance->max_abs, 1e-4);
    EXPECT_GT(d.vector.squares, 0);
    ++files;
  }
  EXPECT_GT(files, 0);
}

TEST(Bidirectional, StaysNearItInBf16) {
  for (const json& model : golden().at("models")) {
    SCOPED_TRACE(model.at("model").get<std::string>());
    const auto engine = open(model.at("model"), {});
    const Distances d = distances(model, *engine);
    for (const Distance* distance : {&d.hidden, &d.pooled, &d.vector, &d.logits})
      EXPECT_LE(distance->relative(), 0.02);
  }
}

// Texts of all lengths, of which some begin like others: none has anything of another.
std::vector<RequestSpec> random_batch(std::mt19937& random, int32_t vocab) {
  std::vector<RequestSpec> batch;
  const size_t count = 1 + random() % 12;
  while (batch.size() < count) {
    std::vector<int32_t> tokens;
    if (!batch.empty() && random() % 2 == 0) {
      const std::vector<int32_t>& other = batch[random() % batch.size()].tokens;
      tokens = first_tokens(other, 1 + random() % other.size());
    }
    const size_t more = random() % 4 == 0 ? random() % 200 : random() % 20;
    for (const int32_t t : random_tokens(random, more + tokens.empty(), vocab)) tokens.push_back(t);
    if (tokens.size() > 256) tokens.resize(256);
    const unsigned way = random() % 4;
    batch.push_back(embedding(tokens, static_cast<Pooling>(way)));
    batch.back().normalize = random() % 2 == 0;
  }
  return batch;
}

TEST(Bidirectional, CompanyThreadsAndOrderChangeNoBit) {
  for (const char* model :
       {"gemma3-embedding", "qwen2-bidirectional-window", "llama-bidirectional-three"}) {
    for (const ops::IsaLevel& level : ops::cpu_isa_levels()) {
      if (!level.available) continue;
      const std::string isa(level.name);
      const auto alone =
          open(model, {{"threads", "1"}, {"isa", isa}, {"rows", "256"}, {"cache", "false"}});
      const std::map<std::string, std::shared_ptr<Engine>> others = {
          {"2 threads", open(model, {{"threads", "2"}, {"isa", isa}})},
          {"small steps", open(model, {{"threads", "3"}, {"isa", isa}, {"rows", "261"}})}};
      for (unsigned seed = 0; seed < static_cast<unsigned>(cases(120)); ++seed) {
        std::mt19937 random(seed);
        const std::vector<RequestSpec> batch = random_batch(random, 131);
        std::vector<RequestResult> want;
        for (const RequestSpec& spec : batch) {
          want.push_back(run_all(*alone, {spec})->result(0));
          ASSERT_EQ(want.back().status, Code::kOk) << want.back().message;
        }
        for (const auto& [name, engine] : others) {
          const auto job = run_all(*engine, batch);
          for (size_t i = 0; i < batch.size(); ++i)
            ASSERT_TRUE(same_bits(job->result(i), want[i]))
                << model << " " << isa << ", " << name << ", seed " << seed << ", request " << i;
          engine->check();
        }
      }
    }
  }
}

// More keys than one chunk of the softmax, which many threads take apart.
TEST(Bidirectional, LongTextsChangeNoBitEither) {
  const TinyCheckpoint checkpoint;
  const auto make = [&](const char* threads) {
    return make_engine(checkpoint, {{"attention", "bidirectional"},
                                    {"rows", "4096"},
                                    {"cache", "false"},
                                    {"threads", threads}});
  };
  const auto alone = make("1"), other = make("5");
  std::mt19937 random(3);
  const RequestSpec spec = embedding(random_tokens(random, 2600, 131), Pooling::kMean);
  const std::vector<float> want = values_of(*alone, spec);
  EXPECT_TRUE(same_bits(values_of(*other, spec), want));
  EXPECT_TRUE(same_bits(
      run_all(*other, {embedding({1, 2}, Pooling::kLast), spec})->result(1).values, want));
  EXPECT_FALSE(same_bits(values_of(*make_engine(checkpoint), spec), want));  // it is causal
}

TEST(Bidirectional, EveryTokenOfATextDecides) {
  const auto engine = open("qwen2-bidirectional", {{"dtype", "f32"}});
  std::mt19937 random(9);
  const std::vector<int32_t> tokens = random_tokens(random, 100, 131);
  const std::vector<float> first = values_of(*engine, embedding(tokens, Pooling::kFirst));
  for (const size_t position : {1u, 50u, 99u}) {
    std::vector<int32_t> other = tokens;
    other[position] = (other[position] + 1) % 131;
    EXPECT_FALSE(same_bits(values_of(*engine, embedding(other, Pooling::kFirst)), first));
  }
  EXPECT_FALSE(
      same_bits(values_of(*engine, embedding(first_tokens(tokens, 99), Pooling::kFirst)), first));
}

// Below memory; texts_test.cc has what is kept in it.
TEST(Bidirectional, InfoTellsOfIt) {
  const auto engine = open("qwen2-bidirectional", {});
  const std::string info = engine->info_json();
  EXPECT_NE(info.find("\"attention\":\"bidirectional\""), std::string::npos) << info;
  EXPECT_NE(info.find("\"sharing\":\"true\""), std::string::npos);
  EXPECT_NE(info.find("\"logits\":false"), std::string::npos);
}

TEST(Bidirectional, WhatReadsLogitsIsRefused) {
  const auto engine = open("gemma3-embedding", {});
  RequestSpec logits = logits_of({1, 2, 3}), logprobs = logits, choices = logits, generate = logits;
  logprobs.task = Task::kLogprobs;
  choices.task = Task::kChoices;
  choices.choices = {{1}};
  generate.task = Task::kGenerate;
  const auto job =
      run_all(*engine, {logits, logprobs, choices, generate, embedding({1, 2, 3}, Pooling::kMean)});
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(job->result(i).status, Code::kUnsupportedModel) << i;
    EXPECT_NE(job->result(i).message.find("bidirectional"), std::string::npos);
  }
  EXPECT_EQ(job->result(4).status, Code::kOk);
}

// A text is in one step as a whole.
TEST(Bidirectional, AStepLimitsTheLengthOfATextAndNotTheirNumber) {
  const auto engine = open("qwen2-bidirectional", {{"rows", "40"}});
  EXPECT_EQ(engine->info().max_positions, 40);
  std::mt19937 random(4);
  std::vector<RequestSpec> batch;
  for (size_t i = 0; i < 60; ++i)
    batch.push_back(embedding(random_tokens(random, 1 + i * 13 % 40, 131), Pooling::kMean));
  batch.push_back(embedding(random_tokens(random, 41, 131), Pooling::kMean));
  // Two jobs, whose texts would not fit into an equal share of a step.
  const auto other = engine->submit(batch);
  const auto job = run_all(*engine, batch);
  other->wait(-1);
  const auto wide = open("qwen2-bidirectional", {});
  for (size_t i = 0; i < 60; ++i) {
    ASSERT_EQ(job->result(i).status, Code::kOk) << job->result(i).message;
    EXPECT_TRUE(same_bits(job->result(i).values, values_of(*wide, batch[i]))) << i;
  }
  EXPECT_EQ(job->result(60).status, Code::kPromptTooLong);
  EXPECT_NE(job->result(60).message.find("41 tokens; the context holds 40"), std::string::npos);
  EXPECT_NE(job->result(60).message.find("option rows"), std::string::npos);
}

TEST(Bidirectional, OptionAttentionGoesBeforeTheFiles) {
  const auto causal = open("qwen2-bidirectional", {{"attention", "causal"}});
  const std::vector<int32_t> tokens = {5, 6, 7, 8};
  EXPECT_TRUE(same_bits(values_of(*causal, embedding(tokens, Pooling::kFirst)),
                        values_of(*causal, embedding(first_tokens(tokens, 1), Pooling::kFirst))));
  expect_error(Code::kInvalidArgument, {"cache_disk", "bidirectional"},
               [] { open("qwen2-bidirectional", {{"cache_disk", "/nonexistent/prefix"}}); });
  tools::CheckpointShape hybrid;
  hybrid.architecture = "lfm2";
  hybrid.recurrent.layers = "ra";
  const TinyCheckpoint checkpoint(hybrid);
  expect_error(Code::kUnsupportedModel, {"bidirectional", "1 of the 2", "recurrent"},
               [&] { make_engine(checkpoint, {{"attention", "bidirectional"}}); });
}

// Code that comes with a model is not run, and it may be what makes tokens see each other.
TEST(Bidirectional, AClassThatIsNotRunIsToldOf) {
  const TinyCheckpoint checkpoint;
  const std::string path = checkpoint.path() + "/config.json";
  json config = json::parse(std::ifstream(path));
  const auto warnings = [&](OptionList options, const json& changes) {
    json changed = config;
    changed.update(changes);
    std::ofstream(path) << changed;
    return json::parse(make_engine(checkpoint, options)->info_json()).at("warnings");
  };
  const json own = {{"auto_map", {{"AutoModel", "modeling.OwnModel"}}}};
  EXPECT_EQ(warnings({}, json::object()).size(), 0u);
  const json told = warnings({}, own);
  ASSERT_EQ(told.size(), 1u);
  for (const char* part : {"\"OwnModel\"", "not run", "attention=bidirectional"})
    EXPECT_NE(told[0].get<std::string>().find(part), std::string::npos) << told << part;
  EXPECT_EQ(warnings({{"attention", "causal"}}, own).size(), 0u);
  EXPECT_EQ(warnings({{"attention", "bidirectional"}}, own).size(), 0u);
  json said = own;
  said["is_causal"] = false;
  EXPECT_EQ(warnings({}, said).size(), 0u);
}

}  // namespace
}  // namespace prefix
