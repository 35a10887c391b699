// Texts by a JSON schema, a regular expression or a grammar. The model is a random one: what it
// writes is right because it cannot write anything else.
#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <set>

#include "tasks_support.h"

namespace prefix_tasks {
namespace {

Json schema_of_a_thing() {
  return Json::parse(R"({
    "type": "object",
    "properties": {
      "good": {"type": "boolean"},
      "count": {"type": "integer", "minimum": 0, "maximum": 99},
      "colour": {"enum": ["red", "green", null]},
      "sizes": {"type": "array", "items": {"$ref": "#/$defs/Size"}, "maxItems": 2}
    },
    "required": ["good", "count", "colour"],
    "additionalProperties": false,
    "$defs": {"Size": {"type": "integer", "exclusiveMinimum": 0, "maximum": 9}},
    "x-guidance": {"whitespace_flexible": false}
  })");
}

// Whether it is one, by the words of the schema above.
bool is_thing(const Json& value) {
  const std::set<std::string> known{"good", "count", "colour", "sizes"};
  for (const auto& [key, part] : value.items())
    if (known.count(key) == 0) return false;
  const Json& colour = value.at("colour");
  const auto is_size = [](const Json& size) {
    return size.is_number_integer() && size > 0 && size <= 9;
  };
  const Json sizes = value.value("sizes", Json::array());
  return value.at("good").is_boolean() && value.at("count").is_number_integer() &&
         value.at("count") >= 0 && value.at("count") <= 99 &&
         (colour.is_null() || colour == "red" || colour == "green") && sizes.size() <= 2 &&
         std::all_of(sizes.begin(), sizes.end(), is_size);
}

// The text of a prompt by these options, which ends by itself.
std::string one_text(prefix_engine* engine, const prefix_tokenizer* tokenizer,
                     const Json& options) {
  const Task task = task_of(engine, tokenizer, "generate", options);
  add(task, {"Write."});
  run(task);
  EXPECT_EQ(info(task, 0).finish, PREFIX_FINISH_STOP) << message(task, 0);
  return answer_text(task, 0);
}

TEST(Structured, ATextThatEndsIsJsonOfItsSchema) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const std::string context = "The tree is green.";
  const std::string messages = R"([{"role": "user", "content": "A thing, please."}])";
  size_t ended = 0;
  for (const char* kind : {"generate", "answer", "chat"}) {
    const Task task = task_of(engine, tokenizer, kind,
                              {{"json_schema", schema_of_a_thing().dump()},
                               {"temperature", 1},
                               {"seed", 3},
                               {"max_tokens", 150},
                               {"stream", true}});
    for (int i = 0; i < 16; ++i) {
      const std::string number = " " + std::to_string(i);
      if (kind == std::string("answer"))
        add(task, {context, "Which one is it?" + number});
      else
        add(task, {kind == std::string("chat") ? messages : "A thing:" + number});
    }
    run(task);
    for (size_t i = 0; i < 16; ++i) {
      const prefix_result_info result = info(task, i);
      ASSERT_EQ(result.status, PREFIX_OK) << message(task, i);
      if (result.finish == PREFIX_FINISH_LENGTH) continue;
      ++ended;
      EXPECT_EQ(result.finish, PREFIX_FINISH_STOP);
      const std::string text = answer_text(task, i);
      const Json value = Json::parse(text, nullptr, false);
      ASSERT_FALSE(value.is_discarded()) << text;
      EXPECT_TRUE(is_thing(value)) << text;
    }
  }
  EXPECT_GE(ended, 40u) << "of 48; others ran out of tokens";
}

TEST(Structured, RegularExpressionsAndGrammarsAreKept) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  EXPECT_EQ(one_text(engine, tokenizer, {{"regex", "[(]x[)]{3}"}}), "(x)))");
  const std::string word = one_text(engine, tokenizer, {{"regex", "yes|no"}});
  EXPECT_TRUE(word == "yes" || word == "no") << word;
  EXPECT_EQ(one_text(engine, tokenizer, {{"grammar", "start: A A \"!\"\nA: \"ab\"\n"}}), "abab!");
  EXPECT_EQ(one_text(engine, tokenizer,
                     {{"json_schema", R"({"const": {"a": ["\u00e9", 1]}, )"
                                      R"("x-guidance": {"whitespace_flexible": false}})"}}),
            R"({"a":["é",1]})");
}

