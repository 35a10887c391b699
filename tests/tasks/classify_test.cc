// Task classify by a classification head: labels and scores as the text-classification pipeline of
// transformers gives them (tests/golden/classify.json), within 1e-5.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string_view>

#include "base/json.h"
#include "published.h"

namespace prefix_tasks {
namespace {

const Json& golden_heads() {
  static const Json all = Json::parse(file_text(PREFIX_TEST_DATA "/golden/classify.json"));
  return all;
}
const Json& head_named(const std::string& name) {
  for (const Json& head : golden_heads().at("heads"))
    if (head.at("name") == name) return head;
  throw std::logic_error("no golden head " + name);
}

std::vector<std::vector<float>> rows_of(const Json& head) { return head.at("weight"); }

// The model that reads text, with this head; config.json as `says` says besides.
std::string model_of(const TempFolder& folder, const Json& head,
                     const std::string& name = "classifier", const Json& says = Json::object()) {
  std::vector<float> weight;
  for (const auto& row : rows_of(head)) weight.insert(weight.end(), row.begin(), row.end());
  Json config = {{"architectures", {"Qwen3ForSequenceClassification"}}};
  config.merge_patch(head.at("says"));
  config.merge_patch(says);
  return directory(
      folder, name,
      words_files(config, {{"score.weight", f32_tensor({rows_of(head).size(), kHidden}, weight)}}));
}

Texts texts_of(const Json& cases) {
  Texts texts;
  for (const Json& c : cases) texts.list.push_back(c.at("text").get<std::string>());
  return texts;
}

void expect_near(const std::vector<float>& got, const Json& cases, const char* field) {
  std::vector<double> wanted;
  for (const Json& c : cases)
    for (const Json& value : c.at(field)) wanted.push_back(value);
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], kBound) << field << i;
}

Task classified(prefix_engine* engine, const prefix_tokenizer* tokenizer, const Texts& texts,
                const Json& options = nullptr) {
  Task task = task_of(engine, tokenizer, "classify", options);
  add(task, texts);
  return task;
}

TEST(ClassifyByHead, AsThePipelineOfTransformers) {
  for (const Json& head : golden_heads().at("heads")) {
    SCOPED_TRACE(head.at("name").get<std::string>());
    const TempFolder folder;
    const Engine engine = engine_at(model_of(folder, head));
    const Tokenizer tokenizer = tokenizer_of(head);
    for (const int most : {0, 9}) {
      Json cases = Json::array();
      for (const Json& c : head.at("cases"))
        if (c.at("max_prompt_tokens") == most) cases.push_back(c);
      Json options = {{"max_prompt_tokens", most}};
      const Task task = classified(engine, tokenizer, texts_of(cases), options);
      const Json told = task_info(task);
      EXPECT_EQ(told.at("recipe"), "classification-head");
      EXPECT_EQ(told.at("method"), "head");
      EXPECT_EQ(told.at("labels"), head.at("labels"));
      for (size_t i = 0; i < cases.size(); ++i)
        EXPECT_EQ(tokens_of(task, i), cases[i]["tokens"].get<std::vector<prefix_token>>());
      run(task);
      expect_near(values(task), cases, "scores");
      for (size_t i = 0; i < cases.size(); ++i) EXPECT_EQ(was_cut(task, i), most != 0);
      options["raw"] = true;
      const Task raw = classified(engine, tokenizer, texts_of(cases), options);
      run(raw);
      expect_near(values(raw), cases, "raw");
    }
  }
}

// The GGUF file of the same head, by whose own pooling ("rank") the last token is read.
TEST(ClassifyByHead, GgufFilesHaveTheirLabels) {
  const TempFolder folder;
  const Json& head = head_named("topics");
  GgufWriter w = words_gguf(rows_of(head));
  w.integer("qwen3.pooling_type", 4);
  gguf_texts(w, "qwen3.classifier.output_labels", head.at("labels").get<Strings>());
  const Engine engine = engine_at(folder.write("topics.gguf", w.bytes()));
  const Tokenizer tokenizer = tokenizer_of(head);
  Json cases = Json::array();
  for (const Json& c : head.at("cases"))
    if (c.at("max_prompt_tokens") == 0) cases.push_back(c);
  const Task task = classified(engine, tokenizer, texts_of(cases));
  EXPECT_EQ(task_info(task).at("labels"), head.at("labels"));
  run(task);
  expect_near(values(task), cases, "scores");

  GgufWriter bare = words_gguf(rows_of(head));
  const Engine unnamed = engine_at(folder.write("bare.gguf", bare.bytes()));
  const Json names = {"LABEL_0", "LABEL_1", "LABEL_2"};
  EXPECT_EQ(task_info(classified(unnamed, tokenizer, {"a"})).at("labels"), names);
}

