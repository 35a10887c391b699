// The adapters of an engine: by name for those who ask, by content for the cache.
//
//   "support" ──┐
//   "support-2" ┴─> adapter sha256:5f0c...  ──> 1     number in step plans, for the engine's life
//   "sales" ──────> adapter sha256:91ab...  ──> 2
//
// Requests of a namespace with an adapter run in a namespace of their own, whose tuple goes on with
// the adapter's content:
//
//   ("tenant a")  with "support"   ("tenant a", "adapter sha256:5f0c...")
//   ()            with "support"   ("", "adapter sha256:5f0c...")
//
// So whatever is kept by namespace (the tree, pages on disk and in stores, snapshots) never mixes
// adapters, nor versions of one, and finds its pages again when the same adapter is loaded later.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/hex.h"
#include "base/sha256.h"
#include "cache/namespaces.h"

namespace prefix {

inline constexpr std::string_view kAdapterPart = "adapter sha256:";

// The part of a tuple that stands for an adapter.
inline std::string adapter_part(const Sha256::Digest& digest) {
  return std::string(kAdapterPart) + hex(digest);
}

// That of a tuple; empty: it has none.
inline std::string_view adapter_part(const NamespaceParts& parts) {
  if (parts.size() < 2) return {};
  const std::string_view last = parts.back();
  const bool is_one = last.starts_with(kAdapterPart) &&
                      last.size() == kAdapterPart.size() + 2 * sizeof(Sha256::Digest);
  return is_one ? last : std::string_view();
}

// The namespace in which requests of `parts` with an adapter run.
inline NamespaceParts with_adapter(NamespaceParts parts, std::string_view part) {
  if (parts.empty()) parts.emplace_back();
  parts.emplace_back(part);
  return parts;
}

class AdapterNames {
 public:
  struct Entry {
    std::string part;
    int64_t bytes = 0, matrices = 0;
  };

  // Of a part, or 0 for an empty one. Also of adapters that are not loaded: what they computed may
  // be in the cache, and is theirs when they come.
  int32_t number_of(std::string_view part) {
    if (part.empty()) return 0;
    const auto found = numbers_.find(part);
    if (found != numbers_.end()) return found->second;
    return numbers_.emplace(part, static_cast<int32_t>(numbers_.size()) + 1).first->second;
  }
  const Entry* find(std::string_view name) const {  // null: no such adapter
    const auto found = entries_.find(name);
    return found == entries_.end() ? nullptr : &found->second;
  }
  // Some name has it.
  const Entry* loaded(std::string_view part) const {
    for (const auto& [name, entry] : entries_)
      if (entry.part == part) return &entry;
    return nullptr;
  }
  void set(const std::string& name, Entry entry) {
    Entry& named = entries_[name];
    named = std::move(entry);
    retired_.erase(named.part);
  }
  void erase(std::string_view name) { entries_.erase(entries_.find(name)); }
  const std::map<std::string, Entry, std::less<>>& entries() const { return entries_; }
  const std::map<std::string, int32_t, std::less<>>& numbers() const { return numbers_; }

  // Those without a name, whose weights go when no request uses them.
  using Retired = std::set<std::string, std::less<>>;
  void retire(const std::string& part) { retired_.insert(part); }
  void retire(Retired parts) { retired_.merge(parts); }  // takes no memory
  Retired& retired() { return retired_; }

 private:
  std::map<std::string, Entry, std::less<>> entries_;
  std::map<std::string, int32_t, std::less<>> numbers_;  // by part
  Retired retired_;
};

}  // namespace prefix
