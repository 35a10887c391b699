// Recipes and options: the shipped ones, own ones, and every way to get them wrong. A mistake is
// answered by the call that makes the task, with a sentence that names it.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "tasks_support.h"

namespace prefix_tasks {
namespace {

using prefix::testing_support::TempFolder;

// A task with one item.
prefix_status make(const std::string& kind, prefix_engine* engine,
                   const prefix_tokenizer* tokenizer, const std::string& options, prefix_task** out,
                   prefix_error* err) {
  prefix_status status = try_create(engine, tokenizer, kind.c_str(), options, out, err);
  if (status != PREFIX_OK) return status;
  if (kind == "classify") status = try_set_labels(*out, {"l"}, err);
  const bool pair = kind == "rerank" || kind == "answer";
  const Texts item = pair             ? Texts{"q", "d"}
                     : kind == "chat" ? Texts{R"([{"role": "user", "content": "t"}])"}
                                      : Texts{"t"};
  return status == PREFIX_OK ? try_add(*out, item, 0, nullptr, err) : status;
}

class Recipes : public ::testing::Test {
 protected:
  void refused(const std::string& task, const std::string& options, prefix_status status,
               std::initializer_list<std::string_view> parts,
               const prefix_tokenizer* tokenizer = nullptr) {
    SCOPED_TRACE(task + " " + options.substr(0, 200));
    prefix_task* out = nullptr;
    expect(
        status,
        [&](prefix_error* e) {
          return make(task, engine_, tokenizer ? tokenizer : tokenizer_, options, &out, e);
        },
        parts);
    EXPECT_EQ(out, nullptr);
    prefix_task_release(out);
  }
  // A recipe file with these contents.
  void refused_file(const std::string& task, const std::string& contents, prefix_status status,
                    std::initializer_list<std::string_view> parts) {
    const std::string path = folder_.write("wrong.json", contents);
    SCOPED_TRACE(contents.substr(0, 200));
    refused(task, Json{{"recipe", path}}.dump(), status, parts);
  }
  Task made(const std::string& task, const std::string& options) {
    Task out;
    expect(PREFIX_OK,
           [&](prefix_error* e) { return make(task, engine_, tokenizer_, options, out.out(), e); });
    return out;
  }

