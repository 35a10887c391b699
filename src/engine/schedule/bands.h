// Bands: how a sequence runs through less memory than its path takes,
// in a model all of whose layers of attention have a window.
//
//   path   0 ───────────── seen ─────── next ─────────── end ───────────── length
//            given back     \_ its window _/\_ next step _/   not computed yet
//                           \________ the band: frames ___/
//
// A request is admitted with all pages of its path where these fit: they stay in the cache, and
// later requests may branch off anywhere. Where they do not fit, its sequences get a band each, of
// as many frames as its window and a step need, and their paths slide through them: pages ahead are
// hollow, and those behind the window are given back after every step (page_pool.h).
//
// Two sequences with bands may share a part of their paths. A page of it is kept while one of them
// needs it. Each needs no more pages than its band has frames, so the bands together have enough
// for all, whichever sequence a frame was taken for. What a sequence without a band needs of
// such a part is taken out of the bands when it is admitted (AttachOptions::reads_from). Rows
// that one has to read again keep all pages behind them, however far others have got: these wait
// then, until it has.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "engine/schedule/sequence.h"
#include "tree/tree.h"

namespace prefix {

class Bands {
 public:
  using Running = std::list<std::unique_ptr<RunningRequest>>;

  Bands(Tree& tree, PagePool& pages, int32_t row_budget);

  // The fewest frames that let a path of any length run: those of its window, of the next token,
  // and of the page that its branch copies from. The pages of a shorter one are fewer.
  int32_t least() const { return window_pages_ + 2; }
  // A path of so many tokens takes more pages than a band.
  bool help(int32_t tokens) const {
    return tree_.window() > 0 && pages_between(0, tokens) > least();
  }
  // A sequence was attached, and will have at most `tokens`: sets frames aside for it. Throws
  // kCacheFull.
  void admit(Sequence& s, int32_t tokens, int32_t name_space);
  // Gives frames to the pages that the sequence may compute next. Returns how many tokens of its
  // path have some then: not the next one when it has to wait.
  int32_t fill(const Sequence& s);
  // After a step: frames of pages behind the windows are free for pages ahead.
  void give_back(const Running& running);
  // The sequence is about to end. What others do not need of its pages counts for the cache.
  void release(Sequence& s, const Running& running);

 private:
  // A sequence that shares the first tokens of a path.
  struct Sharer {
    NodeId node;
    int32_t length;
    int32_t common;
    int32_t next;  // row
  };
  int32_t next_row(const Sequence& s) const;
  // The first position that the sequence still reads. A token more than its window:
  // the last row may be computed once more.
  int32_t seen(int32_t next) const { return std::max(0, next - tree_.window()); }
  // Positions of pages that have no frames any more.
  struct Hollow {
    int32_t begin = INT32_MAX;
    int32_t end = 0;
  };
  void make_hollow(const Tree::SlidingPage& page, Hollow& hollow);
  const std::vector<Sharer>& sharers(const Sequence& s, const Running& running);
  bool reads(const Tree::SlidingPage& page, const Sharer& sharer) const;
  bool is_read(const Tree::SlidingPage& page, const std::vector<Sharer>& sharers) const;

  Tree& tree_;
  PagePool& pages_;
  int32_t window_pages_;  // that a window and one token touch at most
  int32_t step_pages_;
  size_t bands_ = 0;             // that sequences have
  std::vector<Sharer> sharers_;  // scratch, with room for all of them: release() takes no memory
};

}  // namespace prefix
