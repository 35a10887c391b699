// One link of the chain between a row of logits and the token of a sequence (sampler.h): a penalty,
// a mask. It has the state of one sequence, what was generated so far, and a branch takes a clone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace prefix {

// Logits that a processor changes in place: of the whole vocabulary, or of some tokens.
struct Logits {
  std::span<float> values;
  bool whole_row = true;              // values[i] is the logit of token i; else of token tokens[i]
  std::span<const int32_t> tokens{};  // ascending

  // f(logit) for each token of `some`, ascending, whose logit is here.
  template <typename F>
  void for_each(std::span<const int32_t> some, const F& f) const {
    if (whole_row) {
      for (const int32_t token : some) f(values[static_cast<size_t>(token)]);
      return;
    }
    size_t i = 0;
    for (const int32_t token : some) {
      while (i < tokens.size() && tokens[i] < token) ++i;
      if (i < tokens.size() && tokens[i] == token) f(values[i]);
    }
  }
};

class LogitsProcessor {
 public:
  virtual ~LogitsProcessor() = default;

  // The tokens whose logits it changes, each once, ascending; valid until accept(). Nothing: it may
  // change any and needs the whole row.
  virtual std::optional<std::span<const int32_t>> tokens() const = 0;
  // -infinity forbids a token. One must stay allowed.
  virtual void process(const Logits& logits) const = 0;
  // The sequence goes on with this token.
  virtual void accept(int32_t token) = 0;
  virtual std::unique_ptr<LogitsProcessor> clone() const = 0;
};

}  // namespace prefix
