#include "engine/sampling.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

namespace prefix {
namespace {

constexpr int kLanes = 16;

// e^x for x <= 0, relative error below 3e-7: 2^n * p(f) with a degree-6 Taylor-like polynomial on
// [-ln2/2, ln2/2]. Plain arithmetic, so that the compiler vectorises the loop around it.
inline float exp_negative(float x) {
  x = x < -87.0f ? -87.0f : x;
  const float scaled = x * 1.44269504f;
  const float n = static_cast<float>(static_cast<int32_t>(scaled - 0.5f));
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const int32_t bits = (static_cast<int32_t>(n) + 127) << 23;
  float power;
  std::memcpy(&power, &bits, sizeof(power));
  return p * power;
}

float largest(std::span<const float> x) {
  float lanes[kLanes];
  std::fill(std::begin(lanes), std::end(lanes), -std::numeric_limits<float>::infinity());
  size_t i = 0;
  for (; i + kLanes <= x.size(); i += kLanes)
    for (int l = 0; l < kLanes; ++l) lanes[l] = x[i + l] > lanes[l] ? x[i + l] : lanes[l];
  for (; i < x.size(); ++i) lanes[0] = x[i] > lanes[0] ? x[i] : lanes[0];
  return *std::max_element(std::begin(lanes), std::end(lanes));
}

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
void penalise(std::span<float> logits, std::span<const int32_t> seen, float penalty) {
  std::vector<int32_t> ids(seen.begin(), seen.end());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  for (int32_t id : ids) {
    float& logit = logits[static_cast<size_t>(id)];
    logit = logit > 0 ? logit / penalty : logit * penalty;
  }
}

struct Candidate {
  int32_t id;
  float logit;
  double weight;
};

// Order of truncation: top-k, then temperature, then min-p, then top-p, as transformers applies
// them with temperature first for the probability cuts.
int32_t draw(std::span<const float> logits, const Sampling& options, int64_t index) {
  std::vector<Candidate> candidates(logits.size());
  for (size_t i = 0; i < logits.size(); ++i)
    candidates[i] = {static_cast<int32_t>(i), logits[i], 0};
  const auto before = [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  };
  size_t keep = candidates.size();
  if (options.top_k > 0) keep = std::min(keep, static_cast<size_t>(options.top_k));
  if (keep < candidates.size()) {
    std::partial_sort(candidates.begin(), candidates.begin() + static_cast<ptrdiff_t>(keep),
                      candidates.end(), before);
    candidates.resize(keep);
  } else {
    std::sort(candidates.begin(), candidates.end(), before);
  }

  double total = 0;
  for (Candidate& c : candidates) {
    c.weight = std::exp(static_cast<double>(c.logit - candidates[0].logit) / options.temperature);
    total += c.weight;
  }
  if (options.min_p > 0) {
    while (candidates.size() > 1 && candidates.back().weight < options.min_p) {
      total -= candidates.back().weight;
      candidates.pop_back();
    }
  }
  if (options.top_p < 1) {
    double mass = 0;
    size_t n = 0;
    while (n < candidates.size() && (n == 0 || mass < options.top_p * total))
      mass += candidates[n++].weight;
    candidates.resize(n);
    total = mass;
  }
  double left = uniform(options.seed, index) * total;
  for (const Candidate& c : candidates) {
    left -= c.weight;
    if (left < 0) return c.id;
  }
  return candidates.back().id;
}

}  // namespace

double log_sum_exp(std::span<const float> x) {
  const float top = largest(x);
  if (!(top > -std::numeric_limits<float>::infinity()) || std::isinf(top)) return top;
  double lanes[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= x.size(); i += kLanes) {
    float e[kLanes];
    for (int l = 0; l < kLanes; ++l) e[l] = exp_negative(x[i + l] - top);
    for (int l = 0; l < kLanes; ++l) lanes[l] += e[l];
  }
  for (; i < x.size(); ++i) lanes[0] += exp_negative(x[i] - top);
  return top + std::log(std::accumulate(std::begin(lanes), std::end(lanes), 0.0));
}

int32_t argmax(std::span<const float> x) {
  const float top = largest(x);
  int unequal = 0;  // NaN differs from itself; counted without a branch so that the loop vectorises
  for (float v : x) unequal |= v != v;
  if (unequal || x.empty()) return -1;
  return static_cast<int32_t>(std::find(x.begin(), x.end(), top) - x.begin());
}

Sampled sample(std::span<const float> logits, const Sampling& options,
               std::span<const int32_t> seen, int64_t index) {
  const int32_t best = argmax(logits);
  if (best < 0) fail(Code::kInternal, "the model produced a logit that is not a number");
  Sampled out;
  out.token = best;
  const bool penalised = options.repetition_penalty != 1;
  if (penalised || options.temperature > 0) {
    std::vector<float> copy;
    std::span<const float> weighed = logits;
    if (penalised) {
      copy.assign(logits.begin(), logits.end());
      penalise(copy, seen, options.repetition_penalty);
      weighed = copy;
    }
    out.token = options.temperature > 0 ? draw(weighed, options, index) : argmax(weighed);
  }
  if (options.logprobs)
    out.logprob = static_cast<float>(logits[static_cast<size_t>(out.token)] - log_sum_exp(logits));
  return out;
}

}  // namespace prefix
