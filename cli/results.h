// Results as JSON Lines.
#pragma once

#include <prefix.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "requests.h"

namespace prefix_cli {

// Tokens of a request, or of all items of a task. prompt = cached + shared + computed, and computed
// the sum of the reasons why they were.
struct Usage {
  int64_t prompt = 0;
  int64_t cached = 0;
  int64_t shared = 0;
  int64_t computed = 0;
  int64_t generated = 0;
  std::array<int64_t, 6> missed{};  // by reason, in the order of the library
  int64_t draft_tokens = 0;
  int64_t draft_tokens_accepted = 0;

  void add(const prefix_result_info& info);
};

// One of the likeliest at its place.
struct TopToken {
  int32_t token = 0;
  float logprob = 0;
  std::optional<std::string> text;  // when there is a tokenizer that has the token
};

struct Result {
  std::string status = "ok";  // or the name of a status code
  std::string message;
  // logits: one per id; logprobs: one per scored token; choices: one sum per choice; embed: vector
  std::vector<float> values;
  std::vector<std::vector<float>> choice_logprobs;
  std::vector<int32_t> tokens;             // generate
  std::vector<float> token_logprobs;       // generate, when they were asked for
  std::vector<std::vector<TopToken>> top;  // generate, logprobs: of each place, when asked for
  std::optional<std::string> text;         // generate, when there is a tokenizer
  std::string finish;
  int64_t seed = 0;          // generate
  std::string task_fields;   // a task of texts: its part of the line
  bool some_failed = false;  // of the items of such a task
  Usage usage;

  bool ok() const { return status == "ok"; }
};

// Shortest form with at most nine digits: a 32-bit float comes back bit by bit. Not a number, which
// JSON cannot say, is null.
std::string float_text(float value);

// Lists in JSON.
std::string list_text(const std::vector<float>& values);
std::string list_text(const std::vector<int32_t>& values);
std::string list_text(const std::vector<std::vector<TopToken>>& places);

// A JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD.
std::string quoted(const std::string& text);

// One line without the line end.
std::string result_line(const Request& request, const Result& result);

}  // namespace prefix_cli
