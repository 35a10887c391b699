#include "engine/sampling/sampler.h"

#include <algorithm>
#include <cmath>

#include "base/status.h"
#include "engine/sampling/draw.h"
#include "engine/sampling/occurrence_penalty.h"
#include "engine/sampling/repetition_penalty.h"
#include "engine/sampling/token_bias.h"
#include "engine/sampling/token_masks.h"
#include "ops/host_logits.h"

namespace prefix {
namespace {

// They are the last ones of a list in its order.
void drop_forbidden(std::vector<ops::Candidate>& list) {
  while (!list.empty() && list.back().logit == kForbidden) list.pop_back();
}

[[noreturn]] void refuse_no_token(int64_t index) {
  fail(Code::kInvalidArgument, "nothing may come as token ", index + 1,
       " of the generation: allowed_tokens, min_tokens and the constraint, those of them that are ",
       "set, forbid all");
}

}  // namespace

Sampler::Sampler(const Sampling& options, std::span<const int32_t> prompt,
                 std::span<const int32_t> end_tokens)
    : options_(options) {
  if (options.repetition_penalty != 1)
    add(std::make_unique<RepetitionPenalty>(options.repetition_penalty, prompt));
  if (options.presence_penalty != 0 || options.frequency_penalty != 0)
    add(std::make_unique<OccurrencePenalty>(options.presence_penalty, options.frequency_penalty));
  if (!options.logit_bias.empty()) add(std::make_unique<TokenBias>(options.logit_bias));
  if (!options.allowed_tokens.empty()) add(std::make_unique<AllowedTokens>(options.allowed_tokens));
  if (options.min_tokens > 0) {
    std::vector<int32_t> ends = options.stop_tokens;
    if (!options.ignore_eos) ends.insert(ends.end(), end_tokens.begin(), end_tokens.end());
    if (!ends.empty()) add(std::make_unique<MinTokens>(options.min_tokens, ends));
  }
}

void Sampler::accept(int32_t token) {
  for (const auto& processor : processors_) processor->accept(token);
  ++index_;
}

std::optional<Sampler> Sampler::fork() const {
  Sampler other;
  other.options_ = options_;
  other.index_ = index_;
  for (const auto& processor : processors_) {
    other.add(processor->clone());
    if (!other.processors_.back()) return std::nullopt;
  }
  return other;
}

void Sampler::process(const Logits& logits) {
  for (const auto& processor : processors_) processor->process(logits);
}

int32_t Sampler::candidates(int32_t vocab) const {
  const bool greedy = options_.temperature == 0;
  if (!greedy && (options_.top_k == 0 || options_.top_k > ops::kMaxCandidates)) return 0;
  for (const auto& processor : processors_)
    if (!processor->tokens()) return 0;
  const int32_t k = has_processors() ? ops::kMaxCandidates : greedy ? 1 : options_.top_k;
  return std::min(k, vocab);
}

std::vector<int32_t> Sampler::tokens() const {
  std::vector<int32_t> all;
  for (const auto& processor : processors_) {
    const auto some = processor->tokens();
    if (!some) continue;
    const auto middle = static_cast<ptrdiff_t>(all.size());
    all.insert(all.end(), some->begin(), some->end());
    std::inplace_merge(all.begin(), all.begin() + middle, all.end());
  }
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

Sampled Sampler::sample(std::span<const float> logits) {
  const int32_t best = ops::argmax(logits);
  if (best < 0 || !std::isfinite(logits[static_cast<size_t>(best)]))
    fail(Code::kNotFinite, "the logits are not finite (NaN or infinity)");
  Sampled out;
  out.token = best;
  if (!takes_largest()) {
    std::vector<float> copy;
    std::span<const float> processed = logits;
    if (has_processors()) {
      copy.assign(logits.begin(), logits.end());
      process({.values = copy});
      processed = copy;
    }
    if (options_.temperature > 0) {
      std::vector<ops::Candidate> kept;
      const auto k = static_cast<size_t>(options_.top_k);
      ops::top_candidates(processed, k > 0 ? k : processed.size(), kept);
      drop_forbidden(kept);
      if (kept.empty()) refuse_no_token(index_);
      out.token = draw(kept, options_, index_);
    } else {
      out.token = ops::argmax(processed);
      if (processed[static_cast<size_t>(out.token)] == kForbidden) refuse_no_token(index_);
    }
  }
  if (options_.logprobs)
    out.logprob =
        static_cast<float>(logits[static_cast<size_t>(out.token)] - ops::log_sum_exp(logits));
  return out;
}

std::optional<ops::Candidate> Sampler::sample(const PartialRow& row) {
  const auto changed = [&](int32_t token) {
    return std::binary_search(row.tokens.begin(), row.tokens.end(), token);
  };
  std::vector<ops::Candidate> kept;
  for (const ops::Candidate& c : row.likely)
    if (!changed(c.id)) kept.push_back(c);
  if (!row.tokens.empty()) {
    std::vector<float> logits(row.logits.begin(), row.logits.end());
    process({.values = logits, .whole_row = false, .tokens = row.tokens});
    for (size_t i = 0; i < logits.size(); ++i) kept.push_back({row.tokens[i], logits[i]});
    std::sort(kept.begin(), kept.end(), ops::more_likely);
    drop_forbidden(kept);
  }
  const auto k = static_cast<size_t>(options_.temperature > 0 ? options_.top_k : 1);
  // A token that is in neither list comes after all of `likely`.
  const bool enough = row.complete
                          ? !kept.empty()
                          : kept.size() >= k && !ops::more_likely(row.likely.back(), kept[k - 1]);
  if (!enough) return std::nullopt;
  if (kept.size() > k) kept.resize(k);

  const int32_t token = options_.temperature > 0 ? draw(kept, options_, index_) : kept[0].id;
  const auto at = std::lower_bound(row.tokens.begin(), row.tokens.end(), token);
  if (at != row.tokens.end() && *at == token)
    return ops::Candidate{token, row.logits[static_cast<size_t>(at - row.tokens.begin())]};
  return *std::find_if(row.likely.begin(), row.likely.end(),
                       [&](const ops::Candidate& c) { return c.id == token; });
}

}  // namespace prefix
