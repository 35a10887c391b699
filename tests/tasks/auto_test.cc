// Recipe auto: which recipe a model's files call for, in every layout, and what is told about it.
#include <gtest/gtest.h>

#include <functional>

#include "base/json.h"
#include "published.h"

namespace prefix_tasks {
namespace {

// What a task of this kind is made of.
Json chosen(prefix_engine* engine, const char* kind, const Json& options = nullptr) {
  const Tokenizer tokenizer = words_tokenizer();
  return task_info(task_of(engine, tokenizer, kind, options));
}

void expect_recipe(const std::string& path, const char* kind, const std::string& recipe,
                   const std::string& reason) {
  SCOPED_TRACE(path);
  const Engine engine = engine_at(path);
  const Json told = chosen(engine, kind);
  EXPECT_EQ(told.at("recipe"), recipe) << told;
  EXPECT_EQ(told.at("kind"), kind);
  EXPECT_NE(told.at("reason").get<std::string>().find(reason), std::string::npos) << told;
}

std::string pooling_config(const std::string& flag) {
  return Json{{"word_embedding_dimension", 128},
              {"pooling_mode_cls_token", false},
              {"pooling_mode_mean_tokens", false},
              {"pooling_mode_lasttoken", false}}
      .patch(Json{{{"op", "replace"}, {"path", "/" + flag}, {"value", true}}})
      .dump();
}
Json modules(std::initializer_list<std::pair<const char*, const char*>> list) {
  Json all = Json::array();
  for (const auto& [path, type] : list)
    all.push_back({{"idx", all.size()}, {"path", path}, {"type", type}});
  return all;
}
std::map<std::string, std::string> embedder(const std::string& flag, const Json& prompts = {}) {
  auto files = words_files();
  files["modules.json"] = modules({{"", "sentence_transformers.models.Transformer"},
                                   {"1_Pooling", "sentence_transformers.models.Pooling"},
                                   {"2_Normalize", "sentence_transformers.models.Normalize"}})
                              .dump();
  files["1_Pooling/config.json"] = pooling_config(flag);
  if (!prompts.is_null()) files["config_sentence_transformers.json"] = prompts.dump();
  return files;
}

prefix_token id_of(const char* word) {
  prefix_token token = 0;
  const Tokenizer tokenizer = words_tokenizer();
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_tokenizer_token_id(tokenizer, word, PREFIX_NUL, &token, e);
  });
  return token;
}
std::vector<float> row_of(const char* word) { return output_row(words_tensors(), id_of(word)); }
// yes less no, as sequence-classification conversions have it.
StoredTensors score_head() {
  std::vector<float> row = row_of("yes");
  const std::vector<float> no = row_of("no");
  for (size_t i = 0; i < row.size(); ++i) row[i] -= no[i];
  return {{"score.weight", f32_tensor({1, kHidden}, row)}};
}

TEST(Auto, DirectoriesByTheirNames) {
  const TempFolder folder;
  const auto files = words_files();
  expect_recipe(directory(folder, "Qwen3-Reranker-0.6B", files), "rerank", "qwen3-reranker",
                "\"Qwen3-Reranker-0.6B\"");
  expect_recipe(directory(folder, "Qwen3-Embedding-0.6B", files), "embed", "qwen3-embedding",
                "\"Qwen3-Embedding-0.6B\"");
  expect_recipe(directory(folder, "models--Qwen--Qwen3-Reranker-4B/snapshots/0a1b", files),
                "rerank", "qwen3-reranker", "\"Qwen3-Reranker-4B\"");
  expect_recipe(
      directory(folder, "mine", words_files({{"_name_or_path", "Qwen/Qwen3-Embedding-8B"}})),
      "embed", "qwen3-embedding", "\"Qwen3-Embedding-8B\"");
  // Of another kind of task nothing is said.
  expect_recipe(folder / "Qwen3-Embedding-0.6B", "answer", "question-answering", "default");
}

TEST(Auto, TheChatTemplateTellsAReranker) {
  const Engine engine = words_engine();
  const Tokenizer reranker = changed_tokenizer([](Json&, Json& config) {
    config["chat_template"] =
        "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query "
        "and the Instruct provided. Note that ...<|im_end|>\n<Instruct>: {{ messages[0].content }}";
  });
  EXPECT_EQ(task_info(task_of(engine, reranker, "rerank")).at("recipe"), "qwen3-reranker");
}

