// Options describe themselves; what is wrong with a value is said with the value and the limit.
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "options_support.h"

namespace prefix_abi {
namespace {

std::vector<prefix_option_details> all_options() {
  std::vector<prefix_option_details> list(prefix_option_count());
  for (size_t i = 0; i < list.size(); ++i) {
    list[i].struct_size = sizeof(prefix_option_details);
    expect(PREFIX_OK, [&](prefix_error* e) { return prefix_option_info(i, &list[i], e); });
  }
  return list;
}

TEST(Options, ListThemselves) {
  std::set<std::string> keys;
  for (const prefix_option_details& o : all_options()) {
    SCOPED_TRACE(o.key);
    EXPECT_TRUE(keys.insert(o.key).second);
    EXPECT_TRUE(o.type >= PREFIX_OPTION_INT && o.type <= PREFIX_OPTION_STRING_LIST) << o.type;
    EXPECT_TRUE(o.scope >= PREFIX_SCOPE_ENGINE && o.scope <= PREFIX_SCOPE_TASK) << o.scope;
    EXPECT_EQ(o.reserved, 0);
    EXPECT_GT(std::strlen(o.doc), 5u);
    EXPECT_EQ(o.doc[std::strlen(o.doc) - 1], '.') << "a sentence: " << o.doc;
    EXPECT_LE(o.minimum, o.maximum);
    const bool number = o.type == PREFIX_OPTION_INT || o.type == PREFIX_OPTION_FLOAT;
    EXPECT_TRUE(!number || o.minimum < o.maximum);
  }
  for (const char* promised :  // by the comments of the header
       {"isa",
        "cache_bytes",
        "namespace",
        "deadline_ms",
        "dimensions",
        "normalize",
        "max_tokens",
        "temperature",
        "top_k",
        "top_p",
        "min_p",
        "repetition_penalty",
        "seed",
        "stop_tokens",
        "ignore_eos",
        "logprobs",
        "stop",
        "presence_penalty",
        "frequency_penalty",
        "logit_bias",
        "allowed_tokens",
        "min_tokens",
        "top_logprobs"})
    EXPECT_EQ(keys.count(promised), 1u) << promised;
  prefix_option_details out{};
  out.struct_size = sizeof(out);
  for (const size_t index : {keys.size(), PREFIX_NUL})
    expect(PREFIX_ERR_OUT_OF_RANGE,
           [&](prefix_error* e) { return prefix_option_info(index, &out, e); },
           {std::to_string(keys.size())});
}

// What a request refuses, by itself or beside another option, stands in no range.
TEST(Options, SayWhatRequestsCheckBesides) {
  std::map<std::string, std::string_view> said;
  for (const prefix_option_details& o : all_options()) said[o.key] = o.doc;
  for (const auto& [key, limit] : std::initializer_list<std::pair<const char*, const char*>>{
           {"min_tokens", "at most max_tokens"},
           {"allowed_tokens", "each once"},
           {"checkpoint", "ascending"},
           {"positions", "ascending"},
           {"stop", "none may be empty"}})
    EXPECT_NE(said[key].find(limit), std::string_view::npos) << key << ": " << said[key];
}

TEST(Options, StartAtTheirDefaultsAndTakeThem) {
  const Options options = make_options({});
  for (const prefix_option_details& o : all_options()) {
    EXPECT_EQ(get(options, o.key), o.default_value);
    set(options, o.key, o.default_value, PREFIX_OK);
    EXPECT_EQ(get(options, o.key), o.default_value);
  }
}

TEST(Options, KeepTheirRanges) {
  const Options options = make_options({});
  for (const prefix_option_details& o : all_options()) {
    if (o.type == PREFIX_OPTION_INT) {
      const auto least = static_cast<int64_t>(o.minimum), most = static_cast<int64_t>(o.maximum);
      for (const int64_t inside : {least, most})
        set(options, o.key, std::to_string(inside), PREFIX_OK);
      for (const int64_t outside : {least - 1, most + 1, std::numeric_limits<int64_t>::min(),
                                    std::numeric_limits<int64_t>::max()}) {
        set(options, o.key, std::to_string(outside), PREFIX_ERR_OUT_OF_RANGE,
            {o.key, std::to_string(outside), "["});
        expect(PREFIX_ERR_OUT_OF_RANGE, [&](prefix_error* e) {
          return prefix_options_set_int(options, o.key, PREFIX_NUL, outside, e);
        });
      }
      const std::string limits = "[" + std::to_string(least) + ", " + std::to_string(most) + "]";
      set(options, o.key, "99999999999999999999999999", PREFIX_ERR_OUT_OF_RANGE, {o.key, limits});
      set(options, o.key, "8888888888888888888G", PREFIX_ERR_OUT_OF_RANGE, {o.key});
      for (const char* wrong : {"", "x", "1.5", "1e3", " 1", "1 ", "1KB", "0x10", "--1", "1T", "K"})
        set(options, o.key, wrong, PREFIX_ERR_INVALID_ARGUMENT, {o.key});
      EXPECT_EQ(get(options, o.key), std::to_string(most)) << "what failed changed nothing";
    } else if (o.type == PREFIX_OPTION_FLOAT) {
      for (const double inside : {o.minimum, o.maximum, (o.minimum + o.maximum) / 2})
        expect(PREFIX_OK, [&](prefix_error* e) {
          return prefix_options_set_double(options, o.key, PREFIX_NUL, inside, e);
        });
      for (const double outside : {o.minimum - 1, o.maximum * 2 + 1, HUGE_VAL, -HUGE_VAL})
        expect(PREFIX_ERR_OUT_OF_RANGE,
               [&](prefix_error* e) {
                 return prefix_options_set_double(options, o.key, PREFIX_NUL, outside, e);
               },
               {o.key, "["});
      expect(PREFIX_ERR_INVALID_ARGUMENT, [&](prefix_error* e) {
        return prefix_options_set_double(options, o.key, PREFIX_NUL, std::nan(""), e);
      });
      for (const char* beyond : {"1e400", "-1e400", "1e-400"})  // a double has none of them
        set(options, o.key, beyond, PREFIX_ERR_OUT_OF_RANGE, {o.key, beyond, "["});
      for (const char* wrong : {"", "x", "1,5", " 1", "0.5x", "nan", "1e400x"})
        set(options, o.key, wrong, PREFIX_ERR_INVALID_ARGUMENT, {o.key});
    }
  }
}

// What would have no effect is a mistake of the caller, who must hear of it.
TEST(Options, AreRefusedWhereTheyHaveNoEffect) {
  const Engine engine = make_engine();
  const Tokens prompt = {1, 2, 3};
  const int64_t ends[] = {0, 1};
  for (const prefix_option_details& o : all_options()) {
    SCOPED_TRACE(o.key);
    const Options options = make_options({{o.key, o.default_value}});
    const Batch batch = make_batch(nullptr);
    const auto check = [&](bool fits, auto call) {
      expect(fits ? PREFIX_OK : PREFIX_ERR_INVALID_ARGUMENT, call, {o.key});
    };
    prefix_memory memory = PREFIX_MEMORY_INIT;
    check(o.scope == PREFIX_SCOPE_ENGINE, [&](prefix_error* e) {
      return prefix_engine_estimate(model_path().c_str(), PREFIX_NUL, options, &memory, e);
    });
    const bool any = o.scope == PREFIX_SCOPE_REQUEST;
    check(any, [&](prefix_error* e) {
      return prefix_batch_add_logits(batch, prompt.data(), 3, prompt.data(), 3, options, 0, nullptr,
                                     e);
    });
    const bool scored = any || o.key == std::string_view("top_logprobs");
    check(scored, [&](prefix_error* e) {
      return prefix_batch_add_logprobs(batch, prompt.data(), 3, 1, options, 0, nullptr, e);
    });
    check(any, [&](prefix_error* e) {
      return prefix_batch_add_choices(batch, prompt.data(), 3, prompt.data(), 1, ends, 2, options,
                                      0, nullptr, e);
    });
    check(scored, [&](prefix_error* e) {
      return prefix_batch_add_continuations(batch, prompt.data(), 3, prompt.data(), 1, ends, 2,
                                            options, 0, nullptr, e);
    });
    check(any, [&](prefix_error* e) {
      return prefix_batch_add_warm(batch, prompt.data(), 3, options, 0, nullptr, e);
    });
    check(any || o.scope == PREFIX_SCOPE_EMBEDDING, [&](prefix_error* e) {
      return prefix_batch_add_embedding(batch, prompt.data(), 3, options, 0, nullptr, e);
    });
    check(any || o.scope == PREFIX_SCOPE_GENERATE, [&](prefix_error* e) {
      return prefix_batch_add_generate(batch, prompt.data(), 3, options, 0, nullptr, e);
    });
  }
}

TEST(Options, HaveATypedSetterEach) {
  const Options options = make_options({});
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_options_set_bool(options, "logprobs", PREFIX_NUL, 1, e);
  });
  EXPECT_EQ(get(options, "logprobs"), "true");
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_options_set_bool(options, "logprobs", PREFIX_NUL, 0, e);
  });
  EXPECT_EQ(get(options, "logprobs"), "false");
  const prefix_token ids[] = {7, 0, 130};
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_options_set_ints(options, "stop_tokens", PREFIX_NUL, ids, 3, e);
  });
  EXPECT_EQ(get(options, "stop_tokens"), "7,0,130");
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_options_set_ints(options, "stop_tokens", PREFIX_NUL, nullptr, 0, e);
  });
  EXPECT_EQ(get(options, "stop_tokens"), "");
  expect(PREFIX_ERR_INVALID_ARGUMENT,
         [&](prefix_error* e) {
           return prefix_options_set_bool(options, "max_tokens", PREFIX_NUL, 1, e);
         },
         {"max_tokens", "true"});
  expect(PREFIX_ERR_INVALID_ARGUMENT,
         [&](prefix_error* e) {
           return prefix_options_set_ints(options, "temperature", PREFIX_NUL, ids, 3, e);
         },
         {"temperature"});
  // What has one meaning only is taken.
  const std::pair<const char*, int64_t> numbers[] = {
      {"cache_bytes", 1 << 20}, {"logprobs", 1}, {"temperature", 2}, {"stop_tokens", 5}};
  for (const auto& [key, number] : numbers) {
    expect(PREFIX_OK, [&, k = key, n = number](prefix_error* e) {
      return prefix_options_set_int(options, k, PREFIX_NUL, n, e);
    });
    EXPECT_EQ(get(options, key), std::to_string(number));
  }
}

