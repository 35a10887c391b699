// The recipes of particular models, pooled vectors and classification heads against
// tests/golden/recipes.json: prompts token by token as the code of the models' authors puts them
// together, numbers within 1e-5 of transformers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "published.h"

namespace prefix_tasks {
namespace {

void expect_near(const std::vector<float>& got, const Json& wanted, double bound = kBound) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], wanted[i].get<double>(),
                bound * std::max(1.0, std::abs(wanted[i].get<double>())))
        << i;
}

TEST(GoldenRecipes, RerankersAskAndScoreAsTheirAuthors) {
  const Engine engine = words_engine();
  for (const Json& c : golden_recipes().at("rerank")) {
    SCOPED_TRACE(c["recipe"].get<std::string>() + " " + c["query"].get<std::string>());
    const Tokenizer tokenizer = tokenizer_of(c);
    Json options = {{"recipe", c["recipe"]}, {"max_prompt_tokens", c["max_prompt_tokens"]}};
    const Texts query = {c["query"].get<std::string>()};
    const Strings documents = golden_recipes().at("documents");
    const Task task = rerank(engine, tokenizer, query, documents, options);
    for (size_t i = 0; i < documents.size(); ++i)
      EXPECT_EQ(tokens_of(task, i), c["tokens"][i].get<std::vector<prefix_token>>()) << i;
    run(task);
    expect_near(values(task), c["scores"]);
    options["raw"] = true;
    const Task raw = rerank(engine, tokenizer, query, documents, options);
    run(raw);
    expect_near(values(raw), c["raw"]);
  }
}

void expect_vectors(prefix_engine* engine, const Json& c) {
  SCOPED_TRACE(c["recipe"].get<std::string>() + " " + c["prompt"].get<std::string>());
  const Tokenizer tokenizer = tokenizer_of(c);
  Json options = {{"recipe", c["recipe"]}, {"prompt", c["prompt"]}};
  if (!c["instruction"].is_null()) options["instruction"] = c["instruction"];
  const Task task = embed(engine, tokenizer, c["texts"].get<Strings>(), options);
  run(task);
  const std::vector<float> all = values(task);
  for (size_t i = 0; i < c["texts"].size(); ++i) {
    EXPECT_EQ(tokens_of(task, i), c["tokens"][i].get<std::vector<prefix_token>>()) << i;
    const auto begin = all.begin() + static_cast<ptrdiff_t>(i * kHidden);
    expect_near({begin, begin + kHidden}, c["vectors"][i]);
  }
}

TEST(GoldenRecipes, EmbeddersAskAsTheirAuthors) {
  const Engine engine = words_engine();
  for (const Json& c : golden_recipes().at("embed")) expect_vectors(engine, c);
}

// The same where tokens see those behind them, as the files say or as the engine is told.
TEST(GoldenRecipes, BidirectionalEmbeddersAskAsTheirAuthors) {
  const TempFolder folder;
  const Engine told = engine_at(words_model(), "bidirectional");
  const Engine said = engine_at(directory(folder, "said", words_files({{"is_causal", false}})));
  const Engine causal = words_engine();
  for (const Json& c : golden_recipes().at("bidirectional_embed")) {
    expect_vectors(told, c);
    expect_vectors(said, c);
    const Tokenizer tokenizer = tokenizer_of(c);
    prefix_task* task = nullptr;
    expect(PREFIX_ERR_UNSUPPORTED_MODEL,
           [&](prefix_error* e) {
             const Json options = {{"recipe", c["recipe"]}};
             return try_create(causal, tokenizer, "embed", options.dump(), &task, e);
           },
           {c["recipe"].get<std::string>(), "causal", "option attention"});
  }
}

