// Log-probs of tokens that come behind nodes and are not in the tree: those with which texts and
// choices end. Scoring needs no keys and values of them.
//
//   [ 5 9 12 ]     next: 7 -2.0, 8 -0.7
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "tree/node.h"

namespace prefix {

class NextLogprobs {
 public:
  // More of them than this are not kept: they have no pages that would make room.
  static constexpr size_t kMaxTokens = size_t{1} << 20;

  // Of a token behind the node, which ends after `end` tokens of its path. NaN: not known.
  float find(NodeId id, int32_t end, int32_t token) const;
  // Without memory it is not kept.
  void set(NodeId id, int32_t end, int32_t token, float logprob) noexcept;
  // The node ends, or is shorter from now on: then it may end here again, behind other tokens.
  void forget(NodeId id) noexcept;

  size_t metadata_bytes() const;

 private:
  struct Next {
    int32_t end = 0;  // of the node when they were set; a longer one has none
    std::unordered_map<int32_t, float> logprobs;
  };

  std::unordered_map<NodeId, Next> nodes_;
  size_t tokens_ = 0;
};

}  // namespace prefix