  const Engine engine_ = words_engine();
  const Tokenizer tokenizer_ = words_tokenizer();
  const TempFolder folder_;
};

std::string shipped(const std::string& name) {
  return prefix_abi::text([&](char* buf, size_t cap, size_t* needed, prefix_error* e) {
    return prefix_recipe_json(name.data(), name.size(), buf, cap, needed, e);
  });
}

TEST_F(Recipes, ShippedOnesAreTheInstalledFiles) {
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(PREFIX_RECIPES)) {
    EXPECT_EQ(shipped(entry.path().stem().string()), file_text(entry.path().string()));
    ++files;
  }
  EXPECT_EQ(prefix_recipe_count(), files);
  EXPECT_EQ(prefix_recipe_name(files), nullptr);
  EXPECT_EQ(prefix_recipe_name(static_cast<size_t>(-1)), nullptr);
  expect(PREFIX_ERR_NOT_FOUND,
         [](prefix_error* e) {
           return prefix_recipe_json("nosuch", PREFIX_NUL, nullptr, 0, nullptr, e);
         },
         {"nosuch", "query-likelihood", "choices"});
  expect(PREFIX_ERR_INVALID_ARGUMENT, [](prefix_error* e) {
    return prefix_recipe_json(nullptr, PREFIX_NUL, nullptr, 0, nullptr, e);
  });
}

TEST_F(Recipes, TheFirstOfATaskIsItsDefault) {
  std::vector<std::string> seen;
  for (size_t i = 0; i < prefix_recipe_count(); ++i) {
    const std::string name = prefix_recipe_name(i);
    const Json recipe = Json::parse(shipped(name));
    const std::string task = recipe.at("task");
    // Those for particular models are made where there is one (auto_test.cc).
    if (recipe.contains("match") && !name.starts_with("qwen3-")) continue;
    if (recipe.at("method") == "head") continue;
    const Task named = made(task, Json{{"recipe", name}}.dump());
    run(named);
    EXPECT_EQ(statuses(named), std::vector<int32_t>{PREFIX_OK}) << name;
    if (std::find(seen.begin(), seen.end(), task) != seen.end()) continue;
    seen.push_back(task);
    const Task plain = made(task, "");
    run(plain);
    EXPECT_TRUE(same_bits(values(plain), values(named))) << task;
    EXPECT_EQ(answer_text(plain, 0), answer_text(named, 0)) << task;
  }
  EXPECT_EQ(seen.size(), 6u);
}

TEST_F(Recipes, AFileWorksAsTheShippedOne) {
  const std::string path = folder_.write("mine.json", shipped("qwen3-reranker"));
  const Task named =
      rerank(engine_, tokenizer_, {"What?"}, {"Bread.", "Water."}, {{"recipe", "qwen3-reranker"}});
  const Task file =
      rerank(engine_, tokenizer_, {"What?"}, {"Bread.", "Water."}, {{"recipe", path}});
  EXPECT_TRUE(same_bits(values_after_run(named), values_after_run(file)));
}

TEST_F(Recipes, WrongOptionsAreNamed) {
  const prefix_status argument = PREFIX_ERR_INVALID_ARGUMENT, unknown = PREFIX_ERR_UNKNOWN_OPTION,
                      range = PREFIX_ERR_OUT_OF_RANGE, absent = PREFIX_ERR_NOT_FOUND;
  for (const std::string task : {"rerank", "embed", "answer", "classify", "generate", "chat"}) {
    refused(task, R"({"recip": "choices"})", unknown, {"\"recip\"", "\"recipe\""});
    refused(task, R"({"recipe": ["x"]})", argument, {"recipe", "list"});
    refused(task, R"({"recipe": "nosuch"})", absent, {"nosuch", "there are"});
    refused(task, R"({"instruction": ["a"]})", argument, {"instruction", "list"});
    refused(task, R"({"truncate": "middle"})", argument, {"truncate", "middle", "left"});
    refused(task, R"({"max_prompt_tokens": -1})", range, {"max_prompt_tokens", "-1"});
    refused(task, R"({"max_prompt_tokens": 1000000000000})", range, {"max_prompt_tokens"});
    refused(task, R"({"chunk_tokens": 0})", range, {"chunk_tokens", "0", "1"});
    refused(task, R"({"chunk_tokens": 1.5})", argument, {"chunk_tokens", "whole number"});
    refused(task, R"({"threads": 2})", argument, {"threads", "engines"});
  }
  refused("embed", R"({"recipe": "last-token", "instruction": "Find it"})", argument,
          {"instruction", "last-token"});
  for (const std::string task : {"rerank", "classify"}) {
    refused(task, R"({"raw": "yes!"})", argument, {"raw", "true or false"});
    refused(task, R"({"top_n": -2})", range, {"top_n", "-2"});
    refused(task, R"({"prompt": "query"})", argument, {task, "prompt", "embed"});
    refused(task, R"({"max_tokens": 3})", argument, {"max_tokens", "generation"});
    refused(task, R"({"stream": true})", argument, {task, "stream", "answer, generate, chat"});
    refused(task, R"({"stop": ["x"]})", argument, {task, "stop"});
  }
  for (const std::string task : {"embed", "answer", "generate", "chat"}) {
    refused(task, R"({"raw": true})", argument, {task, "raw", "rerank, classify"});
    refused(task, R"({"top_n": 1})", argument, {task, "top_n"});
  }
  for (const std::string task : {"answer", "generate", "chat"}) {
    refused(task, R"({"normalize": true})", argument, {"normalize", "embeddings"});
    refused(task, R"({"max_tokens": 0})", range, {"max_tokens", "0"});
  }
  for (const std::string task : {"rerank", "embed", "classify", "answer", "generate", "chat"})
    refused(task, R"({"head": true})", argument, {"head", task, "recipe"});
  refused("embed", R"({"prompt": "passage"})", absent, {"passage", "document", "query"});
  refused("embed", R"({"dimensions": -1})", range, {"dimensions", "-1"});
  refused("embed", R"({"dimensions": 129})", range, {"dimensions", "129", "128"});
  refused("sort", "", argument, {"\"sort\"", "rerank, embed, classify, answer, generate, chat"});
  refused("rerang", "", argument, {"nearest one is \"rerank\""});
}

// A tokenizer of another model gives plausible and wrong results.
TEST_F(Recipes, ATokenizerOfAnotherModelIsRefused) {
  const Tokenizer larger = changed_tokenizer([](Json& whole, Json&) {
    for (int i = 0; i < 2'000; ++i) whole["model"]["vocab"]["more" + std::to_string(i)] = 3'000 + i;
  });
  refused("rerank", "", PREFIX_ERR_INVALID_ARGUMENT, {"vocabulary", "belong together"}, larger);
  const Tokenizer other_end = changed_tokenizer([](Json& whole, Json& config) {
    for (Json& token : whole["added_tokens"])
      if (token["content"] == "<|im_end|>") token["content"] = "<|done|>";
    config["eos_token"] = "<|endoftext|>";
  });
  refused("rerank", "", PREFIX_ERR_INVALID_ARGUMENT, {"[959]", "[961]", "belong together"},
          other_end);
}

TEST_F(Recipes, WrongFilesAreNamed) {
  const prefix_status format = PREFIX_ERR_FORMAT;
  refused("rerank", R"({"recipe": "/no/such/recipe.json"})", PREFIX_ERR_NOT_FOUND,
          {"/no/such/recipe.json"});
  refused("rerank", R"({"recipe": "absent.json"})", PREFIX_ERR_NOT_FOUND, {"absent.json"});
  refused("rerank", Json{{"recipe", folder_.path() + "/"}}.dump(), PREFIX_ERR_OUT_OF_RANGE,
          {"not a file"});
  refused("rerank", R"({"recipe": "/dev/zero"})", PREFIX_ERR_OUT_OF_RANGE, {"/dev/zero"});
  refused("rerank", R"({"recipe": "a\u0000/b"})", PREFIX_ERR_IO, {});
  refused_file("rerank", std::string(2 << 20, ' '), PREFIX_ERR_OUT_OF_RANGE,
               {"wrong.json", "1048576"});
  refused_file("rerank", "", format, {"wrong.json", "JSON"});
  refused_file("rerank", "{\"task\": \"rerank\"", format, {"wrong.json", "JSON"});
  refused_file("rerank", "{\"name\": \"\xff\"}", format, {"wrong.json", "UTF-8", "10"});
  refused_file("rerank", "[]", format, {"wrong.json", "object"});
  refused_file("rerank", "{}", format, {"wrong.json", "task", "missing"});
  refused_file("rerank", std::string(100'000, '{'), format, {"wrong.json", "JSON"});
}

TEST_F(Recipes, WrongFieldsAreNamed) {
  const prefix_status format = PREFIX_ERR_FORMAT;
  const Json right = {{"name", "mine"},   {"task", "rerank"}, {"method", "yes-no"},
                      {"yes", "yes"},     {"no", "no"},       {"prompt", {"{query} {document}"}},
                      {"cut", "document"}};
  const auto with = [&](const char* key, const Json& value) {
    Json recipe = right;
    recipe[key] = value;
    return recipe.dump();
  };
  const auto without = [&](const char* key) {
    Json recipe = right;
    recipe.erase(key);
    return recipe.dump();
  };
  {
    const std::string path = folder_.write("right.json", right.dump());
    run(made("rerank", Json{{"recipe", path}}.dump()));
  }
  refused_file("rerank", with("taks", 1), format, {"taks", "task"});
  refused_file("rerank", with("task", "sort"), format, {"task", "sort", "rerank, embed"});
  refused_file("rerank", with("task", 1), format, {"task", "string"});
  refused_file("rerank", with("method", "choices"), format, {"method", "choices", "yes-no"});
  refused_file("rerank", without("method"), format, {"method", "missing"});
  refused_file("rerank", without("yes"), format, {"yes", "missing"});
  refused_file("rerank", with("no", false), format, {"no", "string"});
  refused_file("rerank", without("prompt"), format, {"prompt", "messages"});
  refused_file("rerank", with("prompt", "{query}"), format, {"prompt", "list"});
  refused_file("rerank", with("prompt", Json::array()), format, {"prompt", "list"});
  refused_file("rerank", with("prompt", {"a", 1}), format, {"prompt", "list of strings"});
  refused_file("rerank", with("prompt", {"{text}"}), format, {"text", "query, document"});
  refused_file("rerank", with("prompt", {"{query"}), format, {"lone", "{query"});
  refused_file("rerank", with("prompt", {"query}"}), format, {"lone", "query}"});
  refused_file("rerank", with("prompts", {{"query", {"{query}"}}}), format, {"prompts"});
  refused_file("rerank", with("messages", Json::array()), format, {"messages"});
  refused_file("rerank", with("cut", "text"), format, {"cut", "text"});
  refused_file("rerank", with("special", "back"), format, {"special", "back", "front"});
  refused_file("rerank", with("max_prompt_tokens", 0), format, {"max_prompt_tokens"});
  refused_file("rerank", with("max_prompt_tokens", "many"), format, {"max_prompt_tokens"});
  refused_file("rerank", with("instruction", 7), format, {"instruction", "string"});
  refused_file("rerank", with("request", 7), format, {"request", "object"});
  refused_file("rerank", with("request", {{"max_token", 7}}), PREFIX_ERR_UNKNOWN_OPTION,
               {"max_token"});
  refused_file("rerank", with("name", nullptr), format, {"name", "string"});
  refused_file("rerank", with("doc", 3), format, {"doc", "string"});

  refused_file("rerank", with("match", "qwen"), format, {"match", "list"});
  refused_file("rerank", with("match", {Json::object()}), format, {"match", "list"});
  refused_file("rerank", with("match", {{{"named", "x"}}}), format, {"match", "named", "name"});
  refused_file("rerank", with("match", {{{"name", 1}}}), format, {"match", "texts"});
  refused_file("rerank", with("needs", "<s>"), format, {"needs", "list of strings"});
  refused_file("rerank", with("scale", 0), format, {"scale", "number"});
  refused_file("rerank", with("label", 1.5), format, {"label", "number"});
  refused_file("rerank", with("activation", "tanh"), format, {"activation", "tanh", "sigmoid"});
  refused_file("rerank", with("pooling", "max"), format, {"pooling", "max", "mean"});

  Json likelihood = {{"task", "rerank"}, {"method", "likelihood"}, {"prompt", {"{document}"}}};
  refused_file("rerank", likelihood.dump(), format, {"target", "missing"});
  likelihood["target"] = "{document}";
  refused_file("rerank", likelihood.dump(), format, {"document", "query"});

  Json chat = {{"task", "answer"}, {"method", "generate"}};
  for (const Json& messages :
       {Json("x"), Json::array(), Json({1}), Json({{{"role", "user"}}}),
        Json({{{"role", 1}, {"content", "x"}}}), Json({{{"role", "user"}, {"content", {"x"}}}})}) {
    chat["messages"] = messages;
    refused_file("answer", chat.dump(), format, {"messages"});
  }
  chat["messages"] = {{{"role", "user"}, {"content", "{query}"}}};
  refused_file("answer", chat.dump(), format, {"query", "question"});
  chat["messages"] = {{{"role", "user"}, {"content", "{question}"}}};
  chat["variables"] = 1;
  refused_file("answer", chat.dump(), format, {"variables", "object"});

  Json embed = {{"task", "embed"}, {"method", "embedding"}, {"prompts", Json::object()}};
  refused_file("embed", embed.dump(), format, {"prompts", "empty"});
  embed["prompts"] = {{"query", "{text}"}};
  refused_file("embed", embed.dump(), format, {"query", "list"});
}

TEST_F(Recipes, OfAnotherTaskAreRefused) {
  const char* of[4][2] = {{"rerank", "query-likelihood"},
                          {"embed", "last-token"},
                          {"answer", "extractive-qa"},
                          {"classify", "choices"}};
  for (const auto& [task, unused] : of)
    for (const auto& [other, recipe] : of)
      if (task != other) {
        refused(task, Json{{"recipe", recipe}}.dump(), PREFIX_ERR_INVALID_ARGUMENT,
                {recipe, other, task});
      }
}

TEST_F(Recipes, WhatTheModelLacksIsNamed) {
  refused_file("rerank",
               R"({"task": "rerank", "method": "yes-no", "prompt": ["{query}{document}"],
                   "yes": "yes yes", "no": "no"})",
               PREFIX_ERR_UNSUPPORTED_MODEL, {"yes yes", "tokens", "one"});
  refused_file("rerank",
               R"({"task": "rerank", "method": "yes-no", "prompt": ["{query}{document}"],
                   "yes": "yes", "no": ""})",
               PREFIX_ERR_UNSUPPORTED_MODEL, {"\"\"", "0 tokens"});
  const Tokenizer bare =
      changed_tokenizer([](Json&, Json& config) { config.erase("chat_template"); });
  refused("answer", "", PREFIX_ERR_UNSUPPORTED_MODEL, {"chat template"}, bare);
  // A template that does not show the message.
  const Tokenizer silent = changed_tokenizer(
      [](Json&, Json& config) { config["chat_template"] = "{{ messages | length }}"; });
  refused("answer", "", PREFIX_ERR_UNSUPPORTED_MODEL, {"chat template", "content"}, silent);
  // One that shows the first message twice and the second not at all.
  const Tokenizer stuck = changed_tokenizer([](Json&, Json& config) {
    config["chat_template"] = "{% for m in messages %}{{ messages[0].content }}{% endfor %}";
  });
  const std::string two = folder_.write("two.json",
                                        R"({"task": "answer", "method": "generate", "messages": [
          {"role": "system", "content": "{context}"}, {"role": "user", "content": "{question}"}]})");
  refused("answer", Json{{"recipe", two}}.dump(), PREFIX_ERR_UNSUPPORTED_MODEL,
          {"chat template", "repeats or drops"}, stuck);
  const Tokenizer angry = changed_tokenizer([](Json&, Json& config) {
    config["chat_template"] = "{{ raise_exception('only on Sundays') }}";
  });
  refused("answer", "", PREFIX_ERR_INVALID_ARGUMENT, {"only on Sundays"}, angry);
  const Task still = made("answer", R"({"recipe": "extractive-qa"})");
  run(still);
}