TEST(GoldenRecipes, ABidirectionalRerankerReadsTheMeanOfItsHiddenStates) {
  const TempFolder folder;
  const Json& golden_head = golden_recipes().at("bidirectional_rerank");
  const std::vector<float> row = golden_head.at("weight");
  const Engine engine = engine_at(directory(
      folder, "llama-nemotron-rerank-1b-v2",
      words_files({{"is_causal", false}}, {{"score.weight", f32_tensor({1, kHidden}, row)}})));
  for (const Json& c : golden_head.at("cases")) {
    const Tokenizer tokenizer = tokenizer_of(c);
    const Texts query = {c["query"].get<std::string>()};
    const Strings documents = golden_recipes().at("documents");
    const Task task = rerank(engine, tokenizer, query, documents, nullptr);
    EXPECT_EQ(task_info(task).at("recipe"), c["recipe"]);
    for (size_t i = 0; i < documents.size(); ++i)
      EXPECT_EQ(tokens_of(task, i), c["tokens"][i].get<std::vector<prefix_token>>()) << i;
    run(task);
    expect_near(values(task), c["scores"]);
  }
  const Tokenizer tokenizer = words_tokenizer();
  prefix_task* task = nullptr;
  expect(PREFIX_ERR_UNSUPPORTED_MODEL,
         [&](prefix_error* e) {
           return try_create(engine, tokenizer, "rerank", R"({"recipe": "query-likelihood"})",
                             &task, e);
         },
         {"query-likelihood", "bidirectional"});
}

// The model that reads text, as a JinaForRanking: with a projector.
std::string listwise_model(const TempFolder& folder, const Json& changes = Json::object()) {
  const Json& projector = golden_recipes().at("listwise");
  StoredTensors more;
  for (const char* layer : {"projector.0", "projector.2"}) {
    const Json& rows = projector.at(layer);
    std::vector<float> weight;
    for (const Json& row : rows)
      for (const Json& value : row) weight.push_back(value);
    more[std::string(layer) + ".weight"] = f32_tensor({rows.size(), rows[0].size()}, weight);
  }
  Json config = {{"architectures", {"JinaForRanking"}}};
  config.merge_patch(changes);
  return directory(folder, "reranker", words_files(config, more));
}

Json listwise_recipe(const Json& list) {
  Json recipe = Json::parse(file_text(PREFIX_TEST_DATA "/../text/recipes/jina-reranker-v3.json"));
  recipe["list"].merge_patch(list);
  return recipe;
}

TEST(GoldenRecipes, AListwiseRerankerReadsTheDocumentsOfAQueryTogether) {
  const TempFolder folder;
  const Engine engine = engine_at(listwise_model(folder));
  for (const Json& c : golden_recipes().at("listwise").at("cases")) {
    SCOPED_TRACE(c["query"].get<std::string>() + c["max_documents"].dump());
    const Tokenizer tokenizer = tokenizer_of(c);
    Json options = nullptr;
    if (c["max_documents"] != 125) {
      Json list;
      for (const char* key : {"max_documents", "max_document_tokens", "max_query_tokens"})
        list[key] = c[key];
      folder.write("short.json", listwise_recipe(list).dump());
      options = {{"recipe", folder / "short.json"}};
    }
    const Texts query = {c["query"].get<std::string>()};
    const Strings documents = golden_recipes().at("documents");
    const Task task = rerank(engine, tokenizer, query, documents, options);
    EXPECT_EQ(task_info(task).at("recipe"), "jina-reranker-v3");
    for (size_t i = 0; i < documents.size(); ++i)
      EXPECT_EQ(tokens_of(task, i), c["tokens"][i].get<std::vector<prefix_token>>()) << i;
    run(task);
    expect_near(values(task), c["scores"]);
    for (size_t i = 0; i < documents.size(); ++i) {
      const bool is_cut =
          c["max_document_tokens"] == 12;  // the query is longer than its limit, too
      EXPECT_EQ(was_cut(task, i), is_cut) << i;
    }
  }
}