// What is asked for, in the order in which it is; scores are those among all labels of the head.
TEST(ClassifyByHead, SomeLabelsMayBeChosen) {
  const TempFolder folder;
  const Json& head = head_named("topics");
  const Engine engine = engine_at(model_of(folder, head));
  const Tokenizer tokenizer = tokenizer_of(head);
  const Texts texts = {"Bread is baked.", "Paris lies on the Seine."};
  const Task all = classified(engine, tokenizer, texts);
  run(all);
  const Task some = classify(engine, tokenizer, texts, {"garden", "food"});
  EXPECT_EQ(task_info(some).at("labels"), Json({"garden", "food"}));
  run(some);
  const std::vector<float> every = values(all), chosen = values(some);
  ASSERT_EQ(chosen.size(), 4u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(chosen[2 * i], every[3 * i + 2]);
    EXPECT_EQ(chosen[2 * i + 1], every[3 * i]);
  }
  EXPECT_EQ(ranking(all, 0, 3).size(), 3u);
  // Of another label there is nothing; the ones before stay.
  const Task wrong = classified(engine, tokenizer, texts);
  expect(PREFIX_ERR_UNSUPPORTED_MODEL,
         [&](prefix_error* e) { return try_set_labels(wrong, {"food", "sports"}, e); },
         {"classification-head", "classifier", "\"sports\"", "\"garden\"", "recipe choices"});
  EXPECT_EQ(task_info(wrong).at("labels"), head.at("labels"));
  run(wrong);
  EXPECT_TRUE(same_bits(values(wrong), every));
  EXPECT_EQ(task_info(wrong).at("labels"), head.at("labels"));
}

// A head that reads the mean or the first token says so in its files.
TEST(ClassifyByHead, ItIsReadWhereTheFilesSay) {
  const TempFolder folder;
  const Json& head = head_named("topics");
  const auto rows = rows_of(head);
  auto files = [&](const std::string& flag) {
    std::vector<float> weight;
    for (const auto& row : rows) weight.insert(weight.end(), row.begin(), row.end());
    auto made = words_files(head.at("says"), {{"score.weight", f32_tensor({3, kHidden}, weight)}});
    Json modules = Json::array(), pooling = Json::object();
    modules.push_back({{"idx", 0}, {"path", "1_Pooling"}, {"type", "a.Pooling"}});
    pooling["pooling_mode_" + flag] = true;
    made["modules.json"] = modules.dump();
    made["1_Pooling/config.json"] = pooling.dump();
    return made;
  };
  const Tokenizer tokenizer = tokenizer_of(head);
  const Texts texts = {"Bread is baked in a hot oven."};
  std::vector<std::vector<float>> found;
  for (const char* flag : {"lasttoken", "mean_tokens", "cls_token"}) {
    const Engine engine = engine_at(directory(folder, flag, files(flag)));
    const Task task = classified(engine, tokenizer, texts, {{"raw", true}});
    run(task);
    found.push_back(values(task));
    const std::vector<prefix_token> tokens = tokens_of(task, 0);
    const char* const pooling = found.size() == 1 ? "last" : found.size() == 2 ? "mean" : "first";
    const auto options = prefix_abi::make_options({{"head", "true"}, {"pooling", pooling}});
    const auto batch = prefix_abi::make_batch(engine);
    expect(PREFIX_OK, [&](prefix_error* e) {
      return prefix_batch_add_embedding(batch, tokens.data(), tokens.size(), options, 0, nullptr,
                                        e);
    });
    EXPECT_TRUE(same_bits(prefix_abi::values_of(prefix_abi::run(engine, batch), 0), found.back()));
  }
  EXPECT_FALSE(same_bits(found[0], found[1]));
  EXPECT_FALSE(same_bits(found[1], found[2]));
}

TEST(ClassifyByHead, WhatDoesNotFitIsAnErrorThatNamesBoth) {
  const TempFolder folder;
  const Tokenizer tokenizer = words_tokenizer();
  const auto refused = [&](prefix_engine* engine, const Json& options,
                           std::initializer_list<std::string_view> words) {
    prefix_task* task = nullptr;
    expect(
        PREFIX_ERR_UNSUPPORTED_MODEL,
        [&](prefix_error* e) {
          return try_create(engine, tokenizer, "classify", dumped(options), &task, e);
        },
        words);
    EXPECT_EQ(task, nullptr);
  };
  // No head, and the recipe named on purpose.
  const Engine plain = words_engine();
  refused(plain, {{"recipe", "classification-head"}},
          {"classification-head", "qwen3-words", "no classification head"});
  // Without a head the default is as it was: any labels.
  EXPECT_EQ(task_info(task_of(plain, tokenizer, "classify")).at("recipe"), "choices");
  EXPECT_EQ(task_info(task_of(plain, tokenizer, "classify")).at("labels"), Json::array());
  // A head alone has nothing to say of other labels.
  const Json& head = head_named("topics");
  const Engine bidirectional =
      engine_at(model_of(folder, head, "both-ways", {{"is_causal", false}}));
  refused(bidirectional, {{"recipe", "choices"}}, {"choices", "both-ways", "bidirectional"});
  EXPECT_EQ(task_info(task_of(bidirectional, tokenizer, "classify")).at("recipe"),
            "classification-head");
  // A problem that nobody knows.
  const Engine unknown = engine_at(model_of(folder, head, "odd", {{"problem_type", "ordinal"}}));
  refused(unknown, nullptr, {"classification-head", "odd", "\"ordinal\"", "regression"});
  // A causal model with a head still takes any labels by the other recipe.
  const Task named = classify(unknown, tokenizer, {"Bread."}, {"x", "y"}, {{"recipe", "choices"}});
  run(named);
  EXPECT_NEAR(values(named)[0] + values(named)[1], 1, 1e-5);
}

}  // namespace
}  // namespace prefix_tasks