TEST(Structured, WhatIsDrawnFollowsFromTheSeed) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const Json options = {{"regex", "[a-z]{5,9}"}, {"temperature", 1}, {"seed", 7}};
  EXPECT_EQ(one_text(engine, tokenizer, options), one_text(engine, tokenizer, options));
}

// What ends another text may stand in one by rules; what the caller names ends it all the same.
TEST(Structured, TheStopTextOfARecipeDoesNotCutATextByRules) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const auto text = [&](const Json& stop) {
    const Task task = answer(engine, tokenizer, "A context.", {"A question?"},
                             {{"recipe", "extractive-qa"}, {"regex", "a\nb\nc"}, {"stop", stop}});
    run(task);
    EXPECT_EQ(info(task, 0).finish, PREFIX_FINISH_STOP) << message(task, 0);
    return answer_text(task, 0);
  };
  EXPECT_EQ(text(Json::array()), "a\nb\nc");
  EXPECT_EQ(text({"\nc"}), "a\nb");
}

TEST(Structured, WhatIsWrongIsSaidWhenTheTaskIsMade) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  const auto refused = [&](const char* kind, const Json& options, prefix_status status,
                           const char* sentence) {
    Task task;
    expect(status,
           [&](prefix_error* e) {
             return try_create(engine, tokenizer, kind, dumped(options), task.out(), e);
           },
           {sentence});
  };
  const auto wrong = [&](const Json& options, const char* sentence) {
    refused("generate", options, PREFIX_ERR_INVALID_ARGUMENT, sentence);
  };
  wrong({{"json_schema", R"({"type": "thing"})"}}, "option json_schema: Invalid type: thing");
  wrong({{"json_schema", "{"}}, "option json_schema: EOF while parsing");
  wrong({{"json_schema", R"({"$ref": "https://example.org/schema.json"})"}},
        "option json_schema: $ref begins with \"#/\"");
  wrong({{"regex", "a("}}, "option regex: unclosed group, at character 1");
  wrong({{"grammar", "start: a\n"}}, "option grammar: line 1, column 8: unknown name: \"a\"");
  wrong({{"regex", "a"}, {"grammar", "start: \"a\"\n"}},
        "options regex and grammar are both set; a text is written by one of them");
  wrong({{"regex", "a"}, {"ignore_eos", true}}, "option ignore_eos is true");
  refused("generate", {{"regex", std::string(20'000, 'a')}}, PREFIX_ERR_OUT_OF_RANGE,
          "option regex: 20000 bytes; the limit is 16384");
  refused("embed", {{"json_schema", "{}"}}, PREFIX_ERR_INVALID_ARGUMENT,
          "option json_schema is for answer, generate, chat; embed does not take it");
}

TEST(Structured, ATextThatIsTooMuchFailsAloneWithTheReason) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  std::string doubled = "start: A0\n";
  for (int i = 0; i < 60; ++i) {
    const std::string next = "A" + std::to_string(i + 1);
    doubled += "A" + std::to_string(i) + ": " + next + " " + next + " | " + next + "\n";
  }
  const Task task = task_of(engine, tokenizer, "generate", {{"grammar", doubled + "A60: \"y\"\n"}});
  add(task, {"Write."});
  run(task);
  EXPECT_EQ(info(task, 0).status, PREFIX_ERR_INVALID_ARGUMENT);
  const std::string said = message(task, 0);
  EXPECT_NE(said.find("(lexer error: too many expressions constructed)"), std::string::npos)
      << said;
  EXPECT_EQ(one_text(engine, tokenizer, {{"regex", "ab"}}), "ab");
}

// Rules are read on a thread of the library, however small that of the caller is.
TEST(Structured, AThreadWithASmallStackMakesATask) {
  const Engine engine = words_engine();
  const Tokenizer tokenizer = words_tokenizer();
  std::string deep = "{}";
  for (int i = 0; i < 120; ++i) deep = R"({"items":)" + deep + "}";
  const Json options = {{"json_schema", deep}};
  const std::string json = options.dump();
  struct Given {
    prefix_engine* engine;
    const prefix_tokenizer* tokenizer;
    const std::string* json;
    prefix_status status;
  } given{engine, tokenizer, &json, PREFIX_ERR_INTERNAL};
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 160 << 10);
  pthread_t thread{};
  const auto make = [](void* user) -> void* {
    auto* its = static_cast<Given*>(user);
    Task task;
    Error error;
    its->status =
        try_create(its->engine, its->tokenizer, "generate", *its->json, task.out(), &error);
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, make, &given), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  EXPECT_EQ(given.status, PREFIX_OK);
}

}  // namespace
}  // namespace prefix_tasks