// Each list has its own prompt and scores, whichever way its items are given;
// what is bad fails alone.
TEST(GoldenRecipes, ListsStandForThemselves) {
  const TempFolder folder;
  const Engine engine = engine_at(listwise_model(folder));
  const Json& cases = golden_recipes().at("listwise").at("cases");
  const Tokenizer tokenizer = tokenizer_of(cases[0]);
  const Strings documents = golden_recipes().at("documents");
  const Texts queries = {cases[0]["query"].get<std::string>(),
                         cases[1]["query"].get<std::string>()};
  const Task both = rerank(engine, tokenizer, queries, documents, nullptr);
  run(both);
  Json scores = cases[0]["scores"];
  for (const Json& score : cases[1]["scores"]) scores.push_back(score);
  expect_near(values(both), scores);

  // A list is what follows each other with one query: three calls, a bad document in the middle.
  const Task task = task_of(engine, tokenizer, "rerank");
  const std::string query = cases[0]["query"];
  add(task, {query, documents[0], query, documents[1]});
  add(task, {query, "\xff"});
  add(task, {query, documents[2], query, documents[3]});
  run(task);
  const std::vector<float> got = values(task);
  expect_near({got[0], got[1], got[3], got[4]}, cases[0]["scores"]);
  EXPECT_TRUE(std::isnan(got[2]));
  EXPECT_EQ(info(task, 2).status, PREFIX_ERR_INVALID_UTF8);
}

TEST(GoldenRecipes, AListThatDoesNotFitFailsByName) {
  const TempFolder folder;
  const Engine engine = engine_at(listwise_model(folder));
  const Json& c = golden_recipes().at("listwise").at("cases")[0];
  const Tokenizer tokenizer = tokenizer_of(c);
  const Strings documents = golden_recipes().at("documents");
  const Texts query = {c["query"].get<std::string>()};
  // As many prompts as it takes; a document that is too long alone is cut, or fails alone.
  const size_t around = c["tokens"][0].size();
  Json options = {{"max_prompt_tokens", around - 20}};
  const Task two = rerank(engine, tokenizer, query, documents, options);
  EXPECT_NE(tokens_of(two, 0), tokens_of(two, 3));
  run(two);
  for (const float value : values(two)) EXPECT_FALSE(std::isnan(value));
  folder.write("few.json", listwise_recipe({{"max_document_tokens", 20}}).dump());
  options = {{"recipe", folder / "few.json"}, {"truncate", "off"}};
  const Task off = rerank(engine, tokenizer, query, documents, options);
  run(off);
  const std::vector<float> got = values(off);
  EXPECT_TRUE(std::isnan(got[1]) && !std::isnan(got[2]));
  EXPECT_EQ(info(off, 1).status, PREFIX_ERR_PROMPT_TOO_LONG);
  options = {{"max_prompt_tokens", 50}};
  const Task none = rerank(engine, tokenizer, query, documents, options);
  run(none);
  for (size_t i = 0; i < documents.size(); ++i)
    EXPECT_EQ(info(none, i).status, PREFIX_ERR_PROMPT_TOO_LONG) << i;

  const Engine plain = words_engine();
  prefix_task* task = nullptr;
  expect(PREFIX_ERR_UNSUPPORTED_MODEL,
         [&](prefix_error* e) {
           return try_create(plain, tokenizer, "rerank", R"({"recipe": "jina-reranker-v3"})", &task,
                             e);
         },
         {"jina-reranker-v3", "projector"});
}

