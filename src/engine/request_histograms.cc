#include "engine/request_histograms.h"

namespace prefix {
namespace {

std::vector<double> first_token_bounds() {
  return {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
          1,     2.5,   5,    7.5,  10,   20,   40,   80,  160,  640, 2560};
}

std::vector<double> between_tokens_bounds() {
  return {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3,
          0.4,   0.5,    0.75,  1,    2.5,   5,    7.5,   10,  20,   40,  80};
}

std::vector<double> request_bounds() {
  return {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1,   1.5,  2,   2.5,
          5,     10,     15,    20,   30,    40,   50,  60,  120, 240, 480, 960, 1920, 7680};
}

// 1, 2, 5, 10, 20, 50, ... up to the longest sequence.
std::vector<double> token_bounds(int32_t max_positions) {
  std::vector<double> bounds;
  for (double power = 1;; power *= 10) {
    for (const double digit : {1, 2, 5}) {
      if (digit * power > max_positions) return bounds;
      bounds.push_back(digit * power);
    }
  }
}

double seconds(int64_t microseconds) { return static_cast<double>(microseconds) * 1e-6; }

}  // namespace

RequestHistograms::RequestHistograms(int32_t max_positions)
    : first_token(first_token_bounds()),
      between_tokens(between_tokens_bounds()),
      queue(request_bounds()),
      total(request_bounds()),
      prompt(token_bounds(max_positions)),
      generated(token_bounds(max_positions)) {}

void RequestHistograms::add(Task task, const RequestResult& result) noexcept {
  queue.add(seconds(result.timing.queue_us));
  total.add(seconds(result.timing.total_us));
  prompt.add(static_cast<double>(result.usage.prompt));
  if (task != Task::kGenerate) return;
  generated.add(static_cast<double>(result.usage.generated));
}

}  // namespace prefix
