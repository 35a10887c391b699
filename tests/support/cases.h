// How many cases of a property test run: a tenth under a sanitizer (docs/testing.md).
#pragma once

#include <cstdlib>

namespace prefix::testing_support {

inline bool quick() { return std::getenv("PREFIX_TEST_QUICK") != nullptr; }
inline int cases(int full) { return quick() ? full / 10 : full; }

}  // namespace prefix::testing_support