TEST(Auto, AHeadIsReadWhereThereIsOne) {
  const TempFolder folder;
  const std::string causal = directory(folder, "Qwen3-Reranker-0.6B", words_files());
  const std::string head = directory(
      folder, "Qwen3-Reranker-0.6B-seq-cls",
      words_files(
          {{"architectures", {"Qwen3ForSequenceClassification"}}, {"id2label", {{"0", "LABEL_0"}}}},
          score_head()));
  expect_recipe(head, "rerank", "qwen3-reranker-head", "head \"1\"");
  GgufWriter ranks = words_gguf({row_of("yes"), row_of("no")});
  ranks.string("general.name", "Qwen3 Reranker 0.6B");
  ranks.integer("qwen3.pooling_type", 4);
  gguf_texts(ranks, "qwen3.classifier.output_labels", {"yes", "no"});
  const std::string gguf = folder.write("ranks.gguf", ranks.bytes());
  expect_recipe(gguf, "rerank", "qwen3-reranker-head", "head \"2\"");

  // The three are one model: two rows of the output matrix, their difference, and the whole matrix.
  const Tokenizer tokenizer = words_tokenizer();
  const Texts queries = {"Which city lies on the Seine?", "how is bread made"};
  const Texts documents = {"Paris is the capital of France.", "Bread is made of flour.", ""};
  const auto scores = [&](const std::string& path, const Json& options) {
    const Engine engine = engine_at(path);
    const Task task = rerank(engine, tokenizer, queries, documents, options);
    run(task);
    return values(task);
  };
  const std::vector<float> want = scores(causal, nullptr);
  const std::vector<float> one = scores(head, nullptr), two = scores(gguf, nullptr);
  const std::vector<float> raw = scores(head, {{"raw", true}});
  ASSERT_EQ(want.size(), 6u);
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(one[i], want[i], 1e-5) << i;
    EXPECT_NEAR(two[i], want[i], 1e-5) << i;
    EXPECT_NEAR(1 / (1 + std::exp(-raw[i])), want[i], 1e-5) << i;
  }
}

TEST(Auto, GgufFilesByTheirMetadata) {
  const TempFolder folder;
  const auto gguf = [&](const char* name, const std::function<void(GgufWriter&)>& say) {
    GgufWriter w = words_gguf();
    say(w);
    return folder.write(name, w.bytes());
  };
  expect_recipe(gguf("a.gguf", [](auto& w) { w.string("general.name", "Qwen3 Reranker 4B"); }),
                "rerank", "qwen3-reranker", "\"Qwen3-Reranker-4B\"");
  expect_recipe(gguf("b.gguf",
                     [](auto& w) {
                       w.string("general.basename", "Qwen3");
                       w.string("general.finetune", "Embedding");
                     }),
                "embed", "qwen3-embedding", "Qwen3-Embedding");
  expect_recipe(gguf("qwen3-embedding-q8_0.gguf", [](auto&) {}), "embed", "qwen3-embedding",
                "qwen3-embedding-q8-0");
  expect_recipe(gguf("c.gguf", [](auto& w) { w.integer("qwen3.pooling_type", 1); }), "embed",
                "sentence-transformers", "pooling \"mean\"");
}

TEST(Auto, FedFilesTellTheSame) {
  auto files = embedder("pooling_mode_mean_tokens");
  prefix_source* source = nullptr;
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_source_create(&source, e); });
  for (const auto& [name, text] : files)
    expect(PREFIX_OK, [&, &n = name, &t = text](prefix_error* e) {
      return prefix_source_add_buffer(source, n.data(), n.size(), t.data(), t.size(), e);
    });
  Engine engine;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_engine_open_source(source, nullptr, engine.out(), e);
  });
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_engine_wait(engine, -1, nullptr, e); });
  EXPECT_EQ(chosen(engine, "embed").at("recipe"), "sentence-transformers");
  prefix_source_release(source);
}

TEST(Auto, AnEmbedderBringsItsPoolingAndPrompts) {
  const TempFolder folder;
  const Json prompts = {{"prompts", {{"query", "search: "}, {"Clustering", "cluster: "}}},
                        {"default_prompt_name", nullptr}};
  const Engine mean =
      engine_at(directory(folder, "mean", embedder("pooling_mode_mean_tokens", prompts)));
  const Engine last = engine_at(directory(folder, "last", embedder("pooling_mode_lasttoken")));
  const Tokenizer tokenizer = words_tokenizer();
  const auto vectors = [&](prefix_engine* engine, const Texts& texts, const Json& options) {
    const Task task = embed(engine, tokenizer, texts, options);
    run(task);
    return values(task);
  };
  const Texts plain = {"the garden in spring"};
  const auto means = vectors(mean, plain, nullptr);
  EXPECT_NE(means, vectors(last, plain, nullptr));
  // As without a recipe for it.
  EXPECT_EQ(means, vectors(last, plain, {{"recipe", "last-token"}, {"pooling", "mean"}}));
  EXPECT_EQ(vectors(mean, plain, {{"prompt", "query"}}),
            vectors(mean, {"search: the garden in spring"}, nullptr));
  EXPECT_EQ(vectors(mean, plain, {{"prompt", "Clustering"}}),
            vectors(mean, {"cluster: the garden in spring"}, {{"prompt", "document"}}));
}

