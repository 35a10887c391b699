// Pages of the cache that a snapshot has still to copy. Nothing holds them, or a full cache would
// have no room for requests until the last one is on disk: what goes before its turn is left out.
//
//   file order   [ page 7 | page 9 | page 4 | page 9 ]      9 twice: a split in mid-page
//                  copied    ^ next    gone: -1
//
// A page number that is used again afterwards belongs to something else: its entry is -1 by then.
// The file has parents before children and evictions take children first, so what is saved below a
// node never lacks that node.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "tree/tree.h"

namespace prefix {

class PagesToSave {
 public:
  struct Entry {
    int32_t page;        // -1: gone
    int32_t node;        // of the snapshot
    int32_t begin, end;  // positions for which it is wanted; both the node's end: of its state
  };

  void add(const Entry& entry) {
    by_page_.emplace(entry.page, entries_.size());
    entries_.push_back(entry);
  }
  const std::vector<Entry>& entries() const { return entries_; }

  // Tokens [from, computed) of a node are about to go. A page may stay for what is before them, but
  // others will take their place in it.
  void evicting(const Tree& tree, NodeId id, int32_t from) {
    const Node& n = tree.node(id);
    int32_t begin = n.start + from;
    tree.for_each_piece(n, from, n.computed, [&](int32_t page, int32_t, int32_t count) {
      const auto [first, last] = by_page_.equal_range(page);
      for (auto at = first; at != last; ++at) {
        Entry& e = entries_[at->second];
        if (e.begin < begin + count && begin < e.end) e.page = -1;
      }
      begin += count;
    });
  }

  // A state is about to leave these pages.
  void taking_state(const std::vector<int32_t>& pages) {
    for (const int32_t page : pages) {
      const auto [first, last] = by_page_.equal_range(page);
      for (auto at = first; at != last; ++at) entries_[at->second].page = -1;
    }
  }

 private:
  std::vector<Entry> entries_;
  std::unordered_multimap<int32_t, size_t> by_page_;
};

}  // namespace prefix
