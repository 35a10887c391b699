// How far two runs of tokens agree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace prefix {

// Equal tokens at the beginning of a and b, of at most n.
template <typename Count>
inline Count common_prefix(const int32_t* a, const int32_t* b, Count n) {
  constexpr Count kBlock = 16;  // an inlined comparison of vectors; memcmp dispatches by itself
  if (n > kBlock && std::memcmp(a, b, static_cast<size_t>(n) * sizeof(int32_t)) == 0) return n;
  Count i = 0;
  while (i + kBlock <= n && std::memcmp(a + i, b + i, kBlock * sizeof(int32_t)) == 0) i += kBlock;
  while (i < n && a[i] == b[i]) ++i;
  return i;
}

}  // namespace prefix
