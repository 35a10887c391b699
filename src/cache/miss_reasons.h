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

  // A request comes whose first `matched` tokens the tree has: adds the others to its counts, and
  // remembers all.
  void count(int32_t name_space, std::span<const int32_t> tokens, int32_t matched,
             MissCounts& counts);
  // The same where all of them are there or none is of use.
  void count_whole(int32_t name_space, std::span<const int32_t> tokens, bool found,
                   MissCounts& counts);
  // Tokens [from, computed) of a node are about to make room. Without memory it is not noted.
  void made_room(const Tree& tree, NodeId id, int32_t from);

  size_t metadata_bytes() const { return table_.capacity() * sizeof(Entry); }

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
  std::span<Entry> set_of(uint64_t hash) {
    return std::span(table_).subspan((hash >> (64 - kSetBits)) * kWays, kWays);
  }

  std::vector<Entry> table_;
  std::vector<NodeId> path_;  // scratch
};

}  // namespace prefix
