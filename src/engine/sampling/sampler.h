// From rows of logits to the tokens of one sequence.
//
//   row ─> penalties ─ bias ─ masks ─> top-k ─> temperature, min-p, top-p ─> draw
//          \_ logits processors __/     \_ temperature 0: the most likely _/
//
// Penalties: for what occurred at all, then for what was generated. Masks: allowed tokens, at least
// so many, a constraint. Log-probs are those of the row as it came.
//
// Of most rows it needs little:
//
//   greedy, no processor         the first of the largest
//   top-k of at most 256         the k most likely
//   the same with processors     the 256 most likely and the logits of the tokens that these change;
//                                now and then that is not enough
//   without top-k, or with a     the whole row
//   processor that needs it
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/request.h"
#include "engine/sampling/logits_processor.h"
#include "ops/logits.h"

namespace prefix {

struct Sampled {
  int32_t token = 0;
  float logprob = 0;  // under the model's own distribution (no processors, temperature 1)
};

// What was read of a row, as the model made it.
struct PartialRow {
  std::span<const ops::Candidate> likely;  // the most likely tokens, the first one first
  bool complete = false;                   // they are the whole vocabulary
  std::span<const int32_t> tokens;         // Sampler::tokens()
  std::span<const float> logits;           // of these
};

class Sampler {
 public:
  // `prompt` is what comes before the first token that it makes; end_tokens end the generation
  // unless the options say otherwise.
  Sampler(const Sampling& options, std::span<const int32_t> prompt,
          std::span<const int32_t> end_tokens = {});

  // Behind the processors that the options name.
  void add(std::unique_ptr<LogitsProcessor> processor) {
    processors_.push_back(std::move(processor));
  }

  // The next token is the first of the largest logits.
  bool takes_largest() const { return options_.temperature == 0 && processors_.empty(); }
  bool has_processors() const { return !processors_.empty(); }
  // How many of the most likely tokens it needs; 0: the whole row.
  int32_t candidates(int32_t vocab) const;
  // Whose logits it needs besides, each once, ascending.
  std::vector<int32_t> tokens() const;

  // The next token from the whole row. Throws kNotFinite when a logit is NaN or the largest is
  // infinite, kInvalidArgument when the masks forbid every token, and what a processor throws.
  Sampled sample(std::span<const float> logits);
  // The same token, with its logit in the row. Nothing when this part of the row does not tell.
  std::optional<ops::Candidate> sample(const PartialRow& row);

  // The sequence goes on with this token.
  void accept(int32_t token);

  // Another one for the same place of the same sequence; none when a processor cannot be copied.
  std::optional<Sampler> fork() const;

 private:
  Sampler() = default;
  void process(const Logits& logits);

  Sampling options_;
  std::vector<std::unique_ptr<LogitsProcessor>> processors_;
  int64_t index_ = 0;  // tokens accepted
};

}  // namespace prefix
