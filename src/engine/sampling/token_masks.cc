#include "engine/sampling/token_masks.h"

#include <algorithm>

namespace prefix {
namespace {

std::vector<int32_t> ascending(std::span<const int32_t> tokens) {
  std::vector<int32_t> list(tokens.begin(), tokens.end());
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  return list;
}

}  // namespace

AllowedTokens::AllowedTokens(std::span<const int32_t> allowed) : allowed_(ascending(allowed)) {}

void AllowedTokens::process(const Logits& logits) {
  auto next = logits.values.begin();
  for (const int32_t token : allowed_) {
    const auto at = logits.values.begin() + token;
    std::fill(next, at, kForbidden);
    next = at + 1;
  }
  std::fill(next, logits.values.end(), kForbidden);
}

MinTokens::MinTokens(int32_t least, std::span<const int32_t> ends)
    : left_(least), ends_(ascending(ends)) {}

void MinTokens::process(const Logits& logits) {
  if (left_ > 0) logits.for_each(ends_, [](float& logit, size_t) { logit = kForbidden; });
}

}  // namespace prefix
