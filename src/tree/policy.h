// Which cached leaf goes first. A policy gives every evictable leaf a key (class, rank); the
// smallest goes. Times are ticks of the tree's clock, one for each operation.
//
//   policy     class                 rank
//   lru        0                     last use
//   lfu        uses                  last use
//   fifo       0                     creation
//   mru        0                     - last use
//   filo       0                     - creation
//   slru       0: used once, else 1  last use
//   priority   priority              last use
//   gdsf       0                     L + uses x cost / size     (Cherkasova 1998)
//   gds        0                     L + cost / size            (Cao and Irani 1997)
//   marconi    0                     last use; states of recurrent layers by state_scores.h
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace prefix {

enum class Policy : int32_t {
  kLru,
  kLfu,
  kFifo,
  kMru,
  kFilo,
  kSlru,
  kPriority,
  kGdsf,
  kGds,
  kMarconi
};

inline constexpr std::string_view kPolicyNames[] = {"lru",  "lfu",      "fifo", "mru", "filo",
                                                    "slru", "priority", "gdsf", "gds", "marconi"};

// Whether ranks have an age in front: that of the last one that went.
inline bool ages(Policy policy) { return policy == Policy::kGdsf || policy == Policy::kGds; }

inline std::string_view policy_name(Policy policy) {
  return kPolicyNames[static_cast<int32_t>(policy)];
}

inline std::optional<Policy> policy_of(std::string_view name) {
  int32_t i = 0;
  for (const std::string_view known : kPolicyNames) {
    if (known == name) return static_cast<Policy>(i);
    ++i;
  }
  return std::nullopt;
}

}  // namespace prefix
