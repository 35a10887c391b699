// Why tokens were computed, of a request or of the engine, to be compared.
#pragma once

#include <cstdint>
#include <ostream>

#include "cache/miss_counts.h"
#include "engine/engine_reports.h"

namespace prefix::testing_support {

struct Misses {
  int64_t first_seen = 0, name_space = 0, budget = 0, evicted = 0, granularity = 0, state = 0;

  static Misses of(const MissCounts& m) {
    return {m.first_seen, m.name_space, m.budget, m.evicted, m.granularity, m.state};
  }
  static Misses of(const EngineStats& s) {
    return {s.miss_first_seen, s.miss_namespace,   s.miss_budget,
            s.miss_evicted,    s.miss_granularity, s.miss_state};
  }
  int64_t sum() const { return first_seen + name_space + budget + evicted + granularity + state; }
  Misses operator+(const Misses& b) const {
    return {first_seen + b.first_seen, name_space + b.name_space,   budget + b.budget,
            evicted + b.evicted,       granularity + b.granularity, state + b.state};
  }
  Misses operator-(const Misses& b) const {
    return {first_seen - b.first_seen, name_space - b.name_space,   budget - b.budget,
            evicted - b.evicted,       granularity - b.granularity, state - b.state};
  }
  bool operator==(const Misses&) const = default;
};
inline void PrintTo(const Misses& m, std::ostream* out) {
  *out << "first seen " << m.first_seen << ", namespace " << m.name_space << ", budget " << m.budget
       << ", evicted " << m.evicted << ", granularity " << m.granularity << ", state " << m.state;
}

}  // namespace prefix::testing_support
