// The tasks against tests/golden/tasks.json, which Hugging Face transformers computed in float32
// from the published contracts. Everything here is compared to within 1e-5.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tasks_support.h"

namespace prefix_tasks {
namespace {

const Json& golden() {
  static const Json all = Json::parse(file_text(PREFIX_TEST_DATA "/golden/tasks.json"));
  return all;
}

Tokenizer golden_tokenizer(const std::string& name) {
  return changed_tokenizer([&](Json& whole, Json&) {
    whole["post_processor"] =
        Json::parse(golden().at("post_processors").at(name).get<std::string>());
  });
}

Strings strings(const Json& list) { return list.get<Strings>(); }

// The options that a case was computed with.
Json options_of(const Json& c, const std::string& recipe) {
  Json options = {{"recipe", recipe}, {"max_prompt_tokens", c.at("max_prompt_tokens")}};
  if (c.contains("instruction") && !c["instruction"].is_null())
    options["instruction"] = c["instruction"];
  return options;
}

double farthest(const std::vector<float>& got, const std::vector<double>& wanted) {
  EXPECT_EQ(got.size(), wanted.size());
  double most = 0;
  for (size_t i = 0; i < std::min(got.size(), wanted.size()); ++i) {
    const double difference = std::abs(got[i] - wanted[i]);
    most = std::isnan(difference) ? INFINITY : std::max(most, difference);
  }
  return most;
}

std::vector<double> flat(const Json& rows) {
  std::vector<double> all;
  for (const Json& row : rows)
    for (const Json& value : row) all.push_back(value);
  return all;
}

// For the report: how far the farthest value is.
void record(const char* name, double most) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.2g", most);
  ::testing::Test::RecordProperty(name, text);
}

// Lengths of the prompts and which of them were cut.
void expect_prompts(const prefix_task* task, const Json& c) {
  for (size_t i = 0; i < c.at("cut").size(); ++i) {
    const prefix_result_info item = info(task, i);
    EXPECT_EQ(item.status, PREFIX_OK) << message(task, i);
    EXPECT_EQ(was_cut(task, i), c["cut"][i].get<bool>()) << "item " << i;
    if (c.contains("tokens")) {
      EXPECT_EQ(item.prompt_tokens, c["tokens"][i].get<int64_t>()) << "item " << i;
    }
  }
}

// `raw` is further from zero than the score, and so is its rounding: it is compared by ratio.
void expect_raw(const std::vector<float>& got, const std::vector<double>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], wanted[i], kBound * std::max(1.0, std::abs(wanted[i]))) << "item " << i;
}

// The cases of a recipe of rerank, by the tokenizer that each names.
void expect_reranked(const std::string& recipe) {
  const Engine engine = words_engine();
  double most = 0;
  for (const Json& c : golden().at(recipe)) {
    const Tokenizer tokenizer = golden_tokenizer(c.value("tokenizer", "plain"));
    Json options = options_of(c, recipe);
    const Strings documents = strings(golden().at("documents"));
    const Strings query = {c["query"].get<std::string>()};
    const Task task = rerank(engine, tokenizer, query, documents, options);
    run(task);
    most = std::max(most, farthest(values(task), c["scores"]));
    expect_prompts(task, c);
    options["raw"] = true;
    const Task raw = rerank(engine, tokenizer, query, documents, options);
    expect_raw(values_after_run(raw), c["raw"]);
  }
  record("farthest", most);
  EXPECT_LE(most, kBound);
}

TEST(GoldenTasks, Qwen3RerankerScoresAsItsModelCard) { expect_reranked("qwen3-reranker"); }

TEST(GoldenTasks, QueryLikelihoodIsTheMeanLogProb) { expect_reranked("query-likelihood"); }