// A double that is whole is the whole number, also one that is shorter with an exponent.
TEST(Options, WholeNumbersMayBeDoubles) {
  const Options options = make_options({});
  const auto set_double = [&](const char* key, double number, prefix_status wanted,
                              std::initializer_list<std::string_view> parts = {}) {
    expect(
        wanted,
        [&](prefix_error* e) {
          return prefix_options_set_double(options, key, PREFIX_NUL, number, e);
        },
        parts);
  };
  for (const double number : {0.0, 2.0, 1e5, 1e6, 1234567.0, 9e15}) {
    set_double("cache_bytes", number, PREFIX_OK);
    EXPECT_EQ(get(options, "cache_bytes"), std::to_string(static_cast<int64_t>(number)));
  }
  set_double("stop_tokens", 1e6, PREFIX_OK);
  EXPECT_EQ(get(options, "stop_tokens"), "1000000");
  set_double("threads", 1e6, PREFIX_ERR_OUT_OF_RANGE, {"1000000", "[0, 1024]"});
  set_double("threads", 1.5, PREFIX_ERR_INVALID_ARGUMENT, {"1.5", "not a whole number"});
  for (const double beyond : {0x1p63, -0x1p63, 1e300, HUGE_VAL})
    set_double("temperature", beyond, PREFIX_ERR_OUT_OF_RANGE, {"[0, 1000]"});
}

