// One link of the chain between a row of logits and the token of a sequence (sampler.h): a penalty,
// a bias, a mask. It has the state of one sequence, what was generated so far.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>

namespace prefix {

// The logit of a token that may not come next.
inline constexpr float kForbidden = -std::numeric_limits<float>::infinity();

// Logits that a processor changes in place: of the whole vocabulary, or of some tokens.
struct Logits {
  std::span<float> values;
  bool whole_row = true;              // values[i] is the logit of token i; else of token tokens[i]
  std::span<const int32_t> tokens{};  // ascending

  // f(logit, i) for each token some[i], these ascending, whose logit is here.
  template <typename F>
  void for_each(std::span<const int32_t> some, const F& f) const {
    size_t at = 0;
    for (size_t i = 0; i < some.size(); ++i) {
      if (whole_row) {
        f(values[static_cast<size_t>(some[i])], i);
        continue;
      }
      while (at < tokens.size() && tokens[at] < some[i]) ++at;
      if (at < tokens.size() && tokens[at] == some[i]) f(values[at], i);
    }
  }
};

class LogitsProcessor {
 public:
  virtual ~LogitsProcessor() = default;

  // The tokens whose logits it changes, each once, ascending; valid until accept(). Nothing: it may
  // change any and needs the whole row.
  virtual std::optional<std::span<const int32_t>> tokens() const = 0;
  // May throw Error, which ends the request.
  virtual void process(const Logits& logits) = 0;
  // With a state of its own, the same as this one's; null: its state cannot be copied.
  virtual std::unique_ptr<LogitsProcessor> clone() const { return nullptr; }
  // The sequence goes on with this token.
  virtual void accept(int32_t token) = 0;
};

}  // namespace prefix
