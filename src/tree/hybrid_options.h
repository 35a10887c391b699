// What a simulation of a hybrid model's cache is made of.
#pragma once

#include <cstdint>

#include "tree/hybrid_cost.h"

namespace prefix {

enum class HybridMethod : int32_t {
  kAuto,     // lru, leaf-lru, gds or gdsf: what saved the most lately without being used
  kLru,      // HybridPolicy
  kLeafLru,  // leaves by last use, where a use counts for the whole path
  kMarconi,
  kGds,
  kGdsf,
  kBlock  // states at every block of 32 tokens; leaves by last use
};

inline constexpr int64_t kHybridBlock = 32;

// Where a request leaves states behind.
struct HybridAdmission {
  bool branch = true;      // where its tokens diverge from what is there
  bool end = true;         // after its last token
  bool prompt = false;     // at the end of its prompt
  int64_t placed = 0;      // so many more, where later requests are likely to diverge from it
  int64_t max_states = 0;  // on a path; those closest to the root go first; 0 = no limit
};

// What the published artifact does otherwise than its paper says; for comparison, and with the
// rules of Marconi only. The artifact has all four; the first three change what is reused.
struct MarconiPitfalls {
  bool mlp_minus_attention = false;  // 3: the FLOPs of an MLP less those of the parent's attention
  bool wrong_leaf_bytes = false;     // 4: a leaf frees the bytes of the last candidate
  bool false_hits = false;           // 5: a lookup goes on below a child that agrees in part
  bool insert_refreshes = true;      // 9: so does the lookup of an insertion; recency is scaled
                                     //    over the candidates, not over all nodes
};

struct HybridOptions {
  HybridCost cost;
  HybridMethod method = HybridMethod::kAuto;
  bool tuned = true;  // marconi: alpha by replaying what came so far; else this one:
  double alpha = 0;
  int64_t tune_step = 0;                   // requests of it replayed with each new one; 0 = all
  int64_t tune_tokens = int64_t{1} << 28;  // of what came so far, at most
  int64_t capacity = 0;                    // bytes; 0 = no limit
  HybridAdmission admission;
  bool marconi_rules = false;  // as the experiments of Marconi count: see hybrid_replay.h
  MarconiPitfalls pitfalls;
};

}  // namespace prefix
