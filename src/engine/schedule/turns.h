// Whose prompts get the rows of steps: jobs of equal priority take turns.
//
//   turn       0        1        2          a job's turn ends when its prompts have had the rows
//   A  long   ████████ ████████ ████        of a step
//   B  new             ▲ begins here        with the turn that others have when it comes
//
// So a new job goes before those that had more; that new ones do not hold these up for ever, each
// round of turns raises the turn that they begin with, too.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/schedule/sequence.h"

namespace prefix {

// Jobs that divide the rows of a step. With more of them each would get on so slowly that all were
// done at the end only, and no tile of a product were full.
inline constexpr size_t kJobsAtOnce = 8;

class Turns {
 public:
  explicit Turns(int32_t rows_of_a_step) : rows_of_a_step_(rows_of_a_step) {}

  // That a job begins with, which comes now.
  int64_t now() const { return now_; }
  // Nobody who has prompts is further back.
  void raise(int64_t turn) { now_ = std::max(now_, turn); }
  // A step computes rows of its prompts.
  void count(JobState& job, int32_t rows) {
    job.turn_rows += rows;
    job.turn += job.turn_rows / rows_of_a_step_;
    job.turn_rows %= rows_of_a_step_;
    const int64_t rows_of_a_round = rows_of_a_step_ * static_cast<int64_t>(kJobsAtOnce);
    rows_ += rows;
    now_ += rows_ / rows_of_a_round;
    rows_ %= rows_of_a_round;
  }

 private:
  int64_t rows_of_a_step_;
  int64_t now_ = 0;
  int64_t rows_ = 0;  // of all prompts, since it was raised for them
};

}  // namespace prefix