// A model by its name only, as it lies on the disks of those who have it.
TEST(GoldenRecipes, AutoKnowsTheirNames) {
  const TempFolder folder;
  const std::map<std::string, std::vector<std::string>> named = {
      {"mxbai-rerank-v2", {"mxbai-rerank-base-v2", "mxbai-rerank-large-v2"}},
      {"bge-reranker-v2-gemma", {"bge-reranker-v2-gemma"}},
      {"zerank", {"zerank-1", "zerank-1-small", "zerank-2"}},
      {"e5-mistral", {"e5-mistral-7b-instruct", "SFR-Embedding-Mistral", "SFR-Embedding-2_R"}},
      {"embeddinggemma", {"embeddinggemma-300m"}},
      {"gte-qwen2", {"gte-Qwen2-1.5B-instruct", "gte-Qwen2-7B-instruct"}},
      {"llama-nemotron-embed", {"llama-nemotron-embed-1b-v2", "llama-3.2-nv-embedqa-1b-v2"}}};
  const std::map<std::string, const char*> kinds = {
      {"rerank", "rerank"}, {"embed", "embed"}, {"bidirectional_embed", "embed"}};
  for (const auto& [cases, kind] : kinds) {
    const Json said = cases == kind ? Json::object() : Json{{"is_causal", false}};
    for (const Json& c : golden_recipes().at(cases)) {
      const Tokenizer tokenizer = tokenizer_of(c);
      for (const std::string& name : named.at(c["recipe"])) {
        if (std::filesystem::exists(folder / name)) continue;
        const Engine engine = engine_at(directory(folder, name, words_files(said)));
        EXPECT_EQ(task_info(task_of(engine, tokenizer, kind)).at("recipe"), c["recipe"]) << name;
      }
    }
  }
}

std::vector<float> vector_of(prefix_engine* engine, const std::vector<prefix_token>& tokens,
                             const Settings& settings) {
  const auto options = prefix_abi::make_options(settings);
  const auto batch = prefix_abi::make_batch(engine);
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_batch_add_embedding(batch, tokens.data(), tokens.size(), options, 0, nullptr, e);
  });
  return prefix_abi::values_of(prefix_abi::run(engine, batch), 0);
}

TEST(GoldenRecipes, VectorsArePooledAsInSentenceTransformers) {
  const Engine engine = words_engine();
  for (const Json& c : golden_recipes().at("pooling")) {
    const auto tokens = c["tokens"].get<std::vector<prefix_token>>();
    for (const char* pooling : {"mean", "first", "last"})
      expect_near(vector_of(engine, tokens, {{"pooling", pooling}, {"normalize", "false"}}),
                  c[pooling]);
    Json flat = Json::array(), two = Json::array();
    for (const Json& row : c["all"])
      for (const Json& value : row) flat.push_back(value);
    for (const size_t at : {size_t{1}, tokens.size() - 2})
      for (const Json& value : c["all"][at]) two.push_back(value);
    expect_near(vector_of(engine, tokens, {{"pooling", "tokens"}, {"normalize", "false"}}), flat);
    const std::string positions = "1," + std::to_string(tokens.size() - 2);
    expect_near(
        vector_of(
            engine, tokens,
            {{"pooling", "tokens"}, {"positions", positions.c_str()}, {"normalize", "false"}}),
        two);
  }
}

TEST(GoldenRecipes, AHeadGivesTheLogitsOfTransformers) {
  const TempFolder folder;
  const Json& c = golden_recipes().at("head");
  std::vector<float> rows;
  for (const Json& row : c["weight"])
    for (const Json& value : row) rows.push_back(value);
  const Engine engine = engine_at(
      directory(folder, "head",
                words_files(Json::object(), {{"score.weight", f32_tensor({3, kHidden}, rows)}})));
  prefix_engine_info about = PREFIX_ENGINE_INFO_INIT;
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_engine_get_info(engine, &about, e); });
  EXPECT_EQ(about.labels, 3);
  for (const Json& one : c["cases"])
    expect_near(vector_of(engine, one["tokens"], {{"head", "true"}}), one["logits"]);
  // A bias comes on top.
  const Engine biased = engine_at(directory(
      folder, "bias",
      words_files(Json::object(), {{"classifier.weight", f32_tensor({3, kHidden}, rows)},
                                   {"classifier.bias", f32_tensor({3}, {1, -2, 0.5f})}})));
  const auto plain = vector_of(engine, c["cases"][0]["tokens"], {{"head", "true"}});
  const auto more = vector_of(biased, c["cases"][0]["tokens"], {{"head", "true"}});
  EXPECT_NEAR(more[0], plain[0] + 1, 1e-5);
  EXPECT_NEAR(more[1], plain[1] - 2, 1e-5);
}

}  // namespace
}  // namespace prefix_tasks
