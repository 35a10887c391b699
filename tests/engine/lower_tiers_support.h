// The cache without a model, for tests of what lies around it: keys and values that follow from the
// tokens before them, and a tier that answers when the test says so.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cache/kv_memory.h"
#include "cache/lower_tiers.h"
#include "cache/page_keys.h"
#include "cache/tier.h"
#include "tree/tree.h"

namespace prefix::testing_support {

using Tokens = std::vector<int32_t>;

inline PageKey root_key_of(NodeId root) { return page_key({}, {&root, 1}); }

// What stands for keys and values: a word for each position, which all tokens up to there decide.
inline uint64_t first_word(NodeId root) {
  return 0x9e3779b97f4a7c15u * (static_cast<uint64_t>(root) + 1);
}
inline uint64_t next_word(uint64_t word, int32_t token) {
  word = (word ^ static_cast<uint64_t>(token + 1)) * 0xff51afd7ed558ccdu;
  return (word ^ word >> 29) & ~0x0080008000800080u;  // as four bf16: finite ones
}
inline std::vector<uint64_t> words_of(NodeId root, const Tokens& tokens) {
  std::vector<uint64_t> words;
  uint64_t word = first_word(root);
  for (const int32_t token : tokens) words.push_back(word = next_word(word, token));
  return words;
}

// The keys of all full pages of a path, chained by hand.
inline std::vector<PageKey> keys_of(NodeId root, const Tokens& tokens) {
  std::vector<PageKey> keys;
  PageKey key = root_key_of(root);
  for (size_t at = 0; at + kPageTokens <= tokens.size(); at += kPageTokens)
    keys.push_back(key = page_key(key, {tokens.data() + at, kPageTokens}));
  return keys;
}

class FakeTier final : public Tier {
 public:
  enum Kind { kExists, kGet, kPut };
  struct Call {
    Kind kind;
    std::vector<PageKey> keys;
    std::vector<PageBuffer> buffers;
    std::vector<PageBlob> blobs;
    TicketPtr ticket;
  };
  using Page = std::vector<std::byte>;

  std::unordered_map<PageKey, Page, PageKeyHash> pages;
  std::list<Call> open;  // calls that are not answered in full
  int calls[3] = {0, 0, 0};
  std::unordered_map<PageKey, int, PageKeyHash> gets, puts;  // how often each page was asked, given
  std::vector<std::vector<PageKey>> uses;
  bool at_once = false;  // answers before the call returns
  bool refuses = false;  // puts; at once, as a full queue does

  TicketPtr exists(std::span<const PageKey> keys) noexcept override {
    return add({kExists, {keys.begin(), keys.end()}, {}, {}, nullptr});
  }
  TicketPtr get(std::span<const PageKey> keys,
                std::span<const PageBuffer> buffers) noexcept override {
    for (const PageKey& key : keys) ++gets[key];
    return add({kGet, {keys.begin(), keys.end()}, {buffers.begin(), buffers.end()}, {}, nullptr});
  }
  TicketPtr put(std::span<const PageKey> keys, std::span<const PageBlob> blobs) noexcept override {
    for (const PageKey& key : keys) ++puts[key];
    return add({kPut, {keys.begin(), keys.end()}, {}, {blobs.begin(), blobs.end()}, nullptr});
  }
  TierStats stats() const noexcept override { return {}; }
  TicketPtr use(std::span<const PageKey> keys) noexcept override {
    uses.emplace_back(keys.begin(), keys.end());
    return nullptr;
  }

  // Answers one page of a call; a miss of a get leaves rubbish in the buffer.
  void complete(Call& call, size_t i, bool miss = false) {
    const auto found = pages.find(call.keys[i]);
    bool hit = found != pages.end() && !miss;
    if (call.kind == kGet) {
      const PageBuffer& buffer = call.buffers[i];
      if (hit) {
        std::memcpy(buffer.data.get(), found->second.data(), buffer.size);
      } else {
        std::memset(buffer.data.get(), 0xee, buffer.size);
      }
    } else if (call.kind == kPut) {
      const PageBlob& blob = call.blobs[i];
      hit = !miss;
      if (hit) pages[call.keys[i]].assign(blob.data.get(), blob.data.get() + blob.size);
    }
    call.ticket->complete(i, hit);
  }
  void forget_answered() {
    open.remove_if([](const Call& call) { return call.ticket->done(); });
  }
  // Answers everything that waits.
  void answer() {
    for (Call& call : open)
      for (size_t i = 0; i < call.keys.size(); ++i)
        if (!call.ticket->completed(i)) complete(call, i);
    forget_answered();
  }

 private:
  TicketPtr add(Call call) {
    ++calls[call.kind];
    call.ticket = std::make_shared<Ticket>(call.keys.size());
    TicketPtr ticket = call.ticket;
    const bool refused = call.kind == kPut && refuses;
    open.push_back(std::move(call));
    if (at_once || refused)
      for (size_t i = 0; i < open.back().keys.size(); ++i) complete(open.back(), i, refused);
    forget_answered();
    return ticket;
  }
};

// A tree over memory of `pages` pages, with two roots.
class SmallCache {
 public:
  static constexpr size_t kSlotBytes = 128;

  explicit SmallCache(int32_t pages) : pool(pages), kv(*device, layout, pages), tree(pool) {}

