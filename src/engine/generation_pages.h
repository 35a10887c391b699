// What a generation adds to its path, at most.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/page.h"
#include "engine/request.h"

namespace prefix {

inline int32_t growth(const RequestSpec& spec, int32_t max_positions) {
  return std::min(spec.sampling.max_tokens,
                  max_positions - static_cast<int32_t>(spec.tokens.size()) + 1);
}

// Growing by so many tokens takes their pages, one for a branch and one for a start in mid-page.
inline int32_t pages_to_grow(int32_t tokens) { return pages_between(0, tokens) + 2; }

}  // namespace prefix
