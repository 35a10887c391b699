// The prefix tree without a model: one operation after the other, as `prefix cache-sim` and the
// tests replay them. The tree, its locks and its eviction are the engine's own.
//
//   tokens   5 6 7 8 9     page 2, bigrams: atoms (5 6)(6 7)(7 8)(8 9), keys [(56)(67)] [(78)(89)]
//   key      K0    K1      every different page of atoms is one key, a number, and one step in the
//   slots    0 1   2 3     tree; so pages and bigrams exist only here, never inside the tree
//
// A slot stands for the place of one token's keys and values. Slots are numbered by insertion: the
// i-th token ever inserted as new has slot i, unless the insertion names them.
//
// `compat` turns off what libprefix does differently from SGLang's radix cache on purpose: there a
// lookup splits nodes and refreshes times, every insertion counts as a use, and whole nodes go.
// Without it tokens go one by one from the end of a leaf, a page of atoms at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tree/policy.h"

namespace prefix {

struct SimulatorOptions {
  Policy policy = Policy::kLru;
  int32_t page = 1;  // atoms per key
  // Tokens; an insertion evicts what exceeds it; 0 = no limit. It is never exceeded, and what is
  // not used of it is less than a page once something was evicted; with compat as SGLang's caller
  // does: whole nodes go, and what cannot go is exceeded.
  int64_t capacity = 0;
  bool bigram = false;  // atoms are pairs of neighbouring tokens: n + 1 tokens are n atoms
  bool compat = false;
};

struct SimulatorResult {
  int64_t matched = 0;         // tokens (atoms) found, whole pages
  std::vector<int64_t> slots;  // of what was found (match, lock, unlock)
  std::vector<int64_t> freed;  // slots that were evicted, in order
};

struct SimulatorNode {
  std::vector<int32_t> path;  // tokens from the root to its end (with bigrams: one more)
  std::string name_space;
  std::vector<int64_t> slots;  // of its own part
  int64_t length = 0;          // tokens (atoms) of its own part
  int64_t locks = 0;           // holders here and below
  int64_t hits = 0;
  int64_t priority = 0;
  int64_t last_use = 0;
  int64_t created = 0;
};

class Simulator {
 public:
  explicit Simulator(const SimulatorOptions& options);
  ~Simulator();
  Simulator(const Simulator&) = delete;
  Simulator& operator=(const Simulator&) = delete;

  SimulatorResult match(std::string_view name_space, std::span<const int32_t> tokens);
  // `matched` says how much was there before. slots: empty, or one for each token (atom) of the
  // whole pages; those of what was there are ignored. Throws kCacheFull when what may go does not
  // suffice. One that throws, also for lack of memory, changes nothing.
  SimulatorResult insert(std::string_view name_space, std::span<const int32_t> tokens,
                         int32_t priority = 0, std::span<const int64_t> slots = {});
  // Holds or lets go of the deepest node that the tokens match. Throws kMisuse, changing nothing
  // but times, when unlock finds no lock there.
  SimulatorResult lock(std::string_view name_space, std::span<const int32_t> tokens);
  SimulatorResult unlock(std::string_view name_space, std::span<const int32_t> tokens);
  // Frees at least n tokens while there are unlocked ones.
  SimulatorResult evict(int64_t n);
  void reset();

  // One request of a trace: lookup of the prompt, insertion of prompt and answer. Returns the
  // reused tokens, at most one fewer than the prompt has: the last one is always computed. What
  // does not fit is not kept.
  int64_t request(std::string_view name_space, std::span<const int32_t> tokens, int64_t prompt);

  // Depth first, siblings by age, a namespace after the other.
  std::vector<SimulatorNode> dump() const;

  int64_t evictable() const;   // tokens that are not held
  int64_t protected_() const;  // the rest
  int64_t total() const { return evictable() + protected_(); }
  int64_t tick() const;       // reads of the clock so far
  int64_t evictions() const;  // nodes; as the clock it goes on at a reset
  size_t nodes() const;       // without roots
  // Asserts the invariants of the tree (throws kInternal).
  void check() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace prefix
