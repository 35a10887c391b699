// A tree and a naive model of it, side by side. Every operation goes to both, and whatever can be
// predicted is compared at once; the first difference throws.
//
//   the model of a root: all joints of the tree as whole paths, in alphabetical order
//
//     "aab"        start 0    who ends here, how much of the edge is computed, uses, ticks, expiry
//     "aabab"      start 3    the parent is the longest proper prefix in the list
//     "aabb"       start 3    a leaf is a path that the next one does not continue
//
// A token is one character here. Paths that share a prefix are neighbours, so the longest match of
// a query is the better of its two neighbours: no walk, no hash, no pages.
//
// Pages follow from the shape alone: an edge takes a page for every 32 positions that it touches,
// less one when it was cut off its parent in mid-page or was lent the rest of its page (`shares`).
// Which leaf may go is found by asking every leaf; what a key is made of is taken from the table in
// policy.h. The tree says what it evicts (set_observer) and the model repeats it step by step: each
// victim must have had the smallest key among those that could go, and exactly as many pages go as
// were missing. With equal keys either may go. For gdsf only "expired first, and never what is in
// use" is demanded.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "tree/tree.h"

namespace prefix::testing_support {

using Path = std::string;  // tokens, one character each

struct Difference : std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <typename A, typename B>
void same(const char* what, const A& tree, const B& model) {
  const auto a = static_cast<int64_t>(tree);
  const auto b = static_cast<int64_t>(model);
  if (a != b) throw Difference(cat(what, ": tree ", a, ", model ", b));
}

inline void demand(bool holds, const char* what) {
  if (!holds) throw Difference(what);
}

struct Edge {
  NodeId id = kNoNode;         // the node of the tree that this stands for,
  const Node* node = nullptr;  // and where it is
  size_t root = 0;
  Path path;  // from the root to the end of the edge
  int32_t start = 0;
  Edge* parent = nullptr;  // nullptr: the root
  int32_t children = 0;
  int32_t locks = 0;
  int32_t computed = 0;  // of its own tokens
  bool shares = false;   // its first page is the last one of its parent
  bool lent = false;     // its last page is the first one of a child
  bool expired = false;
  int16_t priority = 0;
  uint32_t uses = 1;
  int64_t last_use = 0;
  int64_t created = 0;
  int64_t expires = 0;  // 0: never
  int64_t mark = 0;
  std::vector<float> logprobs = {};  // of its own tokens
  size_t place = 0;                  // in the list of all edges

  int32_t end() const { return static_cast<int32_t>(path.size()); }
  int32_t length() const { return end() - start; }
  int32_t pages() const { return (end() - 1) / kPageTokens - start / kPageTokens + 1; }
  int32_t own_pages() const { return pages() - (shares ? 1 : 0); }
  bool lends() const { return !lent && end() % kPageTokens != 0; }
};

// What happened, so that a test sees that nothing of interest is missing.
enum Event : size_t {
  kWhole,
  kTail,
  kForQuota,
  kExpired,
  kOverQuota,
  kFull,
  kSplit,
  kSplitInPage,
  kGrowth,
  kRetreat,
  kBranch,
  kLentPage,
  kEndInside,
  kOwnEnd,
  kScored,
  kEvents
};

struct Events {
  static constexpr const char* kNames[kEvents] = {
      "edges_evicted",    "tails_evicted",    "evicted_for_a_quota",  "evicted_as_expired",
      "refused_by_quota", "refused_by_pool",  "splits_between_pages", "splits_in_a_page",
      "leaves_grown",     "leaves_shortened", "branches_decoded",     "pages_lent",
      "rests_that_end",   "answers_that_end", "edges_with_log_probs",
  };
  int64_t counts[kEvents] = {};

  void operator+=(const Events& other) {
    for (size_t i = 0; i < kEvents; ++i) counts[i] += other.counts[i];
  }
};

struct Sequence {
  size_t root = 0;
  Path tokens;
  Edge* edge = nullptr;  // where its lock is
  int32_t reserved = 0;  // pages promised to it
  AttachOptions use;
};

class CheckedTree {
 public:
  static constexpr int32_t kSpaces = 3;
  static constexpr int32_t kAll = -1;

  CheckedTree(int32_t pages, Policy policy, size_t roots);

  // --- operations; each compares what it can predict ---
  void match(size_t root, const Path& query);
  bool attach(size_t root, const Path& tokens,
              const AttachOptions& use);  // the sequence joins live()
  void compute(Sequence& s, int32_t upto);
  void score(const Sequence& s, int32_t from, int32_t end);
  bool can_advance(const Sequence& s) const { return s.reserved > 0 || available() > 0; }
  void advance(Sequence& s, char token);
  // The last tokens of a path that only this sequence holds, none of them computed.
  bool can_retreat(const Sequence& s) const;
  void retreat(Sequence& s, int32_t length);
  void prolong(const Sequence& s, int64_t expires_ms);
  void unlock(size_t sequence, bool keep);
  void end_at(Edge* edge, int32_t length);
  bool make_room(int32_t pages);
  void reserve(Sequence& s, int32_t pages);
  void trim(int32_t pages);
  void drop(size_t root, Edge* top);  // nullptr: all of the root
  void drop_after(size_t root, const Path& query);
  void expire(int64_t now_ms);
  void set_limits(int32_t space, int64_t floor, int64_t quota);
  // Gives an empty root back and takes one in `space` for it.
  bool replace_root(size_t root, int32_t space);

