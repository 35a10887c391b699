// (node, first token of an edge) -> child: one open-addressing table for the whole tree, so that a
// node with 100,000 children costs as little to walk as one with two.
//
//   slot = hash(key) .. linear probing; a removal shifts the cluster back, so there are no
//   tombstones and the table never needs a rebuild but for growth.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace prefix {

class ChildMap {
 public:
  ChildMap() : slots_(64) {}

  // -1 when absent.
  int32_t find(int32_t node, int32_t token) const {
    const uint64_t key = key_of(node, token);
    for (size_t i = home(key);; i = next(i)) {
      if (slots_[i].child < 0) return -1;
      if (slots_[i].key == key) return slots_[i].child;
    }
  }

  // Inserts or replaces.
  void set(int32_t node, int32_t token, int32_t child) {
    if (2 * (size_ + 1) > slots_.size()) grow();
    const uint64_t key = key_of(node, token);
    size_t i = home(key);
    while (slots_[i].child >= 0 && slots_[i].key != key) i = next(i);
    if (slots_[i].child < 0) ++size_;
    slots_[i] = {key, child};
  }

  void erase(int32_t node, int32_t token) {
    const uint64_t key = key_of(node, token);
    size_t hole = home(key);
    while (slots_[hole].key != key || slots_[hole].child < 0) {
      if (slots_[hole].child < 0) return;
      hole = next(hole);
    }
    --size_;
    for (size_t i = next(hole); slots_[i].child >= 0; i = next(i)) {
      // Move i into the hole unless its home lies cyclically in (hole, i].
      const size_t wanted = home(slots_[i].key);
      const bool stays =
          hole <= i ? (hole < wanted && wanted <= i) : (hole < wanted || wanted <= i);
      if (stays) continue;
      slots_[hole] = slots_[i];
      hole = i;
    }
    slots_[hole] = Slot{};
  }

  size_t size() const { return size_; }

 private:
  struct Slot {
    uint64_t key = 0;
    int32_t child = -1;
  };

  static uint64_t key_of(int32_t node, int32_t token) {
    return static_cast<uint64_t>(static_cast<uint32_t>(node)) << 32 | static_cast<uint32_t>(token);
  }
  // Multiplicative hashing (Knuth, vol. 3, 6.4) with a second mix: token ids come in runs.
  size_t home(uint64_t key) const {
    key ^= key >> 29;
    key *= 0x9E3779B97F4A7C15u;
    key ^= key >> 32;
    return static_cast<size_t>(key) & (slots_.size() - 1);
  }
  size_t next(size_t i) const { return (i + 1) & (slots_.size() - 1); }
  void grow() {
    std::vector<Slot> old(slots_.size() * 4);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.child < 0) continue;
      size_t i = home(slot.key);
      while (slots_[i].child >= 0) i = next(i);
      slots_[i] = slot;
    }
  }

  std::vector<Slot> slots_;
  size_t size_ = 0;
};

}  // namespace prefix