// ---- What is cut --------------------------------------------------------------------------------

std::vector<prefix_token> encode(const prefix_tokenizer* tokenizer, const std::string& text) {
  std::vector<prefix_token> tokens(text.size() + 1);
  size_t needed = 0;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_tokenizer_encode(tokenizer, text.data(), text.size(), 0, tokens.data(),
                                   tokens.size(), &needed, e);
  });
  tokens.resize(needed);
  return tokens;
}

// What the model makes of these tokens.
std::vector<float> vector_of(prefix_engine* engine, const std::vector<prefix_token>& tokens) {
  const auto batch = prefix_abi::make_batch(engine);
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_batch_add_embedding(batch, tokens.data(), tokens.size(), nullptr, 0, nullptr, e);
  });
  return prefix_abi::values_of(prefix_abi::run(engine, batch), 0);
}

TEST_F(Recipes, CutTheEndOrTheFront) {
  const std::string text = "Paris is the capital of France and the largest city of the country.";
  const std::vector<prefix_token> all = encode(tokenizer_, text);
  ASSERT_GT(all.size(), 12u);
  for (const char* side : {"right", "left"}) {
    const Task task =
        embed(engine_, tokenizer_, {text}, {{"truncate", side}, {"max_prompt_tokens", 10}});
    run(task);
    EXPECT_TRUE(was_cut(task, 0));
    const bool right = side == std::string("right");
    const std::vector<prefix_token> kept(right ? all.begin() : all.end() - 10,
                                         right ? all.begin() + 10 : all.end());
    EXPECT_TRUE(same_bits(values(task), vector_of(engine_, kept))) << side;
  }
}

