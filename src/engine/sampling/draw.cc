#include "engine/sampling/draw.h"

#include <vector>

#include "base/elementary.h"

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

}  // namespace

// Order of truncation: top-k, then temperature, then min-p, then top-p of what is left, as in vLLM
// (transformers has top-p before min-p).
int32_t draw(std::span<const ops::Candidate> candidates, const Sampling& options, int64_t index) {
  std::vector<double> weights(candidates.size());
  double total = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    weights[i] = portable_exp(static_cast<double>(candidates[i].logit - candidates[0].logit) /
                              options.temperature);
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
    if (left < 0) return candidates[i].id;
  }
  return candidates[weights.size() - 1].id;
}

}  // namespace prefix