// max_seq_length of sentence_bert_config.json, or else model_max_length of tokenizer_config.json,
// unless the caller says how long a prompt may be.
TEST(Auto, AnEmbedderCutsWhereItsFilesSay) {
  const TempFolder folder;
  auto files = embedder("pooling_mode_mean_tokens");
  const Engine whole = engine_at(directory(folder, "whole", files));
  files["sentence_bert_config.json"] = R"({"max_seq_length": 3, "do_lower_case": false})";
  const Engine cut = engine_at(directory(folder, "cut", files));
  const Tokenizer tokenizer = words_tokenizer();
  const auto vectors = [&](prefix_engine* engine, const Json& options) {
    const Task task = embed(engine, tokenizer, {"the garden in spring"}, options);
    run(task);
    return values(task);
  };
  const auto all = vectors(whole, nullptr), three = vectors(whole, {{"max_prompt_tokens", 3}});
  ASSERT_NE(all, three);
  EXPECT_EQ(vectors(cut, nullptr), three);
  files["sentence_bert_config.json"] = R"({"do_lower_case": false})";
  files["tokenizer_config.json"] = R"({"model_max_length": 3})";
  EXPECT_EQ(vectors(engine_at(directory(folder, "tokenizer", files)), nullptr), three);
  files["tokenizer_config.json"] = R"({"model_max_length": 1000000})";
  EXPECT_EQ(vectors(engine_at(directory(folder, "long", files)), nullptr), all);
  EXPECT_EQ(vectors(cut, {{"recipe", "last-token"}, {"pooling", "mean"}}), three);
  EXPECT_EQ(vectors(cut, {{"max_prompt_tokens", 2}}), vectors(whole, {{"max_prompt_tokens", 2}}));
  EXPECT_EQ(vectors(cut, {{"max_prompt_tokens", 1000}}), all);
  // A text that is to be continued has no such end.
  const Task scores = rerank(cut, tokenizer, {"Which city?"}, {"Paris is the capital of France."});
  run(scores);
  EXPECT_EQ(values(scores), [&] {
    const Task other =
        rerank(whole, tokenizer, {"Which city?"}, {"Paris is the capital of France."});
    run(other);
    return values(other);
  }());
}

TEST(Auto, WhatTheFilesCallForAndIsNotRunIsRefused) {
  const TempFolder folder;
  const Tokenizer tokenizer = words_tokenizer();
  const auto refused = [&](const std::string& path, std::initializer_list<std::string_view> parts) {
    const Engine engine = engine_at(path);
    prefix_task* task = nullptr;
    expect(
        PREFIX_ERR_UNSUPPORTED_MODEL,
        [&](prefix_error* e) { return try_create(engine, tokenizer, "embed", "", &task, e); },
        parts);
  };
  auto dense = embedder("pooling_mode_mean_tokens");
  dense["modules.json"] = modules({{"1_Dense", "sentence_transformers.models.Dense"},
                                   {"1_Pooling", "sentence_transformers.models.Pooling"}})
                              .dump();
  refused(directory(folder, "dense", dense), {"sentence-transformers", "\"dense\"", "Dense"});
  for (const char* kind : {"WeightedLayerPooling", "CNN", "Router"}) {
    auto other = embedder("pooling_mode_mean_tokens");
    other["modules.json"] =
        modules({{"", "sentence_transformers.models.Transformer"},
                 {"1_Other", (std::string("sentence_transformers.models.") + kind).c_str()},
                 {"1_Pooling", "sentence_transformers.models.Pooling"}})
            .dump();
    refused(directory(folder, kind, other), {"sentence-transformers", kind, "not run"});
  }
  const auto text_config = [&](const char* name, const std::string& text) {
    auto files = embedder("pooling_mode_mean_tokens");
    files["sentence_bert_config.json"] = text;
    return directory(folder, name, files);
  };
  refused(text_config("small", R"({"do_lower_case": true})"), {"\"small\"", "do_lower_case"});
  refused(text_config("chat", R"({"modality_config": {"text": {}, "message": {}}})"),
          {"\"chat\"", "modality_config", "chat template"});
  refused(text_config("seen", R"({"modality_config": {"image": {}}})"),
          {"\"seen\"", "\"image\" and no texts"});
  const std::string both = text_config("both", R"({"modality_config": {"text": {}, "image": {}}})");
  EXPECT_EQ(chosen(engine_at(both), "embed").at("recipe"), "sentence-transformers");
  // The tokens of a prompt are in every mean here.
  const Json prompts = {{"prompts", {{"query", "search: "}, {"document", ""}}}};
  auto apart = embedder("pooling_mode_mean_tokens", prompts);
  Json pooling = Json::parse(apart["1_Pooling/config.json"]);
  pooling["include_prompt"] = false;
  apart["1_Pooling/config.json"] = pooling.dump();
  refused(directory(folder, "apart", apart), {"\"apart\"", "include_prompt"});
  apart["config_sentence_transformers.json"] = Json{{"prompts", {{"query", ""}}}}.dump();
  EXPECT_EQ(chosen(engine_at(directory(folder, "none", apart)), "embed").at("recipe"),
            "sentence-transformers");
  // Named on purpose it is what the caller wants.
  EXPECT_EQ(chosen(engine_at(folder / "dense"), "embed", {{"recipe", "last-token"}}).at("reason"),
            "option recipe names it");
}

