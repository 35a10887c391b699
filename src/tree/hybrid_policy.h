// What goes first in the cache of a hybrid model. A candidate is a node with no child, which goes
// with its keys and values and its state, or with one child, of which only the state goes.
//
//   policy    goes first: the candidate with the smallest
//   lru       last use
//   marconi   R + alpha x E    E: FLOPs / bytes of the whole prefix (state_scores.h)
//   gds       base + F         F: FLOPs / bytes that are freed
//   gdsf      base + F x (1 + hits)
//
// The base of a node is the age of the cache when it was made or used last. The age is the highest
// priority (base + ...) that went so far: what is not used is overtaken by it and goes.
//
// A heap gives the next to go for all but marconi, whose scale moves with every step: it is
// found by going through all candidates. Candidates with the same value go in the order that the
// caller gives them.
//
//   marks_      by node: base, hits, place in queue_ ----+
//   queue_      [ H 3 | H 5 | H 9 | ... ]  a heap  <-----+     marconi: in no order
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

namespace prefix {

enum class HybridPolicy : int32_t { kLru, kMarconi, kGds, kGdsf };

// What a policy has to know of a candidate.
struct HybridCandidate {
  int64_t last_use = 0;  // ticks
  int64_t flops = 0;     // that computing its own tokens again takes
  int64_t bytes = 1;     // of its state and of the keys and values of its whole prefix
  int64_t freed = 1;     // bytes that it frees when it goes
};

class HybridQueue {
 public:
  // before(a, b): of two candidates with the same value a goes first.
  using Before = std::function<bool(int32_t, int32_t)>;
  HybridQueue(HybridPolicy policy, double alpha, Before before);

  // --- the life of a node; ids are small numbers that are used again ---
  void create(int32_t id);
  void renew(int32_t id) { marks_[index(id)].base = age_; }  // it was used; re-queues a candidate
  void count_hit(int32_t id) { ++marks_[index(id)].hits; }
  // `gone` is taken up by `into`, which keeps its hits.
  void merge(int32_t gone, int32_t into);

  // --- candidates; put() also after a change of base, hits or of the candidate itself ---
  void put(int32_t id, const HybridCandidate& candidate);
  void remove(int32_t id);  // nothing happens if it is none
  bool contains(int32_t id) const { return marks_[index(id)].place >= 0; }
  size_t size() const { return queue_.size(); }

  // The next to go at this time, later than any last use; -1 if there is none. `oldest` and
  // `newest`: last uses between which marconi scales, if not those of the candidates.
  struct Range {
    int64_t oldest, newest;
  };
  int32_t victim(int64_t now, const std::optional<Range>& scale = std::nullopt) const;
  // It goes: takes it out, and the age rises.
  void evict(int32_t id);

  HybridPolicy policy() const { return policy_; }
  double age() const { return age_; }
  // Another policy from now on; bases, hits and the age stay.
  void set_policy(HybridPolicy policy, double alpha);

 private:
  struct Mark {
    double base = 0;
    int64_t hits = 0;
    int32_t place = -1;  // in queue_
  };
  struct Entry {
    double value = 0;  // lru, gds, gdsf: what is compared; marconi: FLOPs / bytes
    int32_t id = -1;
    HybridCandidate candidate;
  };

  static size_t index(int32_t id) { return static_cast<size_t>(id); }
  bool less(const Entry& a, const Entry& b) const;
  double value_of(const Mark& mark, const HybridCandidate& candidate) const;
  double priority(const Mark& mark, const HybridCandidate& candidate) const;
  void place(size_t at, const Entry& entry);
  void sift(size_t at, const Entry& entry);
  int32_t scan(int64_t now, const std::optional<Range>& scale) const;

  HybridPolicy policy_;
  double alpha_;
  Before before_;
  double age_ = 0;
  std::vector<Mark> marks_;
  std::vector<Entry> queue_;
};

}  // namespace prefix
