// Options as JSON, in and out, and the one that is a list of texts.
#include <string>
#include <utility>

#include "options_support.h"

namespace prefix_abi {
namespace {

std::string json_of(const Options& options) {
  return prefix_abi::text([&](char* buf, size_t cap, size_t* needed, prefix_error* e) {
    return prefix_options_json(options, buf, cap, needed, e);
  });
}

TEST(Options, SayAsJsonWhatWasSet) {
  const Options options = make_options({});
  EXPECT_EQ(json_of(options), "{}");
  const std::string all =
      R"({"cache_bytes":4096,"ignore_eos":true,"recipe":"a \"b\"","stop":["x","y\u000a"],)"
      R"("stop_tokens":[1,2],"temperature":0.5})";
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_options_set_json(options, all.data(), all.size(), e);
  });
  EXPECT_EQ(json_of(options), all);
  set(options, "cache_bytes", "4K", PREFIX_OK);
  set(options, "ignore_eos", "on", PREFIX_OK);
  EXPECT_EQ(json_of(options), all) << "one way to write a value";
  const Options copy = make_options({});
  const std::string json = json_of(options);
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_options_set_json(copy, json.data(), json.size(), e);
  });
  EXPECT_EQ(json_of(copy), all);
}

TEST(Options, ListsOfTexts) {
  const Options options = make_options({});
  const auto set_json = [&](const char* json, prefix_status wanted,
                            std::initializer_list<std::string_view> parts) {
    expect(
        wanted,
        [&](prefix_error* e) { return prefix_options_set_json(options, json, PREFIX_NUL, e); },
        parts);
  };
  set_json(R"({"stop": "one"})", PREFIX_OK, {});
  EXPECT_EQ(json_of(options), R"({"stop":["one"]})");
  for (const char* no_text : {"5", "true", "null", "1.5"})
    set_json((std::string(R"({"stop": )") + no_text + "}").c_str(), PREFIX_ERR_INVALID_ARGUMENT,
             {"stop", no_text, "a text or a list of texts"});
  set_json(R"({"stop": "5"})", PREFIX_OK, {});
  EXPECT_EQ(json_of(options), R"({"stop":["5"]})");
  set_json(R"({"stop": []})", PREFIX_OK, {});
  EXPECT_EQ(json_of(options), R"({"stop":[]})");
  set_json(R"({"stop": ["a", "", ""]})", PREFIX_ERR_INVALID_ARGUMENT,
           {"option stop[1] is empty", "at least 1 byte"});
  set_json(R"({"stop": ""})", PREFIX_ERR_INVALID_ARGUMENT, {"option stop[0] is empty"});
  set(options, "stop", R"([""])", PREFIX_ERR_INVALID_ARGUMENT, {"option stop[0] is empty"});
  set_json(R"({"stop": [1]})", PREFIX_ERR_INVALID_ARGUMENT, {"stop", "texts, not numbers"});
  set_json(R"({"stop": ["a", 1]})", PREFIX_ERR_INVALID_ARGUMENT, {"stop", "not both"});
  set_json(R"({"stop_tokens": ["a"]})", PREFIX_ERR_INVALID_ARGUMENT,
           {"stop_tokens", "whole numbers"});
  set_json(R"({"threads": ["a"]})", PREFIX_ERR_INVALID_ARGUMENT, {"threads", "one value"});
  const Options numbers = make_options({{"stop_tokens", "007,8"}});
  EXPECT_EQ(json_of(numbers), R"({"stop_tokens":[7,8]})");  // which is JSON
  expect(PREFIX_ERR_INVALID_ARGUMENT, [&](prefix_error* e) {
    return prefix_options_set(numbers, "stop_tokens", PREFIX_NUL, "1,2,", PREFIX_NUL, e);
  });
  // What is no text would be a text of its own: a tenant "null".
  for (const char* no_text : {"5", "true", "null", "1.5"})
    set_json((std::string(R"({"namespace": )") + no_text + "}").c_str(),
             PREFIX_ERR_INVALID_ARGUMENT, {"namespace", no_text, "a text"});

  const char* const texts[] = {"ab", "\"quoted\""};
  const size_t lengths[] = {1, PREFIX_NUL};
  const auto set_texts = [&](const char* const* list, const size_t* sizes, size_t n,
                             prefix_status wanted, std::initializer_list<std::string_view> parts) {
    expect(
        wanted,
        [&](prefix_error* e) {
          return prefix_options_set_texts(options, "stop", PREFIX_NUL, list, sizes, n, e);
        },
        parts);
  };
  set_texts(texts, lengths, 2, PREFIX_OK, {});
  EXPECT_EQ(json_of(options), R"({"stop":["a","\"quoted\""]})");
  set_texts(texts, nullptr, 1, PREFIX_OK, {});
  EXPECT_EQ(json_of(options), R"({"stop":["ab"]})");
  const char* const bad[] = {"\xff", nullptr};
  const char* const empty[] = {"a", ""};
  set_texts(empty, nullptr, 2, PREFIX_ERR_INVALID_ARGUMENT, {"option stop[1] is empty"});
  set_texts(bad, nullptr, 1, PREFIX_ERR_INVALID_UTF8, {"texts"});
  set_texts(bad + 1, nullptr, 1, PREFIX_ERR_INVALID_ARGUMENT, {"texts"});
  set_texts(nullptr, nullptr, 1, PREFIX_ERR_INVALID_ARGUMENT, {"texts"});
  EXPECT_EQ(json_of(options), R"({"stop":["ab"]})") << "what fails changes nothing";
  set_texts(nullptr, nullptr, 0, PREFIX_OK, {});
  EXPECT_EQ(json_of(options), R"({"stop":[]})");
  expect(PREFIX_ERR_INVALID_ARGUMENT, [&](prefix_error* e) {
    return prefix_options_set_texts(options, "threads", PREFIX_NUL, texts, nullptr, 1, e);
  });
}

