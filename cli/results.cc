#include "results.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "common.h"

namespace prefix_cli {
namespace {

std::string top_text(const Result& result) {
  return result.top.empty() ? "" : ",\"top_logprobs\":" + list_text(result.top);
}

constexpr std::array<std::string_view, 6> kReasons = {"first_seen", "namespace",   "budget",
                                                      "evicted",    "granularity", "state"};

// Only those that were; empty when none was.
std::string missed_text(const Usage& u) {
  std::string text;
  for (size_t i = 0; i < kReasons.size(); ++i)
    if (u.missed[i] > 0)
      text += cat(text.empty() ? "" : ",", "\"", kReasons[i], "\":", u.missed[i]);
  return text.empty() ? text : cat(",\"missed\":{", text, "}");
}

std::string drafts_text(const Usage& u) {
  if (u.draft_tokens == 0) return "";
  return cat(",\"draft_tokens\":", u.draft_tokens,
             ",\"draft_tokens_accepted\":", u.draft_tokens_accepted);
}

std::string usage_text(const Usage& u) {
  return cat("{\"prompt\":", u.prompt, ",\"cached\":", u.cached, ",\"shared\":", u.shared,
             ",\"computed\":", u.computed, ",\"generated\":", u.generated, missed_text(u),
             drafts_text(u), "}");
}

// Whether the request drew from chance without a seed of its own, so that only the one it was given
// can repeat it.
bool wants_seed(const Request& request) {
  bool draws = false;
  for (const auto& [key, value] : request.options) {
    if (key == "seed" && value != "-1") return false;
    draws = draws || (key == "temperature" && std::strtod(value.c_str(), nullptr) > 0);
  }
  return draws;
}

std::string payload(const Request& request, const Result& result) {
  switch (request.task) {
    case Task::kLogits:
      return ",\"logits\":" + list_text(result.values);
    case Task::kLogprobs:
      return ",\"logprobs\":" + list_text(result.values) + top_text(result);
    case Task::kEmbed:
      return ",\"embedding\":" + list_text(result.values);
    case Task::kChoices: {
      std::string text = ",\"logprobs\":" + list_text(result.values) + ",\"token_logprobs\":[";
      for (size_t i = 0; i < result.choice_logprobs.size(); ++i)
        text += (i ? "," : "") + list_text(result.choice_logprobs[i]);
      return text + "]";
    }
    case Task::kText:
      return result.task_fields;
    case Task::kGenerate:
      break;
  }
  std::string text = ",\"tokens\":" + list_text(result.tokens);
  if (!result.token_logprobs.empty()) text += ",\"logprobs\":" + list_text(result.token_logprobs);
  text += top_text(result);
  if (result.text) text += ",\"text\":" + quoted(*result.text);
  if (wants_seed(request)) text += cat(",\"seed\":", result.seed);
  return text + ",\"finish\":" + quoted(result.finish);
}

}  // namespace

void Usage::add(const prefix_result_info& info) {
  prompt += info.prompt_tokens;
  cached += info.cached_tokens;
  shared += info.shared_tokens;
  computed += info.computed_tokens;
  generated += info.generated_tokens;
  const std::array<int64_t, 6> more = {info.miss_first_seen,  info.miss_namespace,
                                       info.miss_budget,      info.miss_evicted,
                                       info.miss_granularity, info.miss_state};
  for (size_t i = 0; i < more.size(); ++i) missed[i] += more[i];
  draft_tokens += info.draft_tokens;
  draft_tokens_accepted += info.draft_tokens_accepted;
}

std::string float_text(float value) {
  if (!std::isfinite(value)) return "null";  // not of a result: such a request fails
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g", static_cast<double>(value));
  return text;
}

std::string list_text(const std::vector<float>& values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    if (i) text += ',';
    text += float_text(values[i]);
  }
  return text + "]";
}

std::string list_text(const std::vector<int32_t>& values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    if (i) text += ',';
    text += std::to_string(values[i]);
  }
  return text + "]";
}

std::string list_text(const std::vector<std::vector<TopToken>>& places) {
  std::string text;
  for (const std::vector<TopToken>& place : places) {
    std::string list;
    for (const TopToken& one : place) {
      list += cat(list.empty() ? "" : ",", "{\"token\":", one.token,
                  ",\"logprob\":", float_text(one.logprob));
      if (one.text) list += ",\"text\":" + quoted(*one.text);
      list += '}';
    }
    text += cat(text.empty() ? "" : ",", "[", list, "]");
  }
  return "[" + text + "]";
}

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string result_line(const Request& request, const Result& result) {
  std::string line = cat("{\"id\":", request.id, ",\"status\":", quoted(result.status));
  if (result.ok())
    line += payload(request, result);
  else
    line += ",\"message\":" + quoted(result.message);
  return line + ",\"usage\":" + usage_text(result.usage) + "}";
}

}  // namespace prefix_cli
