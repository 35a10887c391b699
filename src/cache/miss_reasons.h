// Why prompt tokens had to be computed: the answer to "why does the cache not hit?".
//
//   tokens of a prompt:  [ found in the tree | page | page | page | rest ]
//                             |                 \_ each page: was it ever here? _/
//                             └─ computed once more, because a result at them was asked for
//
// A table remembers the last 32,768 pages that were asked for, with and without their namespace, as
// hashes; a page that it lost counts as never seen. The tree does not depend on it. Where only
// whole texts are found again, a text stands there for all its pages; so does a prompt that does
// not fill a page.
//
//   hash ──upper bits──> set of 8 entries   [ seen last | ... | seen first: goes when one comes ]
//
// Twice as many entries as are promised: nearly no set has more than 8 of those.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "cache/miss_counts.h"
#include "tree/tree.h"

namespace prefix {

class MissReasons {
 public:
  MissReasons() : table_(kWays << kSetBits) {}

  // Whole pages of a text that were counted, and why the last of them was not in the tree.
  static constexpr uint64_t kStart = 0x2545f4914f6cdd1du;
  struct Seen {
    int32_t pages = 0;
    uint64_t hash = kStart;
    int64_t MissCounts::* reason = &MissCounts::first_seen;
  };
  // A request comes whose first `matched` tokens the tree has: adds the others to its counts, and
  // remembers all. `tokens` come behind what was seen of it already; returns what is then.
  Seen count(int32_t name_space, Seen seen, std::span<const int32_t> tokens, int32_t matched,
             MissCounts& counts);
  // The same where all of them are there or none is of use.
  void count_whole(int32_t name_space, std::span<const int32_t> tokens, bool found,
                   MissCounts& counts);
  // Tokens [from, computed) of a node are about to make room. Without memory it is not noted.
  void made_room(const Tree& tree, NodeId id, int32_t from);

  size_t metadata_bytes() const { return table_.capacity() * sizeof(Entry); }
  // Of paths that made room, in all.
  int64_t hashed_pages() const { return hashed_pages_; }

 private:
  static constexpr int kSetBits = 14;
  static constexpr size_t kWays = 8;
  struct Entry {
    uint64_t hash = 0;
    int32_t name_space = 0;
    bool made_room = false;
  };
  Entry* find(uint64_t hash);
  int64_t MissCounts::* reason_of(uint64_t hash, int32_t name_space);
  void see(uint64_t hash, int32_t name_space);
  void remember(const Entry& entry);
  void text_made_room(const Tree& tree, NodeId id);
  void path_made_room(const Tree& tree, NodeId id, int32_t from);
  void hash_path(const Tree& tree, NodeId id);
  std::span<Entry> set_of(uint64_t hash) {
    return std::span(table_).subspan((hash >> (64 - kSetBits)) * kWays, kWays);
  }

  std::vector<Entry> table_;
  std::vector<NodeId> path_;  // scratch
  // The last path that made room, from its first node on, the hash of each of its full pages, and
  // the growth of the tree then.
  std::vector<NodeId> hashed_path_;
  std::vector<uint64_t> hashes_;
  int64_t hashed_growth_ = -1;
  int64_t hashed_pages_ = 0;
};

}  // namespace prefix