// A number that became a text would be a text of its own: a tenant "7".
TEST(Options, TakeNothingOfAnotherType) {
  const Options options = make_options({});
  const prefix_token ids[] = {1, 2};
  const char* const texts[] = {"a"};
  const auto refused = [&](const char* key, const auto& setter,
                           std::initializer_list<std::string_view> parts) {
    SCOPED_TRACE(key);
    const std::string before = get(options, key);
    expect(PREFIX_ERR_INVALID_ARGUMENT, [&](prefix_error* e) { return setter(key, e); }, parts);
    EXPECT_EQ(get(options, key), before);
  };
  const auto set_ints = [&](const char* key, prefix_error* e) {
    return prefix_options_set_ints(options, key, PREFIX_NUL, ids, 2, e);
  };
  const auto set_one = [&](const char* key, prefix_error* e) {
    return prefix_options_set_ints(options, key, PREFIX_NUL, ids, 1, e);
  };
  const auto set_texts = [&](const char* key, prefix_error* e) {
    return prefix_options_set_texts(options, key, PREFIX_NUL, texts, nullptr, 1, e);
  };
  for (const prefix_option_details& o : all_options()) {
    if (o.type == PREFIX_OPTION_STRING) {
      refused(o.key,
              [&](const char* key, prefix_error* e) {
                return prefix_options_set_int(options, key, PREFIX_NUL, 7, e);
              },
              {o.key, "\"7\"", "it must be a text"});
      refused(o.key,
              [&](const char* key, prefix_error* e) {
                return prefix_options_set_double(options, key, PREFIX_NUL, 0.5, e);
              },
              {o.key, "\"0.5\"", "it must be a text"});
      refused(o.key,
              [&](const char* key, prefix_error* e) {
                return prefix_options_set_bool(options, key, PREFIX_NUL, 1, e);
              },
              {o.key, "\"true\"", "it must be a text"});
    }
    if (o.type == PREFIX_OPTION_INT_LIST) {
      refused(o.key, set_texts, {o.key, "whole numbers, not texts"});
    } else if (o.type == PREFIX_OPTION_STRING_LIST) {
      refused(o.key, set_ints, {o.key, "\"1,2\"", "texts, not numbers"});
    } else {
      refused(o.key, set_ints, {o.key, "\"1,2\"", "one value, not a list"});
      refused(o.key, set_one, {o.key, "\"1\"", "one value, not a list"});
      refused(o.key, set_texts, {o.key, "one value, not a list"});
    }
  }
}

