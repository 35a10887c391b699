// The tiers below RAM as the scheduler sees them: a disk, a store that machines share.
//
//   a request is admitted        ── lookup ──> [exists?]──> [get] ──> pages go into the tree ──> run
//     tree has 3 of its 64 pages                  tier 0, then tier 1 for what tier 0 lacks
//   a request is finished        ── save ────> copies of its full pages ──> [put], every tier
//
// A request with a lookup waits outside the queue for pages, the others go on; requests that miss
// the same page wait for the one that fetches it. Whatever goes wrong below is a miss, and after
// `timeout` the request computes what has not come. A tier that fetches more slowly than this
// machine computes is left alone, and tried again once in a while. Not thread-safe: the engine
// calls under its lock, between steps.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "cache/kv_memory.h"
#include "cache/page_keys.h"
#include "cache/tier.h"
#include "tree/tree.h"

namespace prefix {

struct LowerTier {
  std::string name;  // for metrics: "disk", "store"
  std::unique_ptr<Tier> tier;
};

struct LowerTierLimits {
  size_t read_bytes = size_t{32} << 20;    // that one fetch asks for at once
  size_t write_bytes = size_t{256} << 20;  // of copies on their way down
  Now now = Clock::now;
};

// One request's way through the tiers.
struct Fetch {
  bool done = false;
  NodeId root = kNoNode;
  std::vector<int32_t> tokens;  // whole pages
  int32_t first_block = 0;
  std::vector<PageKey> keys;  // of blocks first_block, first_block + 1, ...
  // keys:   [0, at) are in the tree | [at, known) this tier has | the rest
  size_t at = 0;
  size_t known = 0;
  size_t tier = 0;
  TicketPtr ticket;
  std::vector<PageBuffer> buffers;  // of keys [at, at + size); empty during the lookup
  Clock::time_point deadline;
  Clock::time_point asked;  // the ticket's
};

class LowerTiers {
 public:
  LowerTiers(std::vector<LowerTier> tiers, Tree& tree, PagePool& pages, KvMemory& kv,
             PageKeys& keys, std::chrono::milliseconds timeout, LowerTierLimits limits = {});

  // Begins to look up what of `tokens` lies behind the match. Null: there is nothing to wait for.
  // *own: it is for this request and not for another one that misses the same page first, after
  // which this one should be looked up again.
  std::shared_ptr<const Fetch> lookup(NodeId root, std::span<const int32_t> tokens,
                                      const Match& match, bool* own);
  // Moves every fetch on as far as the tiers have got.
  void poll();
  // Ends the fetches for a root that is about to go; those who wait for them may look up again.
  void forget(NodeId root);
  // No more fetches at a time: each holds memory for what it reads.
  bool busy() const { return fetches_.size() >= kMaxFetches; }
  // Gives the full pages of the first `length` tokens of a path to the tiers that they were not
  // given to yet, except when too much waits there already.
  void save(NodeId node, int32_t length);
  // A step computed so many rows in this time: what a fetch is compared with.
  void computed(int64_t rows, int64_t ns);
  // Waits until everything that was given to the tiers is there, or time is up.
  void flush(std::chrono::milliseconds time);

  struct Counters {
    int64_t fetched_tokens = 0;
    int64_t skipped_tokens = 0;  // that a tier had and could not have given in time
    int64_t timeouts = 0;        // fetches
  };
  const Counters& counters() const { return counters_; }
  size_t count() const { return tiers_.size(); }
  const std::string& name(size_t tier) const { return tiers_[tier].name; }
  TierStats stats(size_t tier) const { return tiers_[tier].tier->stats(); }

 private:
  static constexpr size_t kMaxFetches = 16;

  using Place = std::list<std::shared_ptr<Fetch>>::iterator;

  struct Cost {
    double ns = 0;          // running mean; 0: not known yet
    int64_t passed_by = 0;  // how often in a row it was too much
  };
  struct Rate {
    Cost lookup;  // a whole one
    Cost page;    // one page of a get
  };

  bool worth_it(Cost& cost, size_t times, size_t pages) const;
  void learn_cost(const Fetch& f);
  bool advance(Fetch& f);
  bool next_tier(Fetch& f);
  bool read(Fetch& f);
  size_t usable(const Fetch& f) const;
  bool install(Fetch& f, size_t count);

  std::vector<LowerTier> tiers_;
  std::vector<Rate> rates_;
  Tree& tree_;
  PagePool& pages_;
  KvMemory& kv_;
  PageKeys& keys_;
  std::chrono::milliseconds timeout_;
  LowerTierLimits limits_;
  double token_ns_ = 0;  // to compute one; running mean
  int64_t step_ns_ = 0;  // of the step since the last poll
  std::list<std::shared_ptr<Fetch>> fetches_;
  std::unordered_map<PageKey, Place, PageKeyHash> by_next_;  // by the page that each wants next
  std::vector<TicketPtr> writing_;
  std::shared_ptr<std::atomic<size_t>> written_bytes_;  // copies that the tiers still hold
  Counters counters_;
};

}  // namespace prefix
