// (node, first token of an edge) -> child: one open-addressing table for the whole tree, so that a
// node with 100,000 children costs as little to walk as one with two, and an entry 8 bytes.
//
//   entry = { hash of (node, token), child }     home = hash x size / 2^32, linear probing
//
// The key itself is not stored: the child knows its parent and its first token, and the caller
// compares them. Homes ascend with the hash, so the table is nearly sorted and grows in one pass
// over memory. A removal shifts the cluster back: there are no tombstones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace prefix {

class ChildMap {
 public:
  ChildMap() : slots_(64) {}

  // The child for which is_child(id) holds among those with the hash of the key; -1 if none.
  template <typename IsChild>
  int32_t find(int32_t node, int32_t token, const IsChild& is_child) const {
    const uint32_t hash = hash_of(node, token);
    for (size_t i = home(hash); slots_[i].child >= 0; i = next(i))
      if (slots_[i].hash == hash && is_child(slots_[i].child)) return slots_[i].child;
    return -1;
  }

  // After it, that many calls of add() take no memory.
  void prepare(size_t entries) {
    while (4 * (size_ + entries) > 3 * slots_.size()) grow();
  }

  // The key must not be there.
  void add(int32_t node, int32_t token, int32_t child) {
    prepare(1);
    put({hash_of(node, token), child});
    ++size_;
  }

  void replace(int32_t node, int32_t token, int32_t old_child, int32_t child) {
    slots_[find_entry(node, token, old_child)].child = child;
  }

  void erase(int32_t node, int32_t token, int32_t child) {
    size_t hole = find_entry(node, token, child);
    --size_;
    for (size_t i = next(hole); slots_[i].child >= 0; i = next(i)) {
      // Move i into the hole unless its home lies cyclically in (hole, i].
      const size_t wanted = home(slots_[i].hash);
      const bool stays =
          hole <= i ? (hole < wanted && wanted <= i) : (hole < wanted || wanted <= i);
      if (stays) continue;
      slots_[hole] = slots_[i];
      hole = i;
    }
    slots_[hole] = Slot{};
  }

  size_t size() const { return size_; }
  size_t metadata_bytes() const { return slots_.capacity() * sizeof(Slot); }

 private:
  struct Slot {
    uint32_t hash = 0;
    int32_t child = -1;
  };

  // Multiplicative hashing (Knuth, vol. 3, 6.4) with a second mix: token ids come in runs.
  static uint32_t hash_of(int32_t node, int32_t token) {
    uint64_t key =
        static_cast<uint64_t>(static_cast<uint32_t>(node)) << 32 | static_cast<uint32_t>(token);
    key ^= key >> 29;
    key *= 0x9E3779B97F4A7C15u;
    key ^= key >> 32;
    key *= 0xD6E8FEB86659FD93u;
    return static_cast<uint32_t>(key >> 32);
  }
  size_t home(uint32_t hash) const { return hash * static_cast<uint64_t>(slots_.size()) >> 32; }
  size_t next(size_t i) const { return i + 1 == slots_.size() ? 0 : i + 1; }
  size_t find_entry(int32_t node, int32_t token, int32_t child) const {
    size_t i = home(hash_of(node, token));
    while (slots_[i].child != child) i = next(i);
    return i;
  }
  void put(const Slot& slot) {
    size_t i = home(slot.hash);
    while (slots_[i].child >= 0) i = next(i);
    slots_[i] = slot;
  }
  void grow() {
    std::vector<Slot> old(slots_.size() + slots_.size() / 2);
    old.swap(slots_);
    for (const Slot& slot : old)
      if (slot.child >= 0) put(slot);
  }

  std::vector<Slot> slots_;
  size_t size_ = 0;
};

}  // namespace prefix
