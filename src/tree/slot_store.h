// Slots of the simulator: `page` numbers for each key in the tree, found by the place of the key.
//
//   place    0    1    2    3   ...   page of the pool x kPageTokens + slot in that page
//   block  [ 2 ][ - ][ 0 ][ - ]       - = nothing is stored for it
//   data   [ block 0 ][ block 1 ][ block 2 ] ...      `page` numbers each
//
// Only keys that are there take a block: with large pages the pool has many places that stay empty.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace prefix {

class SlotStore {
 public:
  explicit SlotStore(int32_t page)
      : page_(static_cast<size_t>(page)), chunk_blocks_(std::max<size_t>(1, kChunk / page_)) {}

  // After it, as many calls of add() at places below `places` take no memory.
  void reserve(size_t places, size_t keys) {
    if (block_of_.size() < places) block_of_.resize(places, kNone);
    while (free_.size() < keys) {
      const size_t first = chunks_.size() * chunk_blocks_;
      if (free_.capacity() < first + chunk_blocks_)
        free_.reserve(std::max(first + chunk_blocks_, 2 * free_.capacity()));
      chunks_.push_back(std::make_unique_for_overwrite<int64_t[]>(chunk_blocks_ * page_));
      for (size_t i = chunk_blocks_; i > 0; --i)
        free_.push_back(static_cast<int32_t>(first + i - 1));
    }
  }
  // Gives the place a block, whose numbers the caller writes.
  std::span<int64_t> add(size_t place) {
    block_of_[place] = free_.back();
    free_.pop_back();
    return block(block_of_[place]);
  }
  void remove(size_t place) {
    if (place >= block_of_.size() || block_of_[place] == kNone) return;
    free_.push_back(block_of_[place]);  // there is room: it came from there
    block_of_[place] = kNone;
  }
  // Empty when nothing is stored.
  std::span<const int64_t> find(size_t place) const {
    if (place >= block_of_.size() || block_of_[place] == kNone) return {};
    return block(block_of_[place]);
  }

 private:
  static constexpr size_t kChunk = 4096;  // numbers
  static constexpr int32_t kNone = -1;

  std::span<int64_t> block(int32_t number) const {
    const auto at = static_cast<size_t>(number);
    return {chunks_[at / chunk_blocks_].get() + at % chunk_blocks_ * page_, page_};
  }

  size_t page_;
  size_t chunk_blocks_;
  std::vector<int32_t> block_of_;
  std::vector<int32_t> free_;  // its capacity is that of all blocks
  std::vector<std::unique_ptr<int64_t[]>> chunks_;
};

}  // namespace prefix