TEST(Options, KeepTheirTypes) {
  const Options options = make_options({});
  for (const prefix_option_details& o : all_options()) {
    if (o.type == PREFIX_OPTION_BOOL) {
      for (const char* yes_or_no : {"true", "false", "1", "0", "on", "off"})
        set(options, o.key, yes_or_no, PREFIX_OK);
      for (const char* wrong : {"", "2", "yes!", "TRUE "})
        set(options, o.key, wrong, PREFIX_ERR_INVALID_ARGUMENT, {o.key, "true"});
    } else if (o.type == PREFIX_OPTION_STRING && *o.values) {
      const std::string list = o.values;
      std::vector<std::string> values;
      for (size_t at = 0; at <= list.size();) {
        const size_t bar = std::min(list.find('|', at), list.size());
        values.push_back(list.substr(at, bar - at));
        at = bar + 1;
      }
      for (const std::string& value : values) set(options, o.key, value, PREFIX_OK);
      for (const std::string& wrong :
           {std::string("none-of-these"), std::string(), list + "|", std::string("|")})
        for (const std::string& value : values)  // the message names each
          set(options, o.key, wrong, PREFIX_ERR_INVALID_ARGUMENT, {o.key, value});
    } else if (o.type == PREFIX_OPTION_INT_LIST) {
      for (const char* right : {"", "1", "1,2,3", "2147483647"})
        set(options, o.key, right, PREFIX_OK);
      for (const char* wrong : {"a", "1,,2", "1;2", "1, 2", ","})
        set(options, o.key, wrong, PREFIX_ERR_INVALID_ARGUMENT, {o.key});
      for (const char* outside : {"-1", "1,2147483648", "99999999999999999999"})
        set(options, o.key, outside, PREFIX_ERR_OUT_OF_RANGE, {o.key});
    } else if (o.type == PREFIX_OPTION_STRING_LIST) {
      for (const char* right : {"[]", R"(["a"])", R"(["a", "b\n"])"})
        set(options, o.key, right, PREFIX_OK);
      for (const char* wrong :
           {"", "a", "\"a\"", "[1]", R"(["a", 1])", R"([["a"]])", R"(["a"] b)", "{}"})
        set(options, o.key, wrong, PREFIX_ERR_INVALID_ARGUMENT, {o.key, "JSON array"});
    }
  }
}

