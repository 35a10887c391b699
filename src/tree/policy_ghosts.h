// Which policy a hybrid model's cache should have: caches without a model, one for each policy that
// comes into question, see the same requests, and the one that saved most lately is followed.
//
//   request that ended ──> HybridSimulator (auto) ──> ghost lru, ghost gds, ghost gdsf
//                                                        └─ most tokens saved of late ──> Tree
//
// No policy is good for every workload (docs/hybrid-cache-report.md). With marconi one such cache
// says which alpha to take: it is tuned once, a few of the requests that came so far with each that
// ends. Requests that only score leave states at forks alone, so the ghosts, which keep one at
// every end, do not see them. From what they see they also learn where requests diverge from each
// other, and so where states are worth their room.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tree/hybrid_simulator.h"
#include "tree/policy.h"

namespace prefix {

class PolicyGhosts {
 public:
  static constexpr Policy kFirst = Policy::kGds;  // until the ghosts have seen enough

  struct Choice {
    Policy policy;
    double alpha;  // of marconi
    bool operator==(const Choice&) const = default;
  };

  // capacity: bytes of keys, values and states; admission: of the cache, which keeps a state at the
  // end of each prompt; fixed: its policy, if it has one. Then the ghosts only place states, and
  // tune marconi.
  PolicyGhosts(const HybridCost& cost, int64_t capacity, const HybridAdmission& admission = {},
               std::optional<Policy> fixed = {})
      : fixed_(fixed), simulator_(options(cost, capacity, admission, fixed)) {}

  // A request that ended, with what it generated behind its prompt. Returns the policy to follow.
  Choice follow(int32_t name_space, std::span<const int32_t> tokens, int64_t prompt) {
    simulator_.request(std::to_string(name_space), tokens, prompt);
    const HybridStats now = simulator_.stats();
    if (fixed_) return {*fixed_, now.alpha};
    switch (now.method) {
      case HybridMethod::kLru:
        return {Policy::kLru, 0};
      case HybridMethod::kGdsf:
        return {Policy::kGdsf, 0};
      default:
        return {Policy::kGds, 0};
    }
  }

  // Positions behind `begin` and before the end of a prompt where later requests are likely to part
  // from it, ascending.
  std::vector<int64_t> place(int64_t begin, int64_t prompt) const {
    return simulator_.place(begin, prompt, prompt);
  }

 private:
  static HybridOptions options(const HybridCost& cost, int64_t capacity,
                               const HybridAdmission& admission, std::optional<Policy> fixed) {
    HybridOptions o;
    o.cost = cost;
    o.method = fixed == Policy::kMarconi ? HybridMethod::kMarconi
               : fixed                   ? HybridMethod::kLru
                                         : HybridMethod::kAuto;
    o.tune_step = 8;
    o.tune_tokens = int64_t{1} << 24;  // 64 MiB
    o.capacity = capacity;
    o.admission = admission;
    o.admission.prompt = true;
    return o;
  }

  std::optional<Policy> fixed_;
  HybridSimulator simulator_;
};

}  // namespace prefix
