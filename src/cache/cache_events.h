// What happens in the cache, for routers of requests.
//
//   block: `event_tokens` tokens (whole pages) of a path, named by the first 8 bytes of the key of
//          its last page (page_key.h), so that every process gives it the same name
//
//   sequence   41             42             43        ...
//   ring     [ stored b7 ][ stored b8 ][ removed b8 ]        the last `capacity` events
//                ^ where a reader goes on; one that is too slow finds a gap in the sequence, and
//                  starts again with a dump
//
// Stored comes when the keys and values of a block are in memory, after those of its parent;
// removed when a page of it goes, before that of its parent; cleared when nothing is left at all.
//
// Of a model with recurrent layers a block counts only up to the deepest state on its path: behind
// that, keys and values alone let no request go on.
//
//   path     [ block 0 ][ block 1 ][ block 2 ]       stored: 0 and 1, when S is there
//                               S ^                  removed: both, when S goes
//
// Events that there is no memory for leave a gap as well.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cache/page_keys.h"
#include "tree/tree.h"

namespace prefix {

struct CacheEvent {
  enum Kind : int32_t { kStored = 0, kRemoved = 1, kCleared = 2 };
  int64_t sequence = 0;
  Kind kind = kStored;
  int32_t name_space = 0;
  uint64_t block = 0;           // never 0
  uint64_t parent = 0;          // 0: the block is the first of its path
  int32_t position = 0;         // of its first token
  int64_t time_ns = 0;          // monotonic
  std::vector<int32_t> tokens;  // stored: of the block
};

class CacheEvents {
 public:
  // event_tokens: a multiple of kPageTokens; states: the model has recurrent layers; now: of the
  // events.
  CacheEvents(const Tree& tree, PageKeys& keys, const PagePool& pages, size_t capacity,
              int32_t event_tokens, bool states = false, Now now = Clock::now);

  // From the tree's observer.
  void computed(NodeId id, int32_t from);
  void evicting(NodeId id, int32_t from);
  void state_kept(NodeId id);
  void taking_state(NodeId id);
  // What is below a root is removed for those who read, though it stays: it is not to be told of
  // again.
  void removed(NodeId root);
  // After something was taken away on request.
  void check_cleared();

  // The first event that is kept with a sequence of at least `from`. Null: none yet.
  const CacheEvent* read(int64_t from) const;
  // Every block in memory as if it were stored now, parents first; their sequence is that of the
  // next event, with which a reader goes on.
  void dump(const std::vector<NodeId>& roots, const std::function<void(const CacheEvent&)>& f);
  int64_t next_sequence() const { return next_; }

 private:
  bool ends_block(int32_t page_block) const { return (page_block + 1) % block_pages_ == 0; }
  CacheEvent stored(PagePlace place);
  template <typename F>
  void posting(const F& f);
  std::vector<NodeId> nodes_below(const std::vector<NodeId>& roots) const;
  void post_stored(NodeId id, int32_t from);
  void post_removed(NodeId id, int32_t from);
  void post(CacheEvent event);

  const Tree& tree_;
  PageKeys& keys_;
  const PagePool& pages_;
  size_t capacity_;
  int32_t block_pages_;
  bool states_;
  Now now_;
  std::deque<CacheEvent> ring_;
  int64_t next_ = 0;
};

}  // namespace prefix
