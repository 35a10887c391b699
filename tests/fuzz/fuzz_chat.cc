// A chat template. The input: a choice of messages and options, and the template.
#include <array>
#include <nlohmann/json.hpp>

#include "large_stack.h"
#include "text_support.h"

namespace prefix::fuzz {
namespace {

constexpr std::array<std::string_view, 4> kMessages = {
    R"([{"role":"user","content":"Hi"}])",
    R"([{"role":"system","content":"Be brief. "},{"role":"user","content":"1 < 2?"},
        {"role":"assistant","content":"<think>\nyes</think>\n\n Yes","reasoning_content":"so"},
        {"role":"user","content":"B\u00e4r \ud83d\ude00"}])",
    R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"image"}]},
        {"role":"assistant","content":null,"tool_calls":[{"type":"function","function":
         {"name":"f","arguments":{"x":[1,2.5,true,null],"y":{"z":"w"}}}}]},
        {"role":"tool","name":"f","content":"7"}])",
    R"([{"role":"user","content":""},{"role":"assistant","content":"open end"}])"};
constexpr std::array<std::string_view, 3> kOptions = {
    // The variables of tests/golden/text/expressions.jsonl, from which inputs of the corpus are.
    R"({"now":"2026-01-31T23:59:59","variables":{"s":"  Hello, wOrld's end! ","t":"a-b-c-d",
        "empty":"","u":"na\u00efve \u6f22 \ud83d\ude00 <&>\"'\n\u2028","i":7,"neg":-7,
        "big":9007199254740993,"f":2.5,"whole":3.0,"small":1.5e-07,"huge":1e+22,"yes":true,
        "no":false,"nil":null,"list":[3,1,2],"names":["b","A","c","a"],
        "mixed":[1,"two",3.0,true,null,[4],{"five":5}],"pairs":[["x",1],["y",2]],
        "map":{"b":1,"a":[1,2],"c":{"d":null}},"people":[{"name":"Ann","age":30,"x":{"y":1}},
        {"name":"bob","age":25}]}})",
    R"({"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":
        {"type":"object","properties":{"x":{"type":"array"}},"required":["x"]}}}],
        "documents":[{"title":"t","text":"u"}],"variables":{"enable_thinking":false},
        "now":"2026-01-31T23:59:59","add_generation_prompt":true})",
    R"({"continue_final_message":true,"add_generation_prompt":false,"now":"1970-01-01T00:00:00"})"};

void render(Input input) {
  Taker take(input);
  const uint8_t choice = take.byte();
  // What is not UTF-8 is refused before anybody looks at it.
  const std::string text(text_of(take.rest()));
  const std::string config =
      nlohmann::json{{"chat_template", text}, {"bos_token", "<s>"}, {"eos_token", "</s>"}}.dump(
          -1, ' ', false, nlohmann::json::error_handler_t::replace);
  const Tokenizer tokenizer = from_json(small_tokenizer(), config);
  KEEP(tokenizer);
  const std::string_view messages = kMessages[choice % 4];
  const std::string_view options = kOptions[choice / 4 % 3];
  prefix_error error = no_error();
  size_t needed = 0;
  prefix_status status = PREFIX_OK;
  if (choice & 128) {
    std::array<prefix_token, 64> tokens;
    std::array<int64_t, 8> turns;
    status = prefix_tokenizer_chat_tokens(
        tokenizer.get(), messages.data(), messages.size(), options.data(), options.size(),
        tokens.data(), tokens.size(), &needed, turns.data(), turns.size(), &error);
  } else {
    status =
        prefix_tokenizer_chat_text(tokenizer.get(), messages.data(), messages.size(),
                                   options.data(), options.size(), nullptr, 0, &needed, &error);
  }
  KEEP(!is_bug(status, error));
}

}  // namespace

void run_chat(Input input) {
  LargeStack::get().run([&] { render(input); });
}

}  // namespace prefix::fuzz