// The recipe has a limit, the caller another, the model a third: the smallest counts.
TEST_F(Recipes, TheSmallestLimitCounts) {
  const std::string path =
      folder_.write("short.json",
                    R"({"task": "embed", "method": "embedding", "prompt": ["{text}"], "cut": "text",
          "max_prompt_tokens": 12})");
  const std::string text(3'000, 'x');
  const auto tokens = [&](const Json& options, prefix_engine* engine) {
    const Task task = embed(engine, tokenizer_, {text}, options);
    run(task);
    EXPECT_EQ(statuses(task), std::vector<int32_t>{PREFIX_OK}) << message(task, 0);
    return info(task, 0).prompt_tokens;
  };
  EXPECT_EQ(tokens(nullptr, engine_), 1024);
  EXPECT_EQ(tokens({{"recipe", path}}, engine_), 12);
  EXPECT_EQ(tokens({{"recipe", path}, {"max_prompt_tokens", 7}}, engine_), 7);
  EXPECT_EQ(tokens({{"recipe", path}, {"max_prompt_tokens", 20}}, engine_), 12);
  const Engine small = words_engine({{"max_positions", "100"}});
  EXPECT_EQ(tokens(nullptr, small), 100);
  EXPECT_EQ(tokens({{"max_prompt_tokens", 500}}, small), 100);
}

