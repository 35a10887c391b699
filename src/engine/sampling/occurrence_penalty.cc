#include "engine/sampling/occurrence_penalty.h"

#include <algorithm>

namespace prefix {

void OccurrencePenalty::process(const Logits& logits) {
  logits.for_each(seen_, [this](float& logit, size_t i) {
    logit -= presence_ + frequency_ * static_cast<float>(counts_[i]);
  });
}

void OccurrencePenalty::accept(int32_t token) {
  const auto at = std::lower_bound(seen_.begin(), seen_.end(), token);
  const auto place = at - seen_.begin();
  if (at == seen_.end() || *at != token) {
    seen_.insert(at, token);
    counts_.insert(counts_.begin() + place, 0);
  }
  ++counts_[static_cast<size_t>(place)];
}

}  // namespace prefix
