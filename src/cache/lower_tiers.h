// The tiers below RAM as the scheduler sees them: a disk, a store that machines share.
//
//   a request is admitted        ── lookup ──> [exists?]──> [get] ──> pages go into the tree ──> run
//     tree has 3 of its 64 pages                  tier 0, then tier 1 for what tier 0 lacks
//   a request is finished        ── save ────> copies of its full pages ──> [put], every tier
//     copies take too much memory    note of the rest ── poll ──> the same, when others are written
//
// Of a model with recurrent layers (lower_tiers_states.cc) keys and values alone help nothing: a
// state is looked for first, at every token behind the one that the tree has, and pages are fetched
// only up to it.
//
//   path   0 ──────── S ───────────────────── limit      S: in the tree; limit: the request reads
//                     └ [exists?] ←←← deepest first      from here on
//                  ... S' found ──> [get] it ──> pages up to S' as above ──> into the tree
//
// A request with a lookup waits outside the queue for pages, the others go on; requests that miss
// the same page wait for the one that fetches it. Whatever goes wrong below is a miss, as is a lack
// of memory here, and after `timeout` the request computes what has not come. A tier that fetches
// more slowly than this machine computes is left alone, and tried again once in a while. Not
// thread-safe: the engine calls under its lock, between steps.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
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

inline constexpr std::chrono::minutes kSavedFor{10};  // until a page in use is given to them again
inline constexpr std::chrono::seconds kFlushTime{5};  // that closing an engine waits for them

struct LowerTierLimits {
  size_t read_bytes = size_t{32} << 20;    // that one fetch asks for at once
  size_t write_bytes = size_t{256} << 20;  // of copies on their way down
  // As many as a tier's queue takes beside others; what it has no room for is a miss.
  size_t lookup_pages = 1024;  // that one fetch looks up at once
  size_t write_pages = 4096;   // on their way down, however small they are
  size_t rests = 16;           // paths whose rest waits for room among these
  Now now = Clock::now;
  // How flush() waits, which is not by `now`: for a ticket, so long at most.
  Now wall = Clock::now;
  std::function<void(const Ticket&, std::chrono::nanoseconds)> wait =
      [](const Ticket& ticket, std::chrono::nanoseconds time) { ticket.wait_for(time); };
  // By which generations of a namespace that run will still grow. Null: by nothing.
  std::function<int64_t(int32_t name_space)> reserved_tokens;
};

// One request's way through the tiers.
struct Fetch {
  enum Stage { kFindState, kReadState, kPages };  // the first two with recurrent layers only

  bool done = false;
  Stage stage = kPages;
  NodeId root = kNoNode;
  AttachOptions use;            // of what comes
  PageKey next;                 // by which others find this one
  std::vector<int32_t> tokens;  // whole pages; with recurrent layers up to the state
  int32_t first_block = 0;
  std::vector<PageKey> keys;  // of blocks first_block, first_block + 1, ...
  // keys:   [0, at) are in the tree | [at, known) this tier has | the rest
  size_t at = 0;
  size_t known = 0;
  size_t looked_up = 0;  // this tier was asked for those before it
  size_t tier = 0;
  int32_t reads = 0;  // of pages
  TicketPtr ticket;
  std::vector<PageBuffer> buffers;  // of keys [at, at + size); empty during the lookup
  Clock::time_point deadline;
  Clock::time_point asked;  // the ticket's

  // With recurrent layers.
  int32_t known_state = 0;       // tokens before the state that the tree had
  std::vector<PageKey> chain;    // of pages known_state / 32 - 1 (or of the root), and those behind
  size_t places = 0;             // keys of states that this tier was asked for
  std::vector<int32_t> lengths;  // before states that this tier has, deepest last
  int32_t length = 0;            // before the state that was read
  // Its pages; the mark that it was asked for; the page of its last tokens, if that is not full.
  std::vector<PageBuffer> state;
  bool state_asked = false;
};

class LowerTiers {
 public:
  // state_pages: of a state of the model; 0: it has no recurrent layers.
  LowerTiers(std::vector<LowerTier> tiers, Tree& tree, PagePool& pages, KvMemory& kv,
             PageKeys& keys, std::chrono::milliseconds timeout, LowerTierLimits limits = {},
             int32_t state_pages = 0);

