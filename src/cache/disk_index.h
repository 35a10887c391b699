// What a disk tier knows of its folder: which pages lie there, how large, and when each was used.
//
//   by key:   key ──> { bytes, last use, mark }        one entry, some 160 bytes, for each file
//   by age:   (last use, key), oldest first            the next to go is at the front
//
// Times are nanoseconds since 1970, as the file system keeps them, so that recency outlives the
// process and other processes see it. Not thread-safe; the tier has a lock.
#pragma once

#include <cstdint>
#include <set>
#include <unordered_map>
#include <utility>

#include "cache/page_key.h"

namespace prefix {

class DiskIndex {
 public:
  uint64_t pages() const { return by_key_.size(); }
  uint64_t bytes() const { return bytes_; }
  bool contains(const PageKey& key) const { return by_key_.contains(key); }

  // Adds an entry, or corrects the one there is. A use that is older than the known one is no news.
  void add(const PageKey& key, uint64_t bytes, int64_t used) {
    const auto [at, fresh] = by_key_.try_emplace(key, Entry{0, used, mark_});
    Entry& entry = at->second;
    try {
      if (fresh || used > entry.used) by_age_.emplace(used, key);
    } catch (...) {  // both or none
      if (fresh) by_key_.erase(at);
      throw;
    }
    if (!fresh && used > entry.used) by_age_.erase({entry.used, key});
    if (used > entry.used) entry.used = used;
    bytes_ += bytes - entry.bytes;
    entry.bytes = bytes;
    entry.mark = mark_;
  }
  bool remove(const PageKey& key) {
    const auto at = by_key_.find(key);
    if (at == by_key_.end()) return false;
    bytes_ -= at->second.bytes;
    by_age_.erase({at->second.used, key});
    by_key_.erase(at);
    return true;
  }
  // Of a page that is there: its size and its last use.
  uint64_t bytes_of(const PageKey& key) const { return by_key_.at(key).bytes; }
  int64_t last_use(const PageKey& key) const { return by_key_.at(key).used; }
  // Only when there are pages.
  const PageKey& oldest() const { return by_age_.begin()->second; }

  // A comparison with the folder: begin, add() what is there, end. Entries that were not added
  // since the beginning are gone then.
  void begin_comparison() { ++mark_; }
  void end_comparison() {
    for (auto at = by_key_.begin(); at != by_key_.end();) {
      if (at->second.mark == mark_) {
        ++at;
        continue;
      }
      bytes_ -= at->second.bytes;
      by_age_.erase({at->second.used, at->first});
      at = by_key_.erase(at);
    }
  }

 private:
  struct Entry {
    uint64_t bytes;
    int64_t used;
    uint64_t mark;  // of the last comparison that saw the file
  };

  std::unordered_map<PageKey, Entry, PageKeyHash> by_key_;
  std::set<std::pair<int64_t, PageKey>> by_age_;
  uint64_t bytes_ = 0;
  uint64_t mark_ = 0;
};

}  // namespace prefix
