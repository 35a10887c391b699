// Requests as they stand in a JSON Lines file: read and checked for form, not yet tokenised.
//
// A line that cannot be used becomes a Request with a message, so that it fails alone and keeps its
// place among the results.
#pragma once

#include <cstdint>
#include <istream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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
  std::string id;
  std::string error;  // why the line cannot be used; empty = it can
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

// Reads one line after another.
class RequestReader {
 public:
  enum class Kind { kRequest, kFlush, kEnd };

  explicit RequestReader(std::istream& in) : in_(in) {}
  // Fills request for kRequest. Empty lines are skipped, but counted.
  Kind next(Request& request);

 private:
  std::istream& in_;
  int64_t line_ = 0;
};

// The request of one line; id defaults to the number of the line. Sets flush for {"flush": true}.
Request parse_request(const std::string& line, int64_t number, bool& flush);

}  // namespace prefix_cli