// No recipe that nobody named stands in for a pooling or a module that is not run.
TEST(Auto, NoRecipeIsGuessedAgainstTheFiles) {
  const TempFolder folder;
  const Tokenizer tokenizer = words_tokenizer();
  const auto refused = [&](const std::string& name, const std::string& pooling,
                           std::initializer_list<const char*> kinds,
                           std::initializer_list<std::string_view> parts) {
    SCOPED_TRACE(name);
    auto files = embedder("pooling_mode_mean_tokens");
    Json list = Json::array({{{"idx", 0}, {"path", ""}, {"type", "Transformer"}}});
    for (const char* kind : kinds)
      list.push_back({{"idx", list.size()}, {"path", "1_Pooling"}, {"type", kind}});
    files["modules.json"] = list.dump();
    files["1_Pooling/config.json"] =
        Json{{"embedding_dimension", 128}, {"pooling_mode", pooling}}.dump();
    const Engine engine = engine_at(directory(folder, name, files));
    prefix_task* task = nullptr;
    expect(
        PREFIX_ERR_UNSUPPORTED_MODEL,
        [&](prefix_error* e) { return try_create(engine, tokenizer, "embed", "", &task, e); },
        parts);
    EXPECT_EQ(chosen(engine, "embed", {{"recipe", "last-token"}}).at("recipe"), "last-token");
  };
  refused("weighted", "weightedmean", {"Pooling"},
          {"last-token", "\"weighted\"", "\"weightedmean\"", "last, mean and first are run"});
  refused("splade", "mean", {"SpladePooling"}, {"last-token", "SpladePooling", "not run"});
  refused("a/my-qwen3-embedding-ft", "lasttoken", {"CNN", "Pooling"},
          {"qwen3-embedding", "CNN", "not run"});
  refused("b/my-qwen3-embedding-ft", "mean", {"Pooling"},
          {"qwen3-embedding", "pooling \"mean\"", "that of the recipe is last"});
}

TEST(Auto, UnknownModelsGetTheDefaultAndAWarningOnce) {
  const TempFolder folder;
  const Engine engine = engine_at(directory(folder, "never-heard-of", words_files()));
  size_t needed = 0;
  int32_t level = 0;
  std::vector<char> text(4096);
  const auto warnings = [&] {
    size_t count = 0;
    while (prefix_log_next(&level, text.data(), text.size(), &needed) == PREFIX_OK) {
      const std::string message = text.data();
      if (message.find("never-heard-of") == std::string::npos) continue;
      EXPECT_EQ(level, PREFIX_LOG_WARNING);
      EXPECT_NE(message.find("option recipe"), std::string::npos) << message;
      ++count;
    }
    return count;
  };
  warnings();
  const Json told = chosen(engine, "rerank");
  EXPECT_EQ(told.at("recipe"), "query-likelihood");
  EXPECT_NE(told.at("reason").get<std::string>().find("no recipe"), std::string::npos) << told;
  EXPECT_EQ(warnings(), 1u);
  chosen(engine, "rerank");
  EXPECT_EQ(warnings(), 0u);
  EXPECT_EQ(chosen(engine, "embed").at("recipe"), "last-token");
  EXPECT_EQ(warnings(), 1u);
  // Any model can be asked for labels in words and for texts.
  for (const char* kind : {"answer", "classify", "generate", "chat"}) chosen(engine, kind);
  EXPECT_EQ(warnings(), 0u);
}

