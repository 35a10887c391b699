// The optional text library: tokenizer and chat template of a model.
//
// It is opened at run time, so the program works without it; then only requests that need it fail.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "text_task.h"

struct prefix_engine;

namespace prefix_cli {

class Text {
 public:
  // Throws Failure when the library is missing,
  // prefix::Error when the model has no usable tokenizer.
  static std::unique_ptr<Text> open(const std::string& model);
  virtual ~Text() = default;

  enum class Encode {
    kPlain,
    kWhole,      // with what the model wants around a text, e.g. a begin-of-text token
    kContinues,  // it goes on another text, so that no space is put in front of it
  };
  virtual std::vector<int32_t> encode(const std::string& text, Encode how) = 0;
  // messages: a JSON array of {"role", "content"}.
  virtual std::vector<int32_t> encode_chat(const std::string& messages) = 0;
  // Tokens that end a generation, as the model's files say; chat models have more than one.
  virtual std::vector<int32_t> end_tokens() = 0;
  // The bytes of one token; nothing when the tokenizer does not have it.
  virtual std::optional<std::string> token_text(int32_t token) = 0;
  // Special tokens are left out.
  virtual std::string decode(const std::vector<int32_t>& tokens) = 0;

  // Runs a task on an engine; show is called now and then with the items done and all.
  using Show = std::function<void(int64_t, int64_t)>;
  virtual TextTaskResult run(prefix_engine* engine, const TextTask& task, int64_t interval_ms,
                             const Show& show) = 0;

  // Tokens that arrive one by one. Bytes of an unfinished character are held back.
  class Stream {
   public:
    virtual ~Stream() = default;
    virtual std::string push(int32_t token) = 0;
    virtual std::string flush() = 0;
  };
  virtual std::unique_ptr<Stream> stream() = 0;
};

// Opened at the first use, because most batches of token ids never need it.
class LazyText {
 public:
  explicit LazyText(std::string model) : model_(std::move(model)) {}
  // Null when there is none.
  Text* get();
  // Throws when there is none: prefix::Error for what the library says of the model's files, else
  // Failure, which names the line (0: none) that needs it.
  Text& need(int64_t line = 0);

 private:
  std::string model_;
  std::string why_;              // there is none
  std::exception_ptr of_files_;  // the same, where the library says it
  bool tried_ = false;
  std::unique_ptr<Text> text_;
};

}  // namespace prefix_cli
