// States of recurrent layers for the scheduler: from which state each sequence continues, and which
// states a step stores. Keys and values alone do not let a hybrid model go on; a state does.
//
//   path     root ─────── A ─────────────── B ────── length
//                         └ kept, from the   └ stored by the last step, only
//                           cache              as long as a sequence needs it
//   sequence                                 ^ resume: rows from here on, in one step or more
//
//   after a step a state is stored     kept in the cache
//     where a sequence was cut           no, it moves along
//     where paths part (cuts)            yes: who shares the path continues there
//     before the last prompt token       yes: the same prompt, or one that goes on, continues there
//     behind a generation                yes, and it is the sequence's own while it decodes
//     where the caller says so, or       yes, if the request does not begin behind it
//       the ghosts (policy_ghosts.h)
//
// Every state but a decoding sequence's own may be lost: what needs it begins at one before it, in
// the end at the beginning of the text, so lack of memory costs time and nothing else. One state's
// pages are set aside, and sequences take those of others behind them, so that the first one always
// comes further.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "engine/schedule/sequence.h"
#include "ops/scan_plan.h"
#include "plan/step.h"
#include "tree/tree.h"

namespace prefix {

class States {
 public:
  using Running = std::list<std::unique_ptr<RunningRequest>>;

  // state_pages: of a state; 0: the model has no recurrent layers, and nothing here does anything.
  // path_states: that stay in the cache on a path; 0: no limit.
  States(Tree& tree, PagePool& pages, StepBuilder& builder, int32_t state_pages,
         int32_t path_states);

  bool on() const { return state_pages_ > 0; }
  int32_t pages() const { return state_pages_; }

  // A sequence of this request was attached: where states of it should stay in the cache (keep),
  // also where the caller asked for them and where they were placed, and the pages of its own state
  // are set aside if it will decode. `match`: what the tree had of it. Throws kCacheFull.
  void admit(Sequence& s, const RequestSpec& spec, const Match& match,
             std::span<const int64_t> placed, bool keep);
  // Before a step is filled: each sequence continues from the best state on its path.
  void resume(const Running& running);
  // Before and after the step is laid out.
  void begin(const Running& running);
  void plan(const Running& running, StepPlan& step);
  // The step succeeded, and its tokens are committed; or it did not.
  void commit(const Running& running);
  void abort(const Running& running);
  // Before a sequence unlocks its path.
  void release(Sequence& s, bool keep);

 private:
  // A state that the step stores for the tree.
  struct Capture {
    NodeId node;  // holds the token before `position`
    int32_t position;
    std::vector<int32_t> pages;
    bool keep;
    bool asked;  // by the caller, just here
  };

  NodeId computed_end(NodeId id, int32_t length);
  int32_t name_space_of(const Sequence& s) const { return tree_.name_space(tree_.node(s.node)); }
  bool capture(Sequence& s, int32_t position, bool keep, StepPlan& step);
  bool may_keep();
  std::vector<int32_t> pages_to_store(Sequence& s, bool keep);
  NodeId writable_by(const Sequence& s) const;
  std::vector<int32_t> take_from(NodeId node);
  void resume(Sequence& s);
  void leave(Sequence& s);
  void refill_reserve();
  void thin(NodeId node);

  Tree& tree_;
  PagePool& pages_;
  StepBuilder& builder_;
  int32_t state_pages_;
  int32_t path_states_;
  bool reserve_used_ = false;
  std::vector<Capture> captures_;
  const Running* running_ = nullptr;  // of plan()
};

}  // namespace prefix
