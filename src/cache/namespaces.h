// Namespaces: tuples of text, each with a small number.
//
//   0  ()                             the empty one, always there
//   1  ("tenant a")                   prefix_namespace_open
//   2  ("tenant a", "adapter", "7")   prefix_namespace_open_tuple: salt, adapter, its epoch, more
//
// Tuples are compared part by part, never joined: ("ab", "c") is not ("a", "bc").
//
//        open()            close()                  forget()
//   new ────────> open ──────────────> closed ──────────────────> gone
//                 its tuple            requests still use it,     its number is never given again
//                 finds it             its tuple is free
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace prefix {

using NamespaceParts = std::vector<std::string>;

// The tuple of a plain name: one part, or none for "".
inline NamespaceParts namespace_parts(std::string_view name) {
  return name.empty() ? NamespaceParts{} : NamespaceParts{std::string(name)};
}

class Namespaces {
 public:
  Namespaces() { open({}); }

  // One empty part is the empty name, which is the empty tuple.
  int32_t open(const NamespaceParts& parts) {
    if (const int32_t found = find(parts); found >= 0) return found;
    if (next_ == INT32_MAX) fail(Code::kOutOfRange, "no more than ", next_, " can be opened");
    const auto at = open_.emplace(next_, parts).first;
    try {
      numbers_.emplace(&at->second, next_);
    } catch (...) {
      open_.erase(at);
      throw;
    }
    return next_++;
  }
  int32_t find(const NamespaceParts& parts) const {  // -1: it is not open
    if (parts.size() == 1 && parts.front().empty()) return 0;
    const auto found = numbers_.find(&parts);
    return found == numbers_.end() ? -1 : found->second;
  }
  int32_t count() const { return static_cast<int32_t>(open_.size()); }
  bool has(int32_t number) const { return open_.contains(number); }
  void require(int32_t number) const {
    if (!has(number))
      fail(Code::kNotFound, "namespace ", number,
           number >= 0 && number < next_ ? " was closed" : " was never opened");
  }
  std::vector<int32_t> numbers() const {
    std::vector<int32_t> all;
    for (const auto& [number, parts] : open_) all.push_back(number);
    return all;
  }
  // Of one that is open or closed.
  const NamespaceParts& parts(int32_t number) const {
    const auto found = open_.find(number);
    return found != open_.end() ? found->second : closed_.at(number);
  }
  // The first part tells tenants apart: without one, a namespace is common to all.
  bool has_salt(int32_t number) const {
    return !parts(number).empty() && !parts(number).front().empty();
  }

  // One that is open, and not the first.
  void close(int32_t number) noexcept {
    const auto found = open_.find(number);
    numbers_.erase(&found->second);
    closed_.insert(open_.extract(found));
  }
  const std::map<int32_t, NamespaceParts>& closed() const { return closed_; }
  void forget(int32_t number) noexcept { closed_.erase(number); }

  size_t metadata_bytes() const {
    return (open_.size() + closed_.size()) * sizeof(decltype(open_)::value_type) +
           numbers_.size() * sizeof(decltype(numbers_)::value_type);
  }

 private:
  struct Less {
    bool operator()(const NamespaceParts* a, const NamespaceParts* b) const { return *a < *b; }
  };
  std::map<int32_t, NamespaceParts> open_, closed_;
  std::map<const NamespaceParts*, int32_t, Less> numbers_;  // of those that are open
  int32_t next_ = 0;
};

}  // namespace prefix