// What stands around the text survives; where that alone is too long, the item says so.
TEST_F(Recipes, OnlyTheNamedFieldIsCut) {
  const std::string path = folder_.write(
      "around.json",
      R"({"task": "embed", "method": "embedding", "prompt": ["one two three {text}", "<|im_end|>"],
          "cut": "text"})");
  const Task task = embed(engine_, tokenizer_, {"four five six seven eight"},
                          {{"recipe", path}, {"max_prompt_tokens", 9}});
  run(task);
  std::vector<prefix_token> kept = encode(tokenizer_, "one two three four five six seven eight");
  kept.resize(8);
  kept.push_back(encode(tokenizer_, "<|im_end|>").at(0));
  EXPECT_TRUE(same_bits(values(task), vector_of(engine_, kept)));

  const Task none = embed(engine_, tokenizer_, {"four five six seven eight"},
                          {{"recipe", path}, {"max_prompt_tokens", 3}});
  run(none);
  EXPECT_EQ(statuses(none), std::vector<int32_t>{PREFIX_ERR_PROMPT_TOO_LONG});
  EXPECT_NE(message(none, 0).find("limit is 3"), std::string::npos) << message(none, 0);
  EXPECT_NE(message(none, 0).find("may not be cut"), std::string::npos) << message(none, 0);
}

