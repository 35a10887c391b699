// Namespaces: tuples of text, each with a small number.
//
//   0  ()                             the empty one, always there
//   1  ("tenant a")                   prefix_namespace_open
//   2  ("tenant a", "adapter", "7")   prefix_namespace_open_tuple: salt, adapter, its epoch, more
//
// Tuples are compared part by part, never joined: ("ab", "c") is not ("a", "bc").
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
    if (parts.size() == 1 && parts.front().empty()) return 0;
    const auto [at, added] = numbers_.try_emplace(parts, count());
    if (added) parts_.push_back(&at->first);
    return at->second;
  }
  int32_t find(const NamespaceParts& parts) const {  // -1: never opened
    if (parts.size() == 1 && parts.front().empty()) return 0;
    const auto found = numbers_.find(parts);
    return found == numbers_.end() ? -1 : found->second;
  }
  int32_t count() const { return static_cast<int32_t>(numbers_.size()); }
  bool has(int32_t number) const { return number >= 0 && number < count(); }
  const NamespaceParts& parts(int32_t number) const { return *parts_[static_cast<size_t>(number)]; }
  // The first part tells tenants apart: without one, a namespace is common to all.
  bool has_salt(int32_t number) const {
    return !parts(number).empty() && !parts(number).front().empty();
  }

 private:
  std::map<NamespaceParts, int32_t> numbers_;
  std::vector<const NamespaceParts*> parts_;  // keys of the map, by number
};

}  // namespace prefix
