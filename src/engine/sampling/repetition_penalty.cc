#include "engine/sampling/repetition_penalty.h"

#include <algorithm>

namespace prefix {

RepetitionPenalty::RepetitionPenalty(float penalty, std::span<const int32_t> prompt)
    : penalty_(penalty), seen_(prompt.begin(), prompt.end()) {
  std::sort(seen_.begin(), seen_.end());
  seen_.erase(std::unique(seen_.begin(), seen_.end()), seen_.end());
}

void RepetitionPenalty::process(const Logits& logits) {
  logits.for_each(seen_, [this](float& logit, size_t) {
    logit = logit > 0 ? logit / penalty_ : logit * penalty_;
  });
}

void RepetitionPenalty::accept(int32_t token) {
  const auto at = std::lower_bound(seen_.begin(), seen_.end(), token);
  if (at == seen_.end() || *at != token) seen_.insert(at, token);
}

}  // namespace prefix
