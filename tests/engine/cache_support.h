// The model of the tests of the cache.
#pragma once

#include "support/tiny_engine.h"

namespace prefix::testing_support {

inline const TinyCheckpoint& checkpoint() {
  static const TinyCheckpoint* const kCheckpoint = new TinyCheckpoint;
  return *kCheckpoint;
}

}  // namespace prefix::testing_support
