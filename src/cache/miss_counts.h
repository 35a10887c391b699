// Prompt tokens that were computed, by the reason why they were not found in the cache: those of a
// request, which together are all that was computed for it, or of all requests.
#pragma once

#include <cstdint>

namespace prefix {

struct MissCounts {
  int64_t first_seen = 0;   // no request had them before
  int64_t name_space = 0;   // only other namespaces did
  int64_t budget = 0;       // they were here and made room: cache_bytes, or the quota
  int64_t evicted = 0;      // they were here and were dropped, expired, or not kept
  int64_t granularity = 0;  // they are here, and were computed again to be read
  int64_t state = 0;        // their keys are here, but no state to go on from

  MissCounts& operator+=(const MissCounts& more) {
    first_seen += more.first_seen;
    name_space += more.name_space;
    budget += more.budget;
    evicted += more.evicted;
    granularity += more.granularity;
    state += more.state;
    return *this;
  }
};

}  // namespace prefix
