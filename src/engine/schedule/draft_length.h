// How many tokens a generation guesses in a step, by the success of its guesses so far.
//
//   guessed     4  8 16 32 32 18 11  5  2  1 . 1 . . . 1 . . . . . . . 1
//   accepted    4  8 16 32  4  4  0  0  0  0   0       0               0
//
// A wrong guess costs a row, up to half a step on some processors, a right one saves a step. So it
// doubles while all are right and shrinks towards what was right; where not even single tokens are,
// steps without a guess come between, more each time.
#pragma once

#include <algorithm>
#include <cstdint>

namespace prefix {

class DraftLength {
 public:
  // Of a draft of the next step; 0: it has none.
  int32_t next() {
    if (paused_ == 0) return length_;
    --paused_;
    return 0;
  }
  // Of `guessed` > 0 tokens, which may be fewer than next() said, so many were right.
  void settle(int32_t guessed, int32_t accepted, int32_t limit) {
    if (accepted > 0)
      pause_ = 0;
    else if (length_ == 1)
      paused_ = pause_ = std::min(2 * pause_ + 1, kLongestPause);
    if (accepted < guessed)
      length_ = std::max(1, (length_ + accepted) / 2);
    else if (guessed == length_)
      length_ = std::min(2 * length_, limit);
  }

 private:
  static constexpr int32_t kLongestPause = 15;

  int32_t length_ = 4;
  int32_t pause_ = 0;   // steps without a draft, the last time
  int32_t paused_ = 0;  // of these, those to come
};

}  // namespace prefix