TEST(Options, MergeFromJson) {
  const Options options = make_options({{"rows", "64"}});
  const auto merge = [&](const std::string& json, prefix_status wanted,
                         std::initializer_list<std::string_view> parts = {}) {
    SCOPED_TRACE(json.substr(0, 100));
    expect(
        wanted,
        [&](prefix_error* e) {
          return prefix_options_set_json(options, json.data(), json.size(), e);
        },
        parts);
  };
  merge(R"({"max_tokens": 7, "temperature": 0.5, "ignore_eos": true, "stop_tokens": [1, 2],
            "isa": "auto", "cache_bytes": "4M"})",
        PREFIX_OK);
  EXPECT_EQ(get(options, "max_tokens"), "7");
  EXPECT_EQ(get(options, "temperature"), "0.5");
  EXPECT_EQ(get(options, "ignore_eos"), "true");
  EXPECT_EQ(get(options, "stop_tokens"), "1,2");
  EXPECT_EQ(get(options, "rows"), "64") << "not mentioned, not changed";
  merge("{}", PREFIX_OK);
  merge(R"({"max_tokens": 9, "nonsense": 1})", PREFIX_ERR_UNKNOWN_OPTION, {"nonsense"});
  merge(R"({"max_tokens": 9, "rows": 0})", PREFIX_ERR_OUT_OF_RANGE, {"rows", "0"});
  EXPECT_EQ(get(options, "max_tokens"), "7") << "all or nothing";
  for (const char* wrong :
       {"", "[]", "7", "null", "{", "{\"rows\": 1", "{\"rows\": 1} x", "{rows: 1}",
        "{\"rows\": null}", "{\"rows\": {}}", "{\"rows\": 1.5}", "{\"stop_tokens\": [1, [2]]}",
        "{\"stop_tokens\": [\"1\"]}", "{\"ignore_eos\": [true]}", "1e999"})
    merge(wrong, PREFIX_ERR_INVALID_ARGUMENT);
  merge(R"({"rows": 65, "top_k": 1, "rows": 66})", PREFIX_ERR_INVALID_ARGUMENT,
        {"\"rows\" occurs twice"});
  EXPECT_EQ(get(options, "rows"), "64");
  // As the same number in a text.
  merge(R"({"temperature": 1e999})", PREFIX_ERR_OUT_OF_RANGE, {"1e999", "[0, 1000]"});
  merge(R"({"rows": 1e999, "top_k": 1})", PREFIX_ERR_INVALID_ARGUMENT,
        {"rows", "1e999", "not a whole number"});
  merge(R"({"nonsense": 1e999})", PREFIX_ERR_UNKNOWN_OPTION, {"nonsense"});
}