TEST(Auto, NamingARecipeThatDoesNotFitNamesBoth) {
  const TempFolder folder;
  const Engine engine = engine_at(directory(folder, "some-model", words_files()));
  const auto refused = [&](const Tokenizer& tokenizer, const char* recipe,
                           std::initializer_list<std::string_view> parts) {
    prefix_task* task = nullptr;
    expect(
        PREFIX_ERR_UNSUPPORTED_MODEL,
        [&](prefix_error* e) {
          return try_create(engine, tokenizer, "rerank", Json{{"recipe", recipe}}.dump(), &task, e);
        },
        parts);
  };
  refused(words_tokenizer(), "qwen3-reranker-head",
          {"qwen3-reranker-head", "some-model", "no classification head"});
  const Tokenizer other = changed_tokenizer([](Json& whole, Json&) {
    for (Json& token : whole["added_tokens"])
      if (token["content"] == "<think>") token["content"] = "<thinking>";
  });
  refused(other, "qwen3-reranker", {"qwen3-reranker", "some-model", "<think>"});
  const std::string words = folder.write(
      "words.json", R"({"name": "w", "task": "rerank", "method": "yes-no", "yes": "yes indeed",
                        "no": "no", "prompt": ["{query}{document}"]})");
  refused(words_tokenizer(), words.c_str(), {"\"w\"", "some-model", "yes indeed"});
}

TEST(Auto, APrefixRecipeGoesBeforeAll) {
  const TempFolder folder;
  const std::string mine = R"({"name": "ours", "task": "rerank", "method": "likelihood",
                               "prompt": ["{document}\n"], "target": "{query}"})";
  auto files = words_files();
  files["prefix_recipe.json"] = mine;
  expect_recipe(directory(folder, "Qwen3-Reranker-0.6B", files), "rerank", "ours",
                "prefix_recipe.json");
  expect_recipe(folder / "Qwen3-Reranker-0.6B", "answer", "question-answering", "default");
  directory(folder, "file", {{"prefix_recipe.json", mine}});
  expect_recipe(folder.write("file/model.gguf", words_gguf().bytes()), "rerank", "ours",
                "prefix_recipe.json");

  files["prefix_recipe.json"] = R"({"task": "rerank", "methods": "likelihood"})";
  const Engine engine = engine_at(directory(folder, "wrong", files));
  const Tokenizer tokenizer = words_tokenizer();
  prefix_task* task = nullptr;
  expect(PREFIX_ERR_FORMAT,
         [&](prefix_error* e) { return try_create(engine, tokenizer, "rerank", "", &task, e); },
         {"prefix_recipe.json", "\"wrong\"", "methods", "method"});
}

TEST(Auto, FilesThatSayNonsenseAreNamed) {
  const TempFolder folder;
  const auto refused = [&](const std::string& name, const std::string& file,
                           const std::string& text, std::initializer_list<std::string_view> parts) {
    SCOPED_TRACE(name);
    auto files = embedder("pooling_mode_lasttoken");
    files[file] = text;
    const std::string path = directory(folder, name, files);
    Engine engine;
    expect(
        PREFIX_ERR_FORMAT,
        [&](prefix_error* e) {
          return prefix_engine_create(path.c_str(), PREFIX_NUL, nullptr, engine.out(), e);
        },
        parts);
  };
  refused("a", "modules.json", "{}", {"modules.json", "list"});
  refused("b", "modules.json", R"([{"path": "../x", "type": "Pooling"}])", {"../x", "folder"});
  refused("g", "modules.json", R"([{"path": "2_Pooling", "type": "Pooling"}])",
          {"modules.json", "Pooling", "2_Pooling/config.json"});
  refused("c", "1_Pooling/config.json", "[1]", {"1_Pooling/config.json", "object"});
  refused("d", "config_sentence_transformers.json", R"({"prompts": {"query": 3}})",
          {"config_sentence_transformers.json", "query", "3"});
  refused("e", "prefix_recipe.json", "{", {"prefix_recipe.json"});
}

}  // namespace
}  // namespace prefix_tasks
