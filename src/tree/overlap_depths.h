// Where the next request that begins like this one will diverge from it, judged by those before:
// states are placed where they save the most. After Sparse Prefix Caching (arXiv 2605.05219): an
// exact dynamic program over the distribution of overlap depths.
//
//   prompt                          answer
//   ├───────────────────────────────┤────────────┤
//                      ▲  ▲▲ ▲      0             where others diverged, counted from the end of
//                      │  └┴─┴ reuse up to here   the prompt
//                      a state here serves all of them
//
// Depths are counted from the end of the prompt: questions about a document diverge shortly before
// it, and with a template that drops what a model has thought it is exactly there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace prefix {

class OverlapDepths {
 public:
  // A request diverged from the path of another, this many tokens after the end of its prompt
  // (below 0: before it).
  void add_fork(int64_t offset) { add({offset, false}); }
  // It went on from its last token.
  void add_whole() { add({0, true}); }

  // Positions in (begin, end) for at most `states` states of a sequence whose prompt ends at
  // `prompt`, ascending: those with which a later request can be expected to reuse the most, begin
  // and end having states. One is worth it if it adds at least `gain` tokens to the expectation.
  std::vector<int64_t> place(int64_t begin, int64_t prompt, int64_t end, int64_t states,
                             double gain) const;

 private:
  static constexpr size_t kKept = 512;  // requests that the distribution is made of
  struct Sample {
    int64_t offset;
    bool whole;
  };
  void add(const Sample& sample) {
    samples_.push_back(sample);
    if (samples_.size() > kKept) samples_.pop_front();
  }

  std::deque<Sample> samples_;
};

}  // namespace prefix
