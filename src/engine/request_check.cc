#include "engine/request_check.h"

#include <cmath>
#include <span>

namespace prefix {
namespace {

void check_ids(std::span<const int32_t> ids, int32_t vocab, const char* what) {
  for (size_t i = 0; i < ids.size(); ++i)
    if (ids[i] < 0 || ids[i] >= vocab)
      fail(Code::kOutOfRange, what, "[", i, "] is ", ids[i], ", outside the vocabulary of ", vocab,
           " tokens");
}

void check_length(size_t tokens, int32_t max_positions, const char* what) {
  if (tokens > static_cast<size_t>(max_positions))
    fail(Code::kPromptTooLong, what, " has ", tokens, " tokens; the context holds ", max_positions);
}

void check_sampling(const Sampling& s, int32_t vocab) {
  const auto refuse = [](const char* name, double value, const char* limit) {
    fail(Code::kOutOfRange, name, " is ", value, "; it must be ", limit);
  };
  if (s.max_tokens < 1) refuse("max_tokens", s.max_tokens, "at least 1");
  if (!(s.temperature >= 0) || std::isinf(s.temperature))
    refuse("temperature", s.temperature, "0 (greedy) or a positive number");
  if (s.top_k < 0) refuse("top_k", s.top_k, "0 (all) or positive");
  if (!(s.top_p > 0 && s.top_p <= 1)) refuse("top_p", s.top_p, "in (0, 1]");
  if (!(s.min_p >= 0 && s.min_p <= 1)) refuse("min_p", s.min_p, "in [0, 1]");
  if (!(s.repetition_penalty > 0) || std::isinf(s.repetition_penalty))
    refuse("repetition_penalty", s.repetition_penalty, "a positive number");
  check_ids(s.stop_tokens, vocab, "stop_tokens");
}

}  // namespace

void check_request(const RequestSpec& spec, const ModelConfig& config, int32_t max_positions,
                   const Namespaces& namespaces) {
  const auto n = spec.tokens.size();
  if (n == 0) fail(Code::kInvalidArgument, "the request has no tokens");
  check_length(n, max_positions, "the prompt");
  check_ids(spec.tokens, config.vocab_size, "tokens");
  namespaces.require(spec.name_space);
  if (spec.deadline_ms < 0)
    fail(Code::kOutOfRange, "deadline_ms is ", spec.deadline_ms,
         "; it must be 0 (none) or positive");
  if (spec.cache_ttl_ms < 0)
    fail(Code::kOutOfRange, "cache_ttl_ms is ", spec.cache_ttl_ms,
         "; it must be 0 (no limit) or positive");
  if (spec.cache_priority < INT16_MIN || spec.cache_priority > INT16_MAX)
    fail(Code::kOutOfRange, "cache_priority is ", spec.cache_priority,
         "; it must lie in [-32768, 32767]");
  switch (spec.task) {
    case Task::kLogits:
      if (spec.logit_ids.empty())
        fail(Code::kInvalidArgument, "no ids were given to read logits of");
      check_ids(spec.logit_ids, config.vocab_size, "ids");
      break;
    case Task::kLogprobs:
      if (spec.from < 1 || static_cast<size_t>(spec.from) >= n)
        fail(Code::kOutOfRange, "from is ", spec.from, "; it must be at least 1 and below the ", n,
             " tokens of the request");
      break;
    case Task::kChoices:
      if (spec.choices.empty()) fail(Code::kInvalidArgument, "the request has no choices");
      for (const std::vector<int32_t>& choice : spec.choices) {
        if (choice.empty()) fail(Code::kInvalidArgument, "a choice has no tokens");
        check_length(n + choice.size(), max_positions, "the prompt with a choice");
        check_ids(choice, config.vocab_size, "choice");
      }
      break;
    case Task::kEmbed:
      if (spec.dimensions < 0 || spec.dimensions > config.hidden)
        fail(Code::kOutOfRange, "dimensions is ", spec.dimensions, "; the model has ",
             config.hidden, " (0 = all)");
      break;
    case Task::kGenerate:
      check_sampling(spec.sampling, config.vocab_size);
      break;
    case Task::kWarm:
      break;
    default:
      fail(Code::kInvalidArgument, "task ", static_cast<int32_t>(spec.task), " is not known");
  }
}

}  // namespace prefix
