// Requests as they stand in a file of JSON: read and checked for form, not yet tokenised.
//
// One that cannot be used becomes a Request with a message, so that it fails alone and keeps its
// place among the results.
#pragma once

#include <cstdint>
#include <istream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "json_stream.h"

namespace prefix_cli {

struct TextTask;

enum class Task { kLogits, kLogprobs, kChoices, kEmbed, kGenerate, kText };

// Token ids, or text that has still to become token ids.
struct Piece {
  bool is_text = false;
  std::string text;
  std::vector<int32_t> tokens;
};

struct Request {
  int64_t line = 0;
  std::string id;     // as it stands in JSON: a string in quotes, a number without
  std::string error;  // why it cannot be used; empty = it can
  Task task = Task::kGenerate;
  Piece prompt;          // tokens or text
  std::string messages;  // JSON array, when the prompt is a chat
  std::string name_space;
  std::string adapter;
  std::vector<int32_t> ids;                   // logits
  int32_t from = 1;                           // logprobs
  std::optional<std::string> continuation;    // logprobs
  std::vector<Piece> choices;                 // choices
  std::vector<std::string> stop;              // generate
  std::shared_ptr<const TextTask> text_task;  // kText: a task of texts
  // Options of the library with their values as text, e.g. {"temperature", "0.7"}.
  std::vector<std::pair<std::string, std::string>> options;

  // Results carry text when the question was text.
  bool wants_text() const { return prompt.is_text || !messages.empty(); }
  bool needs_tokenizer() const;
};

// Reads one request after another.
class RequestReader {
 public:
  enum class Kind { kRequest, kFlush, kEnd };

  explicit RequestReader(std::istream& in) : stream_(in) {}
  // Fills request for kRequest.
  Kind next(Request& request);

 private:
  JsonStream stream_;
};

// The request of a text that begins in `line`; `id` is for one that names none. Sets flush for
// {"flush": true}.
Request parse_request(const std::string& text, int64_t line, const std::string& id, bool& flush);

}  // namespace prefix_cli
