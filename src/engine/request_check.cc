#include "engine/request_check.h"

#include <algorithm>
#include <cmath>
#include <ostream>
#include <span>
#include <vector>

#include "base/page.h"
#include "base/quote.h"
#include "engine/request_path.h"
#include "engine/result_size.h"
#include "ops/logits.h"

namespace prefix {
namespace {

// what: a name, or one that is made only where it is needed.
template <typename Name>
void check_ids(std::span<const int32_t> ids, int32_t vocab, const Name& what) {
  for (size_t i = 0; i < ids.size(); ++i)
    if (ids[i] < 0 || ids[i] >= vocab)
      fail(Code::kOutOfRange, what, "[", i, "] is ", ids[i], ", outside the vocabulary of ", vocab,
           " tokens");
}

// One of several choices, as messages name it.
struct ChoiceName {
  size_t index;
  friend std::ostream& operator<<(std::ostream& out, const ChoiceName& name) {
    return out << "choices[" << name.index << "]";
  }
};

template <typename... What>
void check_length(size_t tokens, int32_t max_positions, const ModelConfig& config,
                  const What&... what) {
  if (tokens <= static_cast<size_t>(max_positions)) return;
  const bool dynamic =
      config.rope.type == RopeType::kDynamic && max_positions == config.max_positions;
  fail(Code::kPromptTooLong, what..., " has ", tokens, " tokens; the context holds ", max_positions,
       dynamic ? ", beyond which rope type \"dynamic\" rotates each length in its own way"
       : config.bidirectional
           ? ", of which a step takes all at once (option rows), because attention is bidirectional"
           : "");
}

void check_output(Task task, const ModelConfig& config) {
  if (task == Task::kEmbed || task == Task::kWarm) return;
  if (config.bidirectional)
    fail(Code::kUnsupportedModel, "the request reads logits of what follows a text; attention of ",
         "this model is bidirectional, so it embeds and classifies only");
  if (config.missing_output.empty()) return;
  fail(Code::kUnsupportedModel, "the request reads logits, which the model does not have: tensor ",
       quote(config.missing_output), " is missing; it embeds only");
}

void check_choices(const RequestSpec& spec, const ModelConfig& config, int32_t max_positions) {
  if (spec.choices.empty()) fail(Code::kInvalidArgument, "the request has no choices");
  for (size_t i = 0; i < spec.choices.size(); ++i) {
    const std::vector<int32_t>& choice = spec.choices[i];
    const ChoiceName name{i};
    if (choice.empty()) fail(Code::kInvalidArgument, name, " has no tokens");
    check_length(spec.tokens.size() + choice.size(), max_positions, config, "the prompt with ",
                 name);
    check_ids(choice, config.vocab_size, name);
  }
}

void check_embedding(const RequestSpec& spec, const ModelConfig& config) {
  const size_t n = spec.tokens.size();
  const int32_t width = vector_width(spec, config);
  if (spec.dimensions < 0 || spec.dimensions > width)
    fail(Code::kOutOfRange, "dimensions is ", spec.dimensions, "; the model has ", width,
         " (0 = all)");
  if (!spec.positions.empty() && spec.pooling != Pooling::kTokens)
    fail(Code::kInvalidArgument, "option positions is set; it takes pooling = tokens");
  for (size_t i = 0; i < spec.positions.size(); ++i)
    if (spec.positions[i] <= (i == 0 ? -1 : spec.positions[i - 1]) ||
        static_cast<size_t>(spec.positions[i]) >= n)
      fail(Code::kOutOfRange, "positions[", i, "] is ", spec.positions[i],
           "; they must ascend, each below the ", n, " tokens of the request");
  if (spec.head && config.labels == 0)
    fail(Code::kInvalidArgument, "option head is set; the model has no classification head");
  if (spec.head && spec.dimensions > 0)
    fail(Code::kInvalidArgument, "dimensions is ", spec.dimensions,
         "; with option head there is a value for each label");
}

// Each once: a list with one twice was meant to have another one.
void check_allowed(std::vector<int32_t> ids) {
  std::ranges::sort(ids);
  const auto twice = std::ranges::adjacent_find(ids);
  if (twice != ids.end())
    fail(Code::kInvalidArgument, "allowed_tokens has ", *twice, " more than once");
}

void check_top(int32_t top, int32_t vocab) {
  const int32_t most = std::min(vocab, ops::kMaxCandidates);
  if (top < 0 || top > most)
    fail(Code::kOutOfRange, "top_logprobs is ", top, "; it must lie in [0, ", most,
         "], the vocabulary has ", vocab, " tokens");
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
  if (!std::isfinite(s.presence_penalty))
    refuse("presence_penalty", s.presence_penalty, "a number");
  if (!std::isfinite(s.frequency_penalty))
    refuse("frequency_penalty", s.frequency_penalty, "a number");
  for (const LogitBias& one : s.logit_bias)
    if (one.token < 0 || one.token >= vocab)
      fail(Code::kOutOfRange, "logit_bias has token ", one.token, ", outside the vocabulary of ",
           vocab, " tokens");
  check_ids(s.allowed_tokens, vocab, "allowed_tokens");
  check_allowed(s.allowed_tokens);
  if (s.min_tokens < 0 || s.min_tokens > s.max_tokens)
    fail(Code::kOutOfRange, "min_tokens is ", s.min_tokens, "; it must lie in [0, ", s.max_tokens,
         "], up to max_tokens");
  check_ids(s.stop_tokens, vocab, "stop_tokens");
}

// Of the prompt: an answer's states are where it ends.
void check_checkpoint(std::span<const int32_t> positions, size_t prompt) {
  for (size_t i = 0; i < positions.size(); ++i) {
    const int32_t before = i > 0 ? positions[i - 1] : 0;
    if (positions[i] <= before)
      fail(Code::kInvalidArgument, "checkpoint[", i, "] is ", positions[i], "; it must be above ",
           before, i > 0 ? ", the one before it" : "");
    if (static_cast<size_t>(positions[i]) > prompt)
      fail(Code::kInvalidArgument, "checkpoint[", i, "] is ", positions[i], "; the prompt has ",
           prompt, " tokens");
  }
}

// A generation has a state of its own beside the one that the engine sets aside for prompts.
void check_states(const RequestSpec& spec, const RequestLimits& limits) {
  const auto prompt = static_cast<int32_t>(spec.tokens.size());
  const int64_t states = 2 * int64_t{limits.state_pages};
  const int64_t pages =
      states + pages_between(0, prompt) + pages_to_grow(growth(spec, limits.max_positions));
  if (pages > limits.pages)
    fail(Code::kCacheFull, "a generation of ", spec.sampling.max_tokens, " tokens from ", prompt,
         " needs ", pages * limits.page_bytes, " bytes, of which two states take ",
         states * limits.page_bytes, "; cache_bytes holds ", limits.pages * limits.page_bytes);
}

}  // namespace

void check_request(const RequestSpec& spec, const ModelConfig& config,
                   const RequestLimits& limits) {
  const auto n = spec.tokens.size();
  const int32_t max_positions = limits.max_positions;
  if (n == 0) fail(Code::kInvalidArgument, "the request has no tokens");
  check_length(n, max_positions, config, "the prompt");
  check_ids(spec.tokens, config.vocab_size, "tokens");
  check_output(spec.task, config);
  if (spec.deadline_ms < 0)
    fail(Code::kOutOfRange, "deadline_ms is ", spec.deadline_ms,
         "; it must be 0 (none) or positive");
  if (spec.cache_ttl_ms < 0)
    fail(Code::kOutOfRange, "cache_ttl_ms is ", spec.cache_ttl_ms,
         "; it must be 0 (no limit) or positive");
  if (spec.cache_priority < INT16_MIN || spec.cache_priority > INT16_MAX)
    fail(Code::kOutOfRange, "cache_priority is ", spec.cache_priority,
         "; it must lie in [-32768, 32767]");
  check_checkpoint(spec.checkpoint, n);
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
      check_top(spec.top_logprobs, config.vocab_size);
      break;
    case Task::kChoices:
      check_choices(spec, config, max_positions);
      break;
    case Task::kEmbed:
      check_embedding(spec, config);
      break;
    case Task::kGenerate:
      check_sampling(spec.sampling, config.vocab_size);
      check_top(spec.top_logprobs, config.vocab_size);
      if (spec.draft_tokens < 0 || spec.draft_tokens > kMaxDraftTokens)
        fail(Code::kOutOfRange, "draft_tokens is ", spec.draft_tokens, "; it must lie in [0, ",
             kMaxDraftTokens, "]");
      if (limits.state_pages > 0) check_states(spec, limits);
      break;
    case Task::kWarm:
      break;
    default:
      fail(Code::kInvalidArgument, "task ", static_cast<int32_t>(spec.task), " is not known");
  }
}

}  // namespace prefix
