// What the requests of each namespace that are not finished hold of it.
#pragma once

#include <cstdint>
#include <unordered_map>

namespace prefix {

class NamespaceUses {
 public:
  // Makes room for begin(), which takes no memory.
  void expect(int32_t name_space) { uses_.try_emplace(name_space); }
  // A request waits or runs, until end().
  void begin(int32_t name_space) { ++uses_.find(name_space)->second.requests; }
  void end(int32_t name_space) {
    const auto use = uses_.find(name_space);
    if (--use->second.requests == 0 && name_space != 0) uses_.erase(use);
  }
  bool has_requests(int32_t name_space) const {
    const auto found = uses_.find(name_space);
    return found != uses_.end() && found->second.requests > 0;
  }
  void forget(int32_t name_space) { uses_.erase(name_space); }

  // Tokens by which generations that run may still grow: they count in the quota beside those that
  // are stored. Negative: these are given back.
  void reserve(int32_t name_space, int64_t tokens) { uses_[name_space].reserved_tokens += tokens; }
  int64_t reserved_tokens(int32_t name_space) const {
    const auto found = uses_.find(name_space);
    return found == uses_.end() ? 0 : found->second.reserved_tokens;
  }
  // f(namespace, its reserved tokens)
  template <typename F>
  void for_each_reserved(const F& f) const {
    for (const auto& [name_space, use] : uses_) f(name_space, use.reserved_tokens);
  }

  // Who waits for room in a quota is not overtaken by others of the namespace in the same plan.
  void begin_plan() { ++plan_; }
  void wait_for_quota(int32_t name_space) { uses_.find(name_space)->second.waits = plan_; }
  bool waits_for_quota(int32_t name_space) const {
    return uses_.find(name_space)->second.waits == plan_;
  }

 private:
  struct Use {
    int64_t requests = 0;
    int64_t reserved_tokens = 0;
    int64_t waits = 0;  // the plan in which one waits for its quota
  };
  std::unordered_map<int32_t, Use> uses_;
  int64_t plan_ = 0;
};

}  // namespace prefix