  // Computes up to `most` pending tokens on the path to a node, as a step would. Returns how many.
  int32_t compute(NodeId node, int32_t most) {
    for (const int32_t page : pool.take_dirty())
      std::memset(kv.data() + static_cast<size_t>(page) * layout.page_bytes(), 0,
                  layout.page_bytes());
    NodeId first = kNoNode;
    for (NodeId id = node; tree.node(id).length > 0; id = tree.node(id).parent)
      if (tree.node(id).computed < tree.node(id).length) first = id;
    if (first == kNoNode) return 0;
    const Node& n = tree.node(first);
    const int32_t count = std::min(most, n.length - n.computed);
    // A branch in mid-page copies what its page shares with that above.
    if (n.computed == 0 && n.start % kPageTokens != 0) {
      const int32_t above = tree.node(n.parent).last_page;
      for (int32_t slot = 0; slot < n.start % kPageTokens; ++slot)
        set_word(n.first_page, slot, word(above, slot));
    }
    int32_t position = n.start + n.computed;
    uint64_t last = position == 0 ? first_word(tree.root(n)) : word_at(first, position - 1);
    tree.for_each_piece(
        n, n.computed, n.computed + count, [&](int32_t page, int32_t slot, int32_t pieces) {
          for (int32_t i = 0; i < pieces; ++i)
            set_word(page, slot + i, last = next_word(last, pool.tokens(page)[slot + i]));
        });
    tree.set_computed(first, n.computed + count);
    return count;
  }
  void compute_all(NodeId node) {
    while (compute(node, INT32_MAX) > 0) {
    }
  }

  // The path `tokens`, computed; nobody holds it.
  void add(NodeId root, const Tokens& tokens) {
    const NodeId id = tree.attach(tree.match(root, tokens), tokens, {});
    compute_all(id);
    tree.unlock(id, true);
  }

  // That every computed position holds what its tokens ask for.
  void check_content() const {
    for (NodeId id = 0; id < tree.node_limit(); ++id)
      if (const Node& n = tree.node(id); n.root >= 0 && n.parent == kNoNode) {
        std::vector<uint64_t> words;
        check_below(id, first_word(id), words);
      }
  }

  // Page i of the path, as memory holds it.
  FakeTier::Page page_of(NodeId root, const Tokens& tokens, size_t i) const {
    FakeTier::Page page(layout.page_bytes());
    const std::vector<uint64_t> words = words_of(root, tokens);
    for (size_t slot = 0; slot < kPageTokens; ++slot) {
      const uint64_t word = words[i * kPageTokens + slot];
      std::memcpy(page.data() + slot * kSlotBytes, &word, sizeof(word));
      std::memcpy(page.data() + (slot + 1) * kSlotBytes - sizeof(word), &word, sizeof(word));
    }
    return page;
  }
  void give_to(FakeTier& tier, NodeId root, const Tokens& tokens) const {
    const std::vector<PageKey> keys = keys_of(root, tokens);
    for (size_t i = 0; i < keys.size(); ++i) tier.pages[keys[i]] = page_of(root, tokens, i);
  }

  const ops::KvLayout layout{ops::KvType::kBf16, 1, 1, 32};
  const std::unique_ptr<ops::Device> device = ops::make_cpu_device({ops::kBf16Types, "auto"});
  PagePool pool;
  KvMemory kv;
  Tree tree;
  const NodeId root = tree.add_root();
  const NodeId other_root = tree.add_root();
  PageKeys keys{tree, pool, root_key_of};

 private:
  // At both ends of the slot.
  void set_word(int32_t page, int32_t slot, uint64_t word) {
    std::byte* at = slot_of(page, slot);
    std::memcpy(at, &word, sizeof(word));
    std::memcpy(at + kSlotBytes - sizeof(word), &word, sizeof(word));
  }
  // 0 when the ends differ.
  uint64_t word(int32_t page, int32_t slot) const {
    uint64_t a, b;
    std::memcpy(&a, slot_of(page, slot), sizeof(a));
    std::memcpy(&b, slot_of(page, slot) + kSlotBytes - sizeof(b), sizeof(b));
    return a == b ? a : 0;
  }
  std::byte* slot_of(int32_t page, int32_t slot) const {
    return const_cast<KvMemory&>(kv).data() + static_cast<size_t>(page) * layout.page_bytes() +
           static_cast<size_t>(slot) * kSlotBytes;
  }
  uint64_t word_at(NodeId id, int32_t position) const {
    const Node& n = tree.node(tree.node_at(id, position));
    uint64_t found = 0;
    tree.for_each_piece(n, position - n.start, position - n.start + 1,
                        [&](int32_t page, int32_t slot, int32_t) { found = word(page, slot); });
    return found;
  }
  // words: of the positions before the node.
  void check_below(NodeId id, uint64_t last, std::vector<uint64_t>& words) const {
    const Node& n = tree.node(id);
    const int32_t above = n.computed > 0 ? n.start % kPageTokens : 0;
    for (int32_t slot = 0; slot < above; ++slot)
      ASSERT_EQ(word(n.first_page, slot), words[static_cast<size_t>(n.start - above + slot)])
          << "node " << id << ", slot " << slot << " of its page, before its tokens";
    tree.for_each_piece(n, 0, n.computed, [&](int32_t page, int32_t slot, int32_t count) {
      for (int32_t i = slot; i < slot + count; ++i) {
        words.push_back(last = next_word(last, pool.tokens(page)[i]));
        ASSERT_EQ(word(page, i), last) << "node " << id << ", position " << words.size() - 1;
      }
    });
    for (NodeId below = n.first_child; below != kNoNode; below = tree.node(below).next)
      if (n.computed == n.length) check_below(below, last, words);
    words.resize(static_cast<size_t>(n.start));
  }
};

}  // namespace prefix::testing_support
