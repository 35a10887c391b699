#include "base/json.h"

#include <gtest/gtest.h>

#include <string>

#include "support/expect_error.h"

namespace prefix {
namespace {

using testing_support::expect_error;

void expect_bad(std::string_view text, std::initializer_list<std::string_view> parts,
                const JsonLimits& limits = {}) {
  expect_error(Code::kFormat, parts, [&] { parse_json(text, "it", limits); });
}

std::string nested(size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST(Json, BuildsWhatIsWritten) {
  const Json json =
      parse_json(R"( {"a": [1, -2, 3.5, true, null, "x", {}], "b": {"c": []}} )", "it");
  EXPECT_EQ(json.dump(), R"({"a":[1,-2,3.5,true,null,"x",{}],"b":{"c":[]}})");
  EXPECT_EQ(parse_json("7", "it"), 7);
  EXPECT_EQ(parse_json("\"\\u00e9\\n\"", "it"), "\xc3\xa9\n");
  const Json after_child = parse_json(R"({"a":{"b":1},"c":[[1],[2,[3]],4],"d":5})", "it");
  EXPECT_EQ(after_child.dump(), R"({"a":{"b":1},"c":[[1],[2,[3]],4],"d":5})");
}

TEST(Json, KeepsIntegersExact) {
  EXPECT_EQ(parse_json("18446744073709551615", "it").get<uint64_t>(), UINT64_MAX);
  EXPECT_EQ(parse_json("-9223372036854775808", "it").get<int64_t>(), INT64_MIN);
  EXPECT_FALSE(parse_json("18446744073709551616", "it").is_number_integer());
  EXPECT_FALSE(parse_json("4.0", "it").is_number_integer());
}

TEST(Json, RefusesTextBehindTheValue) {
  expect_bad("{} x", {"it", "syntax error at byte 3"});
  expect_bad("{}{}", {"syntax error at byte 2"});
  expect_bad(R"(["\ud800"])", {"half of a surrogate pair at byte 8"});
  expect_bad(R"(["invalid string: surrogate)", {"syntax error"});
  expect_bad(std::string_view("{}\0garbage", 10), {"zero byte at byte 2"});
  expect_bad(std::string_view("\0", 1), {"zero byte"});
}

TEST(Json, RefusesWhatIsNotJson) {
  for (const char* text : {"",
                           " ",
                           "{",
                           "[1,]",
                           "{\"a\":1,}",
                           "{a:1}",
                           "{'a':1}",
                           "nul",
                           "01",
                           "+1",
                           ".5",
                           "NaN",
                           "Infinity",
                           "\"\\x\"",
                           "\"a\nb\"",
                           "[1] // no",
                           "/* */ 1",
                           "\"\xff\"",
                           "\"\xed\xa0\x80\"",
                           "{\"a\" 1}",
                           "[1 2]",
                           "]"})
    expect_bad(text, {"not valid JSON"});
  expect_bad("\xef\xbb\xbf{}", {"byte order mark"});
  expect_bad("[1e999]", {"number out of range"});
}

TEST(Json, RefusesDuplicateKeys) {
  expect_bad(R"({"a":1,"b":2,"a":3})", {"key \"a\" occurs twice"});
  expect_bad(R"({"x":{"a":1,"\u0061":3}})", {"key \"a\" occurs twice"});
  EXPECT_EQ(parse_json(R"({"a":{"a":{"a":1}},"b":{"a":2}})", "it").size(), 2u);
}

TEST(Json, LimitsDepth) {
  EXPECT_NO_THROW(parse_json(nested(kMaxJsonDepth - 1), "it"));
  EXPECT_NO_THROW(parse_json(nested(kMaxJsonDepth), "it"));
  expect_bad(nested(kMaxJsonDepth + 1), {"deeper than 64"});
  expect_bad(nested(1000000), {"deeper than 64"});
  std::string objects;
  for (int i = 0; i < 100000; ++i) objects += "{\"a\":";
  expect_bad(objects, {"deeper than 64"});
}

TEST(Json, LimitsBytesAndValues) {
  EXPECT_NO_THROW(parse_json("[12]", "it", {.bytes = 4}));
  expect_bad("[123]", {"has 5 bytes", "at most 4"}, {.bytes = 4});
  EXPECT_NO_THROW(parse_json("[1,2]", "it", {.values = 3}));
  expect_bad("[1,2,3]", {"more than 3 values"}, {.values = 3});
}

TEST(JsonInt, ChecksTypeAndRange) {
  const Json json =
      parse_json(R"({"n":5,"big":18446744073709551615,"huge":123456789012345678901234567890,
                                   "f":5.0,"s":"5","null":null,"neg":-1})",
                 "it");
  EXPECT_EQ(json_int(json, "n", 5, 5), 5);
  EXPECT_EQ(json_int(json, "absent", 0, 9, 7), 7);
  EXPECT_EQ(json_int(json, "null", 0, 9, 7), 7);
  const auto bad = [&](const char* key, std::initializer_list<std::string_view> parts) {
    expect_error(Code::kFormat, parts, [&] { json_int(json, key, 1, 4); });
  };
  bad("n", {"\"n\" is 5", "[1, 4]"});
  bad("neg", {"\"neg\" is -1", "[1, 4]"});
  bad("big", {"18446744073709551615", "[1, 4]"});
  bad("huge", {"\"huge\" is 1.23", "not an integer"});
  bad("f", {"\"f\" is 5.0", "not an integer"});
  bad("s", {"\"s\" is \"5\"", "not an integer"});
  bad("null", {"\"null\" is missing"});
  bad("absent", {"\"absent\" is missing"});
  expect_error(Code::kFormat, {"a list of 0"}, [] { json_int(Json::array(), "n", 0, 1); });
}

TEST(JsonFields, CheckTheirTypes) {
  const Json json = parse_json(R"({"f":1.5,"n":2,"b":true,"s":"x","l":[1,2]})", "it");
  EXPECT_EQ(json_float(json, "f"), 1.5);
  EXPECT_EQ(json_float(json, "n"), 2.0);
  EXPECT_EQ(json_float(json, "absent", 3), 3.0);
  EXPECT_TRUE(json_bool(json, "b", false));
  EXPECT_TRUE(json_bool(json, "absent", true));
  EXPECT_EQ(json_string(json, "s", ""), "x");
  EXPECT_EQ(json_string(json, "absent", "y"), "y");
  EXPECT_TRUE(json_has(json, "l"));
  expect_error(Code::kFormat, {"\"l\" is a list of 2 values", "number"},
               [&] { json_float(json, "l"); });
  expect_error(Code::kFormat, {"\"n\" is 2", "true or false"}, [&] { json_bool(json, "n", true); });
  expect_error(Code::kFormat, {"\"b\" is true", "a string"}, [&] { json_string(json, "b", ""); });
}

TEST(JsonKeys, StandInTheOrderOfTheText) {
  const std::string text =
      R"({"x": {"o": {"no": 1}}, "o": {"b": {"o": {"n": 1}}, "a": [{"m": 2}], "c": 3}, "y": {"k": 1}})";
  EXPECT_EQ(json_keys(text, "o"), (std::vector<std::string>{"b", "a", "c"}));
  EXPECT_EQ(json_keys(text, "y"), std::vector<std::string>{"k"});
  EXPECT_EQ(json_keys(R"({"o": [{"a": 1}]})", "o"), std::vector<std::string>());
  EXPECT_EQ(json_keys(R"([{"o": {"a": 1}}])", "o"), std::vector<std::string>());
}

}  // namespace
}  // namespace prefix
