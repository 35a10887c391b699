// What the tree is asked for, and what it answers.
#pragma once

#include <cstdint>
#include <functional>

#include "base/status.h"
#include "tree/node.h"
#include "tree/policy.h"

namespace prefix {

struct Match {
  NodeId node = kNoNode;  // deepest node reached
  int32_t offset = 0;     // tokens of its edge that matched (== length: its end)
  int32_t matched = 0;    // tokens in all
  int32_t computed = 0;   // how many of them are computed; they come first
};

// For which job a sequence is attached, and how long what it computes should stay.
struct AttachOptions {
  uint32_t job = 0;
  int16_t priority = 0;        // of the nodes: the highest of all uses
  int64_t expires_ms = 0;      // on the clock of expire(); 0: never
  int32_t reserve_tokens = 0;  // by which the sequence may grow later: they must fit the quota
  bool count_as_use = true;    // of the path; false for further sequences of one request

  // With a window: what is wanted of the pages of the path. The new ones are hollow, and the
  // sequence has a band for them (page_pool.h); or all of those from the page of this position on,
  // which others may have in their bands or have not computed yet, get a frame of the pool.
  bool slides = false;
  int32_t reads_from = INT32_MAX;
};

// Why tokens left the tree.
enum class EvictReason {
  kCapacity,  // others needed their pages, or the quota
  kExplicit,  // trim, drop
  kExpired,
  kNotCached  // the last request on them does not keep them (option cache)
};

struct TreeOptions {
  Policy policy = Policy::kLru;
  bool keep_created = false;  // also for policies that do not ask when a node was made
  // GDSF: computing token p of a path costs token_cost + p x position_cost.
  double token_cost = 1;
  double position_cost = 0;
  // Keys that a token sees at most, its own the last; 0: all before it.
  int32_t window = 0;
  // Only whole texts are found again: what has no state is not kept.
  bool whole = false;
};

// There may be pages, but the namespace holds as much as it may.
class QuotaFull : public Error {
 public:
  using Error::Error;
};

// What the tree tells of changes. None of these may change the tree, or throw.
struct TreeObserver {
  // Before tokens [from, computed) of a node go.
  std::function<void(NodeId id, int32_t from, EvictReason why)> evicting;
  // After tokens [from, computed) of a node were computed.
  std::function<void(NodeId id, int32_t from)> computed;
  // After a state was stored that stays in the cache, or one that is there was said to stay.
  std::function<void(NodeId id)> state_kept;
  // Before a state leaves its node: its pages go, or will be written again.
  std::function<void(NodeId id)> taking_state;
};

}  // namespace prefix
