#include "ops/host_logits.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/elementary.h"

namespace prefix::ops {
namespace {

constexpr int kLanes = 16;

// e^x for x <= 0, relative error below 3e-7: 2^n * p(f) with a degree-6 Taylor-like polynomial on
// [-ln2/2, ln2/2]. Plain arithmetic, so that the compiler vectorises the loop around it.
inline float exp_negative(float x) {
  // NaN, of which there is no whole number, stays one by way of r.
  const float scaled = (x > -87.0f ? x : -87.0f) * 1.44269504f;
  x = x < -87.0f ? -87.0f : x;
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

int32_t first_of(std::span<const float> x, float top) {
  int unequal = 0;  // NaN differs from itself; counted without a branch so that the loop vectorises
  for (float v : x) unequal |= v != v;
  if (unequal || x.empty()) return -1;
  return static_cast<int32_t>(std::find(x.begin(), x.end(), top) - x.begin());
}

double sum_of_exp(std::span<const float> x, float top) {
  double lanes[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= x.size(); i += kLanes) {
    float e[kLanes];
    for (int l = 0; l < kLanes; ++l) e[l] = exp_negative(x[i + l] - top);
    for (int l = 0; l < kLanes; ++l) lanes[l] += e[l];
  }
  for (; i < x.size(); ++i) lanes[0] += exp_negative(x[i] - top);
  return std::accumulate(std::begin(lanes), std::end(lanes), 0.0);
}

}  // namespace

int32_t argmax(std::span<const float> x) { return first_of(x, largest(x)); }

double log_sum_exp(std::span<const float> x) { return log_sum_exp(row_stats(x, false, true)); }

double log_sum_exp(const RowStats& row) {
  return std::isfinite(row.top) ? row.top + portable_log(row.sum) : row.top;
}

RowStats row_stats(std::span<const float> x, bool first, bool sum) {
  RowStats out{};
  if (!first && !sum) return out;
  out.top = largest(x);
  if (first) out.first = first_of(x, out.top);
  if (sum && std::isfinite(out.top)) out.sum = sum_of_exp(x, out.top);
  return out;
}

void top_candidates(std::span<const float> x, std::span<Candidate> out) {
  if (out.empty()) return;
  // NaN has no place in an order, and std::sort() leaves its range without one. A row that has one
  // is refused afterwards, whatever its candidates are.
  constexpr float kLast = -std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = {static_cast<int32_t>(i), std::isnan(x[i]) ? kLast : x[i]};
  if (out.size() < x.size()) {
    // A heap with the least likely of those so far at its top;
    // most of the row is less likely still.
    std::make_heap(out.begin(), out.end(), more_likely);
    for (size_t i = out.size(); i < x.size(); ++i) {
      if (!(x[i] > out.front().logit)) continue;  // nor do equals and NaN come before it
      std::pop_heap(out.begin(), out.end(), more_likely);
      out.back() = {static_cast<int32_t>(i), x[i]};
      std::push_heap(out.begin(), out.end(), more_likely);
    }
  }
  std::sort(out.begin(), out.end(), more_likely);
}

void top_candidates(std::span<const float> x, size_t k, std::vector<Candidate>& out) {
  out.resize(std::min(k, x.size()));
  top_candidates(x, out);
}

}  // namespace prefix::ops