TEST(Options, ABiasIsTokensWithNumbers) {
  const Options options = make_options({});
  for (const char* right :
       {"", "0:0", "464:-100,11:2.5", "2147483647:100", "5:1e-3,4:-0,3:1", "130:99.999"}) {
    set(options, "logit_bias", right, PREFIX_OK);
    EXPECT_EQ(get(options, "logit_bias"), right);
  }
  set(options, "logit_bias", "7:1", PREFIX_OK);
  for (const char* wrong : {"5", "5:", ":1", "5:x", "x:1", "5:1,", ",", "5:1,,6:1", "5:1;6:1",
                            "5:1, 6:1", " 5:1", "5:1 ", "5:nan", "5:1:2", "5.0:1", "{\"5\": 1}"})
    set(options, "logit_bias", wrong, PREFIX_ERR_INVALID_ARGUMENT,
        {"logit_bias", "464:-100,11:2.5"});
  set(options, "logit_bias", "5:1,6:1,5:2", PREFIX_ERR_INVALID_ARGUMENT,
      {"logit_bias", "token 5", "twice"});
  for (const char* beyond : {"5:100.5", "5:-101", "5:1e400", "5:inf", "6:1,5:1e9"})
    set(options, "logit_bias", beyond, PREFIX_ERR_OUT_OF_RANGE,
        {"logit_bias", "bias", "is outside [-100, 100]"});
  for (const char* tiny : {"5:1e-400", "6:1,5:-1e-9999999"})
    set(options, "logit_bias", tiny, PREFIX_ERR_OUT_OF_RANGE,
        {"logit_bias", "bias", "is not 0 and nearer to it than 4.9e-324", "[-100, 100]"});
  for (const char* beyond : {"-1:1", "2147483648:1", "99999999999999999999:1"})
    set(options, "logit_bias", beyond, PREFIX_ERR_OUT_OF_RANGE,
        {"logit_bias", "token", "[0, 2147483647]"});
  EXPECT_EQ(get(options, "logit_bias"), "7:1") << "what failed changed nothing";
}

TEST(Options, UnknownNamesGetOneLikeThem) {
  const Options options = make_options({});
  const std::pair<const char*, const char*> mistakes[] = {
      {"cache_byte", "cache_bytes"}, {"temprature", "temperature"},
      {"max-tokens", "max_tokens"},  {"Rows", "rows"},
      {"stop_token", "stop_tokens"}, {"thread", "threads"}};
  for (const auto& [wrong, right] : mistakes) {
    set(options, wrong, "1", PREFIX_ERR_UNKNOWN_OPTION, {wrong, std::string("\"") + right + "\""});
    expect(PREFIX_ERR_UNKNOWN_OPTION,
           [&, w = wrong](prefix_error* e) {
             return prefix_options_get(options, w, PREFIX_NUL, nullptr, 0, nullptr, e);
           },
           {right});
  }
  // What is like none gets none.
  const std::string none = "docs/options.md";
  for (const std::string& wrong :
       {std::string(), std::string("x"), std::string("gpu_memory_utilization"),
        std::string(100000, 'x'), std::string("cache_bytes") + std::string(54, 's')})
    set(options, wrong, "1", PREFIX_ERR_UNKNOWN_OPTION, {none});
  set(options, std::string("rows\0", 5), "1", PREFIX_ERR_UNKNOWN_OPTION);
}

TEST(Options, SizesTakeSuffixes) {
  for (const auto& [value, bytes] : std::initializer_list<std::pair<const char*, int64_t>>{
           {"1048576", 1 << 20}, {"2048K", 2 << 20}, {"3M", 3 << 20}, {"1g", 1 << 30}}) {
    const Options options = make_options({{"cache_bytes", value}});
    prefix_memory memory{};
    memory.struct_size = sizeof(memory);
    expect(PREFIX_OK, [&](prefix_error* e) {
      return prefix_engine_estimate(model_path().c_str(), PREFIX_NUL, options, &memory, e);
    });
    EXPECT_EQ(memory.kv_budget_bytes, bytes);
  }
}

// A list is of ids, not of sizes: what would be read as another number is refused.
TEST(Options, ListsTakeNoSuffixes) {
  const Options options = make_options({});
  set(options, "stop_tokens", "1K", PREFIX_ERR_INVALID_ARGUMENT, {"stop_tokens", "1K"});
}

}  // namespace
}  // namespace prefix_abi
