#include "prepare.h"

#include <string_view>

#include "common.h"

namespace prefix_cli {
namespace {

std::string option(const Request& request, std::string_view key) {
  for (const auto& [name, value] : request.options)
    if (name == key) return value;
  return {};
}

// The engine stops at the end tokens of the model's configuration; chat templates often use one
// more to end a turn. Token ids are taken as they are given. A tokenizer may have tokens that were
// added behind those of the model, which writes none of them.
void add_end_tokens(const Request& request, Text& text, int32_t vocabulary, Prepared& prepared) {
  if (option(request, "ignore_eos") == "true") return;
  std::string list = option(request, "stop_tokens");
  for (const int32_t token : text.end_tokens())
    if (token < vocabulary) list += cat(list.empty() ? "" : ",", token);
  if (!list.empty()) prepared.options.emplace_back("stop_tokens", list);
}

}  // namespace

Prepared prepare(const Request& request, LazyText& text, int32_t vocabulary) {
  Prepared prepared;
  prepared.from = request.from;
  if (request.task == Task::kText)
    fail("line ", request.line, ": the requests of a task of texts show only in prefix run");
  if (request.needs_tokenizer()) text.need(request.line);
  if (!request.messages.empty())
    prepared.tokens = text.need().encode_chat(request.messages);
  else if (request.prompt.is_text)
    prepared.tokens = text.need().encode(request.prompt.text, Text::Encode::kWhole);
  else
    prepared.tokens = request.prompt.tokens;
  if (request.task == Task::kGenerate && request.wants_text())
    add_end_tokens(request, text.need(), vocabulary, prepared);
  if (request.continuation && request.task == Task::kLogprobs) {
    prepared.from = static_cast<int32_t>(prepared.tokens.size());
    const std::vector<int32_t> more =
        text.need().encode(*request.continuation, Text::Encode::kContinues);
    if (prepared.tokens.empty())
      fail("line ", request.line,
           ": the prompt has 0 tokens; continuation needs at least 1 before it");
    if (more.empty())
      fail("line ", request.line, ": continuation has 0 tokens; at least 1 is needed");
    prepared.tokens.insert(prepared.tokens.end(), more.begin(), more.end());
  }
  if (request.task == Task::kChoices)
    for (const Piece& choice : request.choices)
      prepared.choices.push_back(choice.is_text
                                     ? text.need().encode(choice.text, Text::Encode::kContinues)
                                     : choice.tokens);
  return prepared;
}

}  // namespace prefix_cli