TEST(Options, HalfOfASurrogatePairIsSaidToBeInItsOption) {
  const Options options = make_options({{"rows", "64"}});
  for (const auto& [json, name] : std::initializer_list<std::pair<const char*, const char*>>{
           {R"({"rows": 1, "namespace": "\ud800"})", "option \"namespace\""},
           {R"({"stop": ["a", "\ud800\u0041"]})", "option \"stop\""},
           {R"({"adapter": "\udc00"})", "option \"adapter\""},
           {R"({"adapter": "", "\udc00": 1})", "the name of an option"},
           {R"({"\udc00": 1})", "the name of an option"}})
    expect(PREFIX_ERR_INVALID_ARGUMENT,
           [&, text = json](prefix_error* e) {
             return prefix_options_set_json(options, text, PREFIX_NUL, e);
           },
           {name, "has half of a surrogate pair at byte "});
  EXPECT_EQ(get(options, "rows"), "64");
  // Where no option is.
  for (const char* json : {R"("\ud800")", R"({} "\ud800")"})
    expect(PREFIX_ERR_INVALID_ARGUMENT,
           [&](prefix_error* e) { return prefix_options_set_json(options, json, PREFIX_NUL, e); },
           {"options must be a JSON object"});
}

// Many writers of JSON know doubles only.
TEST(Options, WholeNumbersOfJsonMayHaveAPointOrAnExponent) {
  const Options options = make_options({});
  const auto merge = [&](const char* json, prefix_status wanted,
                         std::initializer_list<std::string_view> parts = {}) {
    SCOPED_TRACE(json);
    expect(
        wanted,
        [&](prefix_error* e) { return prefix_options_set_json(options, json, PREFIX_NUL, e); },
        parts);
  };
  merge(R"({"rows": 2.0, "top_k": 1e3, "max_tokens": 12.5E1, "priority": -3.0, "seed": 0.0e9,
            "stop_tokens": [1, 2.0, 3e0], "temperature": 2.0, "normalize": 1.0})",
        PREFIX_OK);
  EXPECT_EQ(json_of(options), R"({"max_tokens":125,"normalize":true,"priority":-3,"rows":2,)"
                              R"("seed":0,"stop_tokens":[1,2,3],"temperature":2,"top_k":1000})");
  merge(R"({"rows": 2.5})", PREFIX_ERR_INVALID_ARGUMENT, {"rows", "2.5", "not a whole number"});
  merge(R"({"rows": 1e-400})", PREFIX_ERR_INVALID_ARGUMENT, {"rows", "1e-400"});
  merge(R"({"temperature": 1e-400})", PREFIX_ERR_OUT_OF_RANGE,
        {"temperature", "1e-400", "is not 0 and nearer to it than 4.9e-324", "[0, 1000]"});
  merge(R"({"rows": 1e18})", PREFIX_ERR_OUT_OF_RANGE, {"rows", "1000000000000000000"});
  merge(R"({"rows": 1e19})", PREFIX_ERR_INVALID_ARGUMENT, {"rows", "1e19"});
  merge(R"({"stop_tokens": [1, 2.5]})", PREFIX_ERR_INVALID_ARGUMENT,
        {"stop_tokens", "whole numbers"});
  merge(R"({"namespace": 2.0})", PREFIX_ERR_INVALID_ARGUMENT, {"namespace", "a text"});
}

// What its reader would pass over would be in what prefix_options_json writes.
TEST(Options, JsonHasNoZeroByteAndNoByteOrderMark) {
  const Options options = make_options({{"stop", R"(["a"])"}});
  for (const std::string& list : {std::string("[\"b\"]\0]", 7), std::string("[\"b\"]\0", 6),
                                  std::string("\xef\xbb\xbf[\"b\"]")}) {
    set(options, "stop", list, PREFIX_ERR_INVALID_ARGUMENT, {"stop", "JSON array"});
    const size_t zero = list.find('\0');
    const std::string json = zero == std::string::npos ? "\xef\xbb\xbf{\"stop\": []}"
                                                       : "{\"stop\": []}" + list.substr(zero);
    expect(PREFIX_ERR_INVALID_ARGUMENT,
           [&](prefix_error* e) {
             return prefix_options_set_json(options, json.data(), json.size(), e);
           },
           {"JSON object"});
  }
  EXPECT_EQ(json_of(options), R"({"stop":["a"]})");
}

// JSON from anywhere may be built to break its reader.
TEST(Options, JsonThatIsBuiltToBreakItsReader) {
  const Options options = make_options({});
  constexpr size_t kDeep = 2000000;
  for (const std::string& json :
       {"{\"rows\": " + std::string(kDeep, '[') + std::string(kDeep, ']') + "}",
        "{\"stop_tokens\": [" + std::string(kDeep, '[') + std::string(kDeep, ']') + "]}",
        std::string(kDeep, '['), "{\"rows\": " + std::string(kDeep, '[')}) {
    expect(PREFIX_ERR_INVALID_ARGUMENT, [&](prefix_error* e) {
      return prefix_options_set_json(options, json.data(), json.size(), e);
    });
  }
  EXPECT_EQ(get(options, "rows"), "2048");
}

}  // namespace
}  // namespace prefix_abi
