#include "tree/alpha_tuner.h"

#include <algorithm>
#include <limits>

namespace prefix {
namespace {

constexpr int kAlphas = 21;      // 0, 0.1, ... 2
constexpr size_t kJudged = 500;  // requests, the last ones

int64_t add_capped(int64_t a, int64_t b) {
  return b > std::numeric_limits<int64_t>::max() - a ? std::numeric_limits<int64_t>::max() : a + b;
}

}  // namespace

bool AlphaTuner::record(std::string_view name, std::span<const int32_t> tokens, int64_t prompt) {
  tokens_ += static_cast<int64_t>(tokens.size());
  if (tokens_ > options_.tune_tokens) return false;
  recorded_.push_back({std::string(name), {tokens.begin(), tokens.end()}, prompt});
  return true;
}

std::optional<double> AlphaTuner::replay(int64_t requests) {
  for (auto i = static_cast<int>(arms_.size()); i < kAlphas; ++i) {
    HybridOptions options = options_;
    options.alpha = i / 10.0;
    arms_.push_back(std::make_unique<Arm>(options));
  }
  const size_t judged_from = recorded_.size() - std::min(recorded_.size(), kJudged);
  const size_t left = recorded_.size() - next_;
  const size_t end = next_ + (requests > 0 ? std::min(static_cast<size_t>(requests), left) : left);
  for (; next_ < end; ++next_) {
    const Request& r = recorded_[next_];
    for (const auto& arm : arms_) {
      const int64_t reused =
          arm->replay.look_up(r.name, std::span(r.tokens).first(static_cast<size_t>(r.prompt)));
      if (next_ >= judged_from) arm->saved = add_capped(arm->saved, options_.cost.flops(reused));
      arm->replay.insert(r.name, r.tokens, r.prompt);
    }
  }
  if (next_ < recorded_.size()) return std::nullopt;
  const auto best = std::max_element(
      arms_.begin(), arms_.end(), [](const auto& a, const auto& b) { return a->saved < b->saved; });
  return (*best)->alpha;
}

}  // namespace prefix
