// The cache of engines that keep a state at every block of 32 tokens, to compare with: only whole
// blocks are found, and what goes is the block without a successor that was used least lately.
//
//   root ──[32 tokens]●──[32 tokens]●──[32 tokens]●      each block: its keys and values, and a state
//                    └──[32 tokens]●
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tree/child_map.h"
#include "tree/hybrid_options.h"

namespace prefix {

class HybridBlocks {
 public:
  explicit HybridBlocks(const HybridOptions& options);

  // Reused tokens of the prompt.
  int64_t look_up(std::string_view name, std::span<const int32_t> prompt);
  // Of a request of `prompt` tokens, with its answer.
  void insert(std::string_view name, std::span<const int32_t> tokens, int64_t prompt);

  int64_t used() const { return states() * block_bytes_; }
  int64_t states() const { return live_; }
  int64_t tokens() const { return live_ * kHybridBlock; }
  int64_t evictions() const { return evictions_; }
  int64_t peak_bytes() const { return peak_; }

 private:
  struct Block {
    int32_t parent = -1;
    int32_t children = 0;
    int64_t last_use = 0;
    bool held = false;  // the request that is being inserted leads through it
    std::array<int32_t, kHybridBlock> tokens{};
  };

  Block& at(int32_t id) { return blocks_[static_cast<size_t>(id)]; }
  const Block& at(int32_t id) const { return blocks_[static_cast<size_t>(id)]; }
  int32_t make(int32_t parent);
  int32_t root(std::string_view name);
  int32_t find(int32_t parent, std::span<const int32_t> tokens) const;
  // The blocks that the tokens lead through, refreshed.
  std::vector<int32_t> walk(std::string_view name, std::span<const int32_t> tokens);
  bool evict_one();

  HybridOptions options_;
  int64_t block_bytes_;
  std::vector<Block> blocks_;
  std::vector<int32_t> free_;
  ChildMap children_;  // by a hash of the tokens
  std::map<std::string, int32_t, std::less<>> roots_;
  std::set<std::pair<int64_t, int32_t>> leaves_;  // last use, block
  int64_t clock_ = 0;
  int64_t live_ = 0;  // without roots
  int64_t evictions_ = 0;
  int64_t peak_ = 0;
};

}  // namespace prefix