  // The cheap facts, after every operation.
  void check_facts();
  // Tree::check() and every field of every node.
  void check_everything();

  std::vector<Sequence>& live() { return live_; }
  const std::vector<Edge*>& edges() const { return edges_; }
  const std::vector<Edge*>& edges_of(size_t root) const { return roots_[root].sorted; }
  int32_t available() const { return pool_.capacity() - pages_used_ - reserved_; }
  int32_t pages_used() const { return pages_used_; }
  const Events& events() const { return events_; }
  int64_t tokens_of(int32_t space) const { return spaces_[static_cast<size_t>(space)].tokens; }

 private:
  struct Root {
    NodeId id = kNoNode;
    int32_t space = 0;
    std::vector<Edge*> sorted;  // by path
  };
  struct Space {
    int64_t tokens = 0, floor = 0, quota = 0;
    bool limited() const { return floor > 0 || quota > 0; }
  };
  struct Found {
    Edge* edge = nullptr;  // deepest one reached; nullptr: the root
    int32_t matched = 0;
    int32_t computed = 0;
  };
  struct Evicted {
    const Node* node;
    int32_t from;
  };
  using Key = std::pair<int64_t, int64_t>;

  static int32_t computed_before(const Edge* edge, int32_t position);
  Found find(size_t root, const Path& query) const;
  int32_t space_of(const Edge& e) const { return roots_[e.root].space; }
  const std::vector<int32_t>& numbers(const Path& tokens);

  Edge* new_edge(size_t root, Path path, int32_t start, Edge* parent);
  void saw(Event event) { ++events_.counts[event]; }
  void borrow(Edge* e);
  void bind(Edge* e, NodeId id);
  void count(const Edge& e, int sign);  // its tokens and pages
  void remove(Edge* e);
  Edge* split(Edge* e, int32_t length);
  void cut(Edge* e, int32_t length);
  void settle(Edge* e, bool keep);
  void stamp(Edge* e);
  // The end of an edge and that of a use, later ones greater.
  static int64_t end_of(const Edge& e);
  static bool grows(const Sequence& s);
  static int64_t end_of(int64_t expires_ms);
  static bool ends_before(const Edge& e, int64_t expires_ms) {
    return end_of(e) < end_of(expires_ms);
  }
  static void live_until(Edge* e, int64_t expires_ms);
  void use_path(Edge* e, const AttachOptions& use);

  Key key(const Edge& e) const;
  bool can_go(const Edge& e) const { return e.children == 0 && e.locks == 0 && &e != in_use_; }
  // Tokens that go with the last `pages` pages of an edge, or with all of it.
  static int32_t gone(const Edge& e, int32_t pages);
  // Whether others may take that much of it: its space must not fall below its floor.
  bool above_floor(const Edge& e, int32_t pages) const;
  // The smallest key of those that can go; in a space, or (kAll) anywhere. In a space with a floor
  // only the first one is asked for; if equal keys leave open which that is, the space is left out.
  const Edge* first_of(int32_t space) const;
  void demand_first(const Edge& e, int32_t space) const;
  int64_t held_tokens();  // what lies on the way to somebody's lock, or to in_use_
  Edge* next_evicted();
  void repeat_eviction(int32_t pages, int32_t space);
  bool repeat_make_room(int32_t pages, int32_t space = kAll);
  bool repeat_make_room_in(int32_t space, int64_t tokens);
  int64_t repeat_drop(size_t root, const Edge* top);
  void all_repeated();
  void check_edge(const Edge& e);

  PagePool pool_;
  Tree tree_;
  Policy policy_;
  std::vector<Root> roots_;
  Space spaces_[kSpaces];
  std::vector<Edge*> edges_;  // in any order
  std::vector<std::unique_ptr<Edge>> memory_;
  std::vector<Edge*> unused_;
  std::vector<Sequence> live_;
  Edge* in_use_ = nullptr;  // locked while room is made for a new sequence
  int32_t pages_used_ = 0;
  int32_t reserved_ = 0;
  int64_t tokens_ = 0;
  int64_t tick_ = 0;
  int64_t evictions_ = 0;
  int64_t evicted_tokens_ = 0;
  int64_t mark_ = 0;
  float scored_ = 0;
  Events events_;
  std::vector<Evicted> log_;  // what the tree evicted in this operation
  size_t repeated_ = 0;       // how many of them the model has repeated
  std::vector<int32_t> numbers_;
};

}  // namespace prefix::testing_support
