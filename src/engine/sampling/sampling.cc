#include "engine/sampling/sampling.h"

#include <algorithm>
#include <cmath>

#include "ops/host_logits.h"

namespace prefix {
namespace {

// splitmix64 (Steele, Lea, Flood 2014) of the seed and a counter: a stream per request, no state.
double uniform(int64_t seed, int64_t index) {
  uint64_t z = static_cast<uint64_t>(seed) * 0xD1342543DE82EF95u +
               (static_cast<uint64_t>(index) + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  z ^= z >> 31;
  return static_cast<double>(z >> 11) * 0x1.0p-53;
}

// Divides positive and multiplies negative logits of tokens that occurred (Keskar et al. 2019).
float penalised(float logit, float penalty) {
  return logit > 0 ? logit / penalty : logit * penalty;
}

// Order of truncation: top-k, then temperature, then min-p, then top-p, as transformers applies
// them with temperature first for the probability cuts.
int32_t draw(std::span<const ops::Candidate> kept, const Sampling& options, int64_t index) {
  std::vector<double> weights(kept.size());
  double total = 0;
  for (size_t i = 0; i < kept.size(); ++i) {
    weights[i] = std::exp(static_cast<double>(kept[i].logit - kept[0].logit) / options.temperature);
    total += weights[i];
  }
  if (options.min_p > 0) {
    while (weights.size() > 1 && weights.back() < options.min_p) {
      total -= weights.back();
      weights.pop_back();
    }
  }
  if (options.top_p < 1) {
    double mass = 0;
    size_t n = 0;
    while (n < weights.size() && (n == 0 || mass < options.top_p * total)) mass += weights[n++];
    weights.resize(n);
    total = mass;
  }
  double left = uniform(options.seed, index) * total;
  for (size_t i = 0; i < weights.size(); ++i) {
    left -= weights[i];
    if (left < 0) return kept[i].id;
  }
  return kept[weights.size() - 1].id;
}

}  // namespace

int32_t candidates_for(const Sampling& options, int32_t vocab) {
  const bool greedy = options.temperature == 0;
  if (!greedy && (options.top_k == 0 || options.top_k > ops::kMostCandidates)) return 0;
  const int32_t k = options.repetition_penalty != 1 ? ops::kMostCandidates
                    : greedy                        ? 1
                                                    : options.top_k;
  return std::min(k, vocab);
}

std::vector<int32_t> distinct_tokens(std::span<const int32_t> seen) {
  std::vector<int32_t> ids(seen.begin(), seen.end());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

bool penalised_candidates(std::span<const ops::Candidate> likely, bool complete,
                          std::span<const int32_t> seen, std::span<const float> seen_logits,
                          float penalty, int32_t k, std::vector<ops::Candidate>& out) {
  out.clear();
  for (const ops::Candidate& c : likely)
    if (!std::binary_search(seen.begin(), seen.end(), c.id)) out.push_back(c);
  for (size_t i = 0; i < seen.size(); ++i)
    out.push_back({seen[i], penalised(seen_logits[i], penalty)});
  std::sort(out.begin(), out.end(), ops::more_likely);
  const auto wanted = static_cast<size_t>(k);
  // A token that is in neither list comes after all of `likely`.
  const bool enough =
      complete || (out.size() >= wanted && !ops::more_likely(likely.back(), out[wanted - 1]));
  if (out.size() > wanted) out.resize(wanted);
  return enough;
}

int32_t choose(std::span<const ops::Candidate> kept, const Sampling& options, int64_t index) {
  return options.temperature > 0 ? draw(kept, options, index) : kept[0].id;
}

Sampled sample(std::span<const float> logits, const Sampling& options,
               std::span<const int32_t> seen, int64_t index) {
  const int32_t best = ops::argmax(logits);
  if (best < 0 || !std::isfinite(logits[static_cast<size_t>(best)]))
    fail(Code::kNotFinite, "the logits are not finite (NaN or infinity)");
  Sampled out;
  out.token = best;
  const bool penalty = options.repetition_penalty != 1;
  if (penalty || options.temperature > 0) {
    std::vector<float> copy;
    std::span<const float> weighed = logits;
    if (penalty) {
      copy.assign(logits.begin(), logits.end());
      for (const int32_t id : distinct_tokens(seen)) {
        float& logit = copy[static_cast<size_t>(id)];
        logit = penalised(logit, options.repetition_penalty);
      }
      weighed = copy;
    }
    if (options.temperature > 0) {
      std::vector<ops::Candidate> kept;
      const auto k = static_cast<size_t>(options.top_k);
      ops::top_candidates(weighed, k > 0 ? k : weighed.size(), kept);
      out.token = draw(kept, options, index);
    } else {
      out.token = ops::argmax(weighed);
    }
  }
  if (options.logprobs)
    out.logprob =
        static_cast<float>(logits[static_cast<size_t>(out.token)] - ops::log_sum_exp(logits));
  return out;
}

}  // namespace prefix
