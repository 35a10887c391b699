#include "tree/next_logprobs.h"

#include <limits>
#include <new>

namespace prefix {

float NextLogprobs::find(NodeId id, int32_t end, int32_t token) const {
  constexpr float kNotKnown = std::numeric_limits<float>::quiet_NaN();
  const auto node = nodes_.find(id);
  if (node == nodes_.end() || node->second.end != end) return kNotKnown;
  const auto found = node->second.logprobs.find(token);
  return found != node->second.logprobs.end() ? found->second : kNotKnown;
}

void NextLogprobs::set(NodeId id, int32_t end, int32_t token, float logprob) noexcept {
  try {
    const auto node = nodes_.find(id);
    if (node != nodes_.end() && node->second.end != end) forget(id);
    if (tokens_ == kMaxTokens) return;
    Next& next = nodes_.try_emplace(id).first->second;
    next.end = end;
    tokens_ += next.logprobs.insert_or_assign(token, logprob).second;
  } catch (const std::bad_alloc&) {
  }
}

void NextLogprobs::forget(NodeId id) noexcept {
  const auto node = nodes_.find(id);
  if (node == nodes_.end()) return;
  tokens_ -= node->second.logprobs.size();
  nodes_.erase(node);
}

// About what these maps take: a node of two words and the value, and a bucket.
size_t NextLogprobs::metadata_bytes() const {
  return nodes_.size() * (sizeof(Next) + 4 * sizeof(void*)) + tokens_ * 4 * sizeof(void*);
}

}  // namespace prefix
