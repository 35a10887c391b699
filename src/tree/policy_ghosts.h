// Which policy a hybrid model's cache should have: caches without a model, one for each policy that
// comes into question, see the same requests, and the one that saved most lately is followed.
//
//   request that ended ──> HybridSimulator (auto) ──> ghost lru, ghost gds, ghost gdsf
//                                                        └─ most tokens saved of late ──> Tree
//
// No policy is good for every workload (docs/hybrid-cache-report.md). Requests that only score leave
// states at forks alone, so the ghosts, which keep one at every end, do not see them.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tree/hybrid_simulator.h"
#include "tree/policy.h"

namespace prefix {

class PolicyGhosts {
 public:
  static constexpr Policy kFirst = Policy::kGds;  // until the ghosts have seen enough

  // capacity: bytes of keys, values and states.
  PolicyGhosts(const HybridCost& cost, int64_t capacity) : simulator_(options(cost, capacity)) {}

  // A request that ended, with what it generated behind its prompt. Returns the policy to follow.
  Policy follow(int32_t name_space, std::span<const int32_t> tokens, int64_t prompt) {
    simulator_.request(std::to_string(name_space), tokens, prompt);
    switch (simulator_.stats().method) {
      case HybridMethod::kLru:
        return Policy::kLru;
      case HybridMethod::kGdsf:
        return Policy::kGdsf;
      default:
        return Policy::kGds;
    }
  }

 private:
  static HybridOptions options(const HybridCost& cost, int64_t capacity) {
    HybridOptions o;
    o.cost = cost;
    o.method = HybridMethod::kAuto;
    o.capacity = capacity;
    o.admission.prompt = true;
    return o;
  }

  HybridSimulator simulator_;
};

}  // namespace prefix