// An answer keeps room for what it generates: max_tokens of the request, else the engine's default.
TEST_F(Recipes, AnswersKeepRoomForTheirTokens) {
  const std::string path = folder_.write(
      "plain.json",
      R"({"task": "answer", "method": "generate", "prompt": ["{context}", "{question}"],
          "cut": "context"})");
  const std::string context(5'000, 'x');
  const auto room = [&](Json options) {
    options["recipe"] = path;
    const Task task = answer(engine_, tokenizer_, context, {"y"}, options);
    run(task);
    EXPECT_EQ(statuses(task), std::vector<int32_t>{PREFIX_OK}) << message(task, 0);
    return 1024 - info(task, 0).prompt_tokens;
  };
  EXPECT_EQ(room({{"max_tokens", 40}}), 40);
  EXPECT_EQ(room({{"max_tokens", "40"}}), 40);
  EXPECT_EQ(room(Json::object()), 16);
}

TEST_F(Recipes, TopNShortensTheOrderOnly) {
  const Task task = rerank(engine_, tokenizer_, {"What?"}, {"a", "b", "c", "d"}, {{"top_n", 2}});
  run(task);
  EXPECT_EQ(order(task, 0).size(), 2u);
  EXPECT_EQ(values(task).size(), 4u);
  const Task labels = classify(engine_, tokenizer_, {"x"}, {"a", "b", "c"}, {{"top_n", 9}});
  run(labels);
  EXPECT_EQ(ranking(labels, 0, 3).size(), 3u);
}

