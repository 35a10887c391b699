// A node of the prefix tree: an edge, that is a run of tokens (see the drawing in tree.h).
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace prefix {

using NodeId = int32_t;
inline constexpr NodeId kNoNode = -1;

struct Node {
  NodeId parent = kNoNode;
  NodeId first_child = kNoNode;
  NodeId next = kNoNode;      // siblings, in order of creation; kNoNode after the last one
  NodeId previous = kNoNode;  // of the first one: the last one
  int32_t start = 0;          // position of the first token
  int32_t length = 0;         // tokens; 0 only for roots
  int32_t computed = 0;       // tokens whose keys and values are in the pages; the rest is pending
  int32_t locks = 0;          // of sequences and pins whose last token is here
  int32_t subtree_locks = 0;  // the sum of `locks` over the subtree; 0: the node is not held
  int32_t root = -1;          // number of the tree's root; -1: the node is free
  int32_t first_page = -1;
  int32_t last_page = -1;
  NodeId queue_next = kNoNode;  // place in the eviction queue; of a free node: the next one
  NodeId queue_previous = kNoNode;
  int64_t last_use = 0;  // ticks
  uint32_t uses = 0;
  uint32_t job = 0;         // that asked for it first: tells "shared" from "cached"
  int32_t kept_states = 0;  // in the subtree, this node's too: those that stay in the cache
  int16_t priority = 0;
  bool expired = false;
  bool queued = false;  // may be evicted, and waits for it

  int32_t end() const { return start + length; }
};
static_assert(sizeof(Node) == 80);

// Nodes by number, in chunks: growing moves nothing, and a freed number is used again.
class NodeArena {
 public:
  NodeId add() {
    NodeId id = free_;
    if (id != kNoNode) {
      free_ = (*this)[id].queue_next;
    } else {
      id = size_;
      if (static_cast<size_t>(id) == room()) add_chunk();
      ++size_;
    }
    (*this)[id] = Node{};
    ++live_;
    return id;
  }
  // After it, that many calls of add() take no memory.
  void prepare(size_t nodes) {
    while (room() < live_ + nodes) add_chunk();
  }
  size_t room() const { return chunks_.size() * kChunk; }  // ids that there is memory for
  void remove(NodeId id) noexcept {
    (*this)[id].queue_next = std::exchange(free_, id);
    (*this)[id].root = -1;
    --live_;
  }
  Node& operator[](NodeId id) {
    const auto i = static_cast<size_t>(id);
    return chunks_[i / kChunk][i % kChunk];
  }
  const Node& operator[](NodeId id) const {
    const auto i = static_cast<size_t>(id);
    return chunks_[i / kChunk][i % kChunk];
  }
  NodeId limit() const { return size_; }  // ids are below this
  size_t live() const { return live_; }
  size_t metadata_bytes() const { return chunks_.size() * kChunk * sizeof(Node); }

 private:
  static constexpr size_t kChunk = 1024;

  void add_chunk() { chunks_.push_back(std::make_unique<Node[]>(kChunk)); }

  std::vector<std::unique_ptr<Node[]>> chunks_;
  NodeId free_ = kNoNode;  // the first free number; `queue_next` leads to the next one
  NodeId size_ = 0;
  size_t live_ = 0;
};

}  // namespace prefix