// All queries in one task, each row as if it were alone.
TEST(GoldenTasks, ManyQueriesAreRows) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = golden_tokenizer("plain");
  for (const std::string recipe : {"query-likelihood", "qwen3-reranker"}) {
    Texts queries;
    std::vector<double> wanted;
    for (const Json& c : golden().at(recipe)) {
      const bool is_default = c["max_prompt_tokens"] == 0 &&
                              c.value("tokenizer", "plain") == "plain" &&
                              (!c.contains("instruction") || c["instruction"].is_null());
      if (!is_default) continue;
      queries.add(c["query"].get<std::string>());
      for (const double score : c["scores"]) wanted.push_back(score);
    }
    const Strings documents = strings(golden().at("documents"));
    const Task task = rerank(engine, tokenizer, queries, documents, {{"recipe", recipe}});
    EXPECT_LE(farthest(values_after_run(task), wanted), kBound) << recipe;
    EXPECT_EQ(statuses(task).size(), 3 * documents.size());
  }
}

// The recipe names <|endoftext|> itself: it must be there once, whether or not the tokenizer would
// add it.
TEST(GoldenTasks, Qwen3EmbeddingVectorsAreThoseOfTheEndOfText) {
  const Engine engine = words_engine();
  for (const char* name : {"plain", "end"}) {
    const Tokenizer tokenizer = golden_tokenizer(name);
    double most = 0;
    for (const Json& c : golden().at("qwen3-embedding")) {
      Json options = options_of(c, "qwen3-embedding");
      for (const char* key : {"prompt", "dimensions", "normalize"}) options[key] = c[key];
      const Task task = embed(engine, tokenizer, strings(c["texts"]), options);
      run(task);
      most = std::max(most, farthest(values(task), flat(c["vectors"])));
      for (size_t i = 0; i < c["tokens"].size(); ++i)
        EXPECT_EQ(info(task, i).prompt_tokens, c["tokens"][i].get<int64_t>());
    }
    record(name, most);
    EXPECT_LE(most, kBound) << name;
  }
}

// For any model: what its tokenizer puts around a text, and the last token of that.
TEST(GoldenTasks, LastTokenFollowsTheTokenizer) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = golden_tokenizer("end");
  for (const Json& c : golden().at("qwen3-embedding")) {
    if (c["prompt"] != "document") continue;
    const Task task = embed(engine, tokenizer, strings(c["texts"]),
                            {{"max_prompt_tokens", c["max_prompt_tokens"]},
                             {"dimensions", c["dimensions"]},
                             {"normalize", c["normalize"]}});
    EXPECT_LE(farthest(values_after_run(task), flat(c["vectors"])), kBound);
  }
}

TEST(GoldenTasks, ChoicesAreASoftmaxOverMeanLogProbs) {
  const Engine engine = words_engine();
  double most = 0;
  for (const Json& c : golden().at("choices")) {
    const Tokenizer tokenizer = golden_tokenizer(c["tokenizer"]);
    Json options = options_of(c, "choices");
    const Strings texts = strings(golden().at("documents")),
                  labels = strings(golden().at("labels"));
    const Task task = classify(engine, tokenizer, texts, labels, options);
    run(task);
    const std::vector<float> got = values(task);
    most = std::max(most, farthest(got, flat(c["probabilities"])));
    expect_prompts(task, c);
    for (size_t row = 0; row < texts.size(); ++row) {
      double sum = 0;
      for (size_t i = 0; i < labels.size(); ++i) sum += got[row * labels.size() + i];
      EXPECT_NEAR(sum, 1, 1e-6);
    }
    options["raw"] = true;
    const Task raw = classify(engine, tokenizer, texts, labels, options);
    expect_raw(values_after_run(raw), flat(c["raw"]));
  }
  record("farthest", most);
  EXPECT_LE(most, kBound);
}

TEST(GoldenTasks, AnswersAreTheGreedyOnes) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = golden_tokenizer("plain");
  for (const Json& c : golden().at("answer")) {
    const Task task =
        answer(engine, tokenizer, golden().at("context"), strings(golden().at("questions")),
               {{"recipe", c["recipe"]}, {"max_tokens", c["max_tokens"]}});
    run(task);
    for (size_t i = 0; i < c["answers"].size(); ++i) {
      EXPECT_EQ(answer_text(task, i), c["answers"][i].get<std::string>()) << c["recipe"];
      EXPECT_EQ(info(task, i).prompt_tokens, c["tokens"][i].get<int64_t>());
    }
  }
}

}  // namespace
}  // namespace prefix_tasks
