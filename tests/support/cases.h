// How many cases of a property test run: a tenth under a sanitizer (docs/testing.md),
// and eight times as many where there is all night.
#pragma once

#include <cstdlib>

namespace prefix::testing_support {

inline bool quick() { return std::getenv("PREFIX_TEST_QUICK") != nullptr; }
inline bool thorough() { return std::getenv("PREFIX_TEST_LONG") != nullptr; }
inline int cases(int full) { return quick() ? full / 10 : thorough() ? full * 8 : full; }

}  // namespace prefix::testing_support
