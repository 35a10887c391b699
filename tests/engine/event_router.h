// What somebody knows of a cache who only reads its events: the reference that every test of events
// compares with. Says at once when an event cannot be.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cache/cache_events.h"

namespace prefix::testing_support {

class EventRouter {
 public:
  struct Block {
    uint64_t parent = 0;
    int32_t name_space = 0;
    int32_t position = 0;
    std::vector<int32_t> tokens;
    bool operator==(const Block&) const = default;
  };

  explicit EventRouter(int32_t event_tokens) : event_tokens_(event_tokens) {}

  // Empty: fine.
  std::string apply(const CacheEvent& event) {
    switch (event.kind) {
      case CacheEvent::kStored:
        return store(event);
      case CacheEvent::kRemoved:
        return remove(event);
      case CacheEvent::kCleared:
        return blocks_.empty() ? "" : "cleared, but there are blocks";
    }
    return "of no kind";
  }
  const std::map<uint64_t, Block>& blocks() const { return blocks_; }

  // Tokens that a prompt would find there.
  int64_t cached(int32_t name_space, const std::vector<int32_t>& prompt) const {
    uint64_t parent = 0;
    size_t found = 0;
    const auto size = static_cast<size_t>(event_tokens_);
    for (bool more = true; more && found + size <= prompt.size();) {
      more = false;
      const auto [first, last] = children_.equal_range(parent);
      for (auto at = first; at != last && !more; ++at) {
        const Block& b = blocks_.at(at->second);
        if (b.name_space != name_space ||
            !std::equal(b.tokens.begin(), b.tokens.end(),
                        prompt.begin() + static_cast<ptrdiff_t>(found)))
          continue;
        parent = at->second;
        found += size;
        more = true;
      }
    }
    return static_cast<int64_t>(found);
  }

 private:
  std::string store(const CacheEvent& e) {
    if (e.block == 0 || e.block > INT64_MAX) return "a name that cannot be";
    if (e.tokens.size() != static_cast<size_t>(event_tokens_)) return "not a block of tokens";
    if (blocks_.contains(e.block)) return "stored twice";
    if ((e.parent == 0) != (e.position == 0)) return "position 0 is that of the first block";
    if (e.parent != 0) {
      const auto above = blocks_.find(e.parent);
      if (above == blocks_.end()) return "stored before its parent";
      if (above->second.name_space != e.name_space) return "in another namespace than its parent";
      if (above->second.position + event_tokens_ != e.position) return "not behind its parent";
    }
    blocks_[e.block] = {e.parent, e.name_space, e.position, e.tokens};
    children_.emplace(e.parent, e.block);
    return "";
  }
  std::string remove(const CacheEvent& e) {
    const auto found = blocks_.find(e.block);
    if (found == blocks_.end()) return "removed, but it is not there";
    if (children_.contains(e.block)) return "removed before what continues it";
    if (found->second.name_space != e.name_space || found->second.position != e.position)
      return "removed from another place";
    const auto [first, last] = children_.equal_range(found->second.parent);
    for (auto at = first; at != last; ++at)
      if (at->second == e.block) {
        children_.erase(at);
        break;
      }
    blocks_.erase(found);
    return "";
  }

  int32_t event_tokens_;
  std::map<uint64_t, Block> blocks_;
  std::multimap<uint64_t, uint64_t> children_;
};

}  // namespace prefix::testing_support