  // Begins to look up what of `tokens` lies behind the match. Null: there is nothing to wait for.
  // *own: it is for this request and not for another one that misses the same page first, after
  // which this one should be looked up again. limit: a state after more tokens would not help. use:
  // for which request, and how long what comes should stay.
  std::shared_ptr<const Fetch> lookup(NodeId root, std::span<const int32_t> tokens,
                                      const Match& match, int32_t limit, bool* own,
                                      const AttachOptions& use = {});
  // Moves every fetch on as far as the tiers have got, and gives them what there was no room for.
  void poll();
  // Ends the fetches for a root that is about to go; those who wait for them may look up again.
  void forget(NodeId root);
  // The tree is not looked at any more, whatever has not been saved of it.
  void forget_rests() noexcept { rests_.clear(); }
  // No more fetches at a time: each holds memory for what it reads.
  bool busy() const { return fetches_.size() >= max_fetches_; }
  size_t max_fetches() const { return max_fetches_; }
  // Gives the full pages of the first `length` tokens of a path, and the states that are kept on
  // it, to the tiers that they were not given to yet, those nearest to the root first; none from
  // the first hollow page on, without which nobody could use them. When too much waits there
  // already, what is left of the path is given later, as far as it is there then.
  void save(NodeId node, int32_t length);
  // A step computed so many rows in this time: what a fetch is compared with.
  void computed(int64_t rows, int64_t ns);
  // Waits until everything that was saved is in the tiers, or time is up.
  void flush(std::chrono::milliseconds time = kFlushTime);

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
  bool ends(Fetch& f) noexcept;
  void list(Place fetch) noexcept;
  bool next_tier(Fetch& f);
  void look_up(Fetch& f);
  bool read(Fetch& f);
  bool get(Fetch& f, std::span<const PageKey> keys);
  size_t usable(const Fetch& f) const;
  bool install(Fetch& f, size_t count);
  std::shared_ptr<const Fetch> begin(const std::shared_ptr<Fetch>& f, bool* own);
  std::shared_ptr<Fetch> find_pages(NodeId root, std::span<const int32_t> tokens,
                                    const Match& match) const;

  // Of states.
  std::shared_ptr<Fetch> find_state(NodeId root, std::span<const int32_t> tokens,
                                    const Match& match, int32_t limit) const;
  std::span<const int32_t> tail_of(const Fetch& f, int32_t length) const;
  const PageKey& parent_of(const Fetch& f, int32_t length) const;
  bool ask_for_states(Fetch& f);
  bool advance_state(Fetch& f);
  bool read_state(Fetch& f);
  bool state_usable(const Fetch& f) const;
  bool begin_pages(Fetch& f);
  void install_state(Fetch& f);
  void install_state(const Fetch& f, NodeId path);
  uint32_t saved_now() const;
  bool is_saved(int32_t page) const { return pages_.saved(page) == saved_now(); }

  // Copies of pages for the tiers: element i of each list is of the same page.
  struct Copies {
    std::vector<PageKey> keys;
    std::vector<PageBlob> blobs;
    std::vector<KvMemory::Read> reads;  // that fill the blobs
    std::vector<int32_t> pages;
    std::vector<bool> marked;  // as saved, when they are
    bool fit = true;           // there was room for all
    bool known = false;        // the tiers have a page of the path
  };
  void add_copy(Copies& copies, const PageKey& key, int32_t page, bool mark);
  void add_state(Copies& copies, NodeId node);
  Copies copies_of(NodeId node, int32_t length);
  void give(const Copies& copies);
  bool save_path(NodeId node, int32_t length);
  void note_rest(NodeId node, int32_t length);
  void save_rests();
  // For room: in pieces that are worth it, for a tier lets go of one page after the other.
  bool rests_wait() const { return !rests_.empty() && *written_bytes_ <= limits_.write_bytes / 2; }
  std::vector<NodeId> path_to(NodeId node, int32_t length) const;
  void use_path(NodeId node, int32_t length);
  void use_fetched(const Fetch& f);
  int64_t reserved(NodeId root) const {
    return limits_.reserved_tokens ? limits_.reserved_tokens(tree_.name_space(tree_.node(root)))
                                   : 0;
  }
  AttachOptions use_of(const Fetch& f) const;
  // Page of a state that is there if a caller asked for it: one more than it has.
  int32_t asked_mark() const { return state_pages_; }

  std::vector<LowerTier> tiers_;
  std::vector<Rate> rates_;
  Tree& tree_;
  PagePool& pages_;
  KvMemory& kv_;
  PageKeys& keys_;
  std::chrono::milliseconds timeout_;
  LowerTierLimits limits_;
  Clock::time_point start_ = limits_.now();
  int32_t state_pages_;
  size_t max_fetches_;
  double token_ns_ = 0;  // to compute one; running mean
  int64_t step_ns_ = 0;  // of the step since the last poll
  std::list<std::shared_ptr<Fetch>> fetches_;
  std::unordered_map<PageKey, Place, PageKeyHash> by_next_;  // by the page that each wants next
  std::vector<TicketPtr> writing_;
  // A path that was saved in part. Nothing holds it: what has gone when there is room is lost.
  struct Rest {
    NodeId root;
    std::vector<int32_t> tokens;
  };
  std::deque<Rest> rests_;
  std::shared_ptr<std::atomic<size_t>> written_bytes_;  // copies that the tiers still hold
  Counters counters_;
};

}  // namespace prefix