TEST_F(Recipes, InstructionsReplaceTheRecipesOwn) {
  const Texts documents = {"Bread.", "Water."};
  const auto scores = [&](const Json& options) {
    return values_after_run(rerank(engine_, tokenizer_, {"What?"}, documents, options));
  };
  const std::string own = Json::parse(shipped("qwen3-reranker")).at("instruction");
  const std::vector<float> plain = scores({{"recipe", "qwen3-reranker"}});
  EXPECT_TRUE(same_bits(plain, scores({{"recipe", "qwen3-reranker"}, {"instruction", own}})));
  EXPECT_FALSE(same_bits(plain, scores({{"recipe", "qwen3-reranker"}, {"instruction", "Food"}})));
}

// ---- docs/recipes.md ----------------------------------------------------------------------------

// The recipes that the page shows: its blocks of JSON, by name.
std::map<std::string, std::string> recipes_of_the_page() {
  const std::string page = file_text(PREFIX_DOCS "/recipes.md");
  const std::string open = "```json\n";
  std::map<std::string, std::string> found;
  for (size_t at = page.find(open); at != std::string::npos; at = page.find(open, at)) {
    at += open.size();
    const std::string block = page.substr(at, page.find("```", at) - at);
    found[Json::parse(block).at("name")] = block;
  }
  return found;
}

// The worked example gives what its page says: the mean log-probability of " query".
TEST_F(Recipes, TheWorkedExampleOfTheDocs) {
  const std::string path = folder_.write("search-log.json", recipes_of_the_page().at("search-log"));
  const Strings documents = {"Paris is the capital of France.",
                             "Mix flour, water, salt and yeast; let the dough rest, then bake it.",
                             "The Seine runs through Paris."};
  const Strings queries = {"bread recipe", "rivers"};
  const Json plain = {{"recipe", path}}, tags = {{"recipe", path}, {"instruction", "Tags:"}};
  for (const Json& options : {plain, tags}) {
    const std::string said =
        options.value("instruction", "People found this page when they searched for:");
    const Task task = rerank(engine_, tokenizer_, queries, documents, options);
    const std::vector<float> scores = values_after_run(task);
    for (size_t q = 0; q < queries.size(); ++q)
      for (size_t d = 0; d < documents.size(); ++d) {
        std::vector<prefix_token> tokens =
            encode(tokenizer_, "Page: " + documents[d] + "\n\n" + said);
        const size_t prompt = tokens.size();
        for (const prefix_token token : encode(tokenizer_, " " + queries[q]))
          tokens.push_back(token);
        const auto batch = prefix_abi::make_batch(engine_);
        expect(PREFIX_OK, [&](prefix_error* e) {
          return prefix_batch_add_logprobs(batch, tokens.data(), tokens.size(),
                                           static_cast<int32_t>(prompt), nullptr, 0, nullptr, e);
        });
        double sum = 0;
        const std::vector<float> all = prefix_abi::values_of(prefix_abi::run(engine_, batch), 0);
        for (const float value : all) sum += value;
        EXPECT_EQ(scores[q * documents.size() + d],
                  static_cast<float>(sum / static_cast<double>(all.size())));
      }
  }
}

TEST_F(Recipes, TheChatExampleOfTheDocs) {
  const std::string path = folder_.write("judge.json", recipes_of_the_page().at("chat-judge"));
  const Task task =
      rerank(engine_, tokenizer_, {"What is baked?"}, {"Bread.", "Rain."}, {{"recipe", path}});
  run(task);
  EXPECT_EQ(statuses(task), std::vector<int32_t>(2, PREFIX_OK)) << message(task, 0);
  const std::vector<prefix_token> ids = {encode(tokenizer_, "yes").at(0),
                                         encode(tokenizer_, "no").at(0)};
  const auto batch = prefix_abi::make_batch(engine_);
  prefix_abi::add_logits(
      batch,
      encode(tokenizer_,
             "<|im_start|>system\nYou judge passages. You only say yes or no.<|im_end|>\n"
             "<|im_start|>user\nPassage: Rain.\n\nDoes the passage answer this question?\n"
             "What is baked?<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"),
      ids);
  const std::vector<float> logits = prefix_abi::values_of(prefix_abi::run(engine_, batch), 0);
  EXPECT_NEAR(values(task)[1], 1 / (1 + std::exp(double{logits[1]} - logits[0])), 1e-7);
}

}  // namespace
}  // namespace prefix_tasks
