// The mean of a path's rows, which has the same bits however they come: they are added in the order
// of their positions, in double precision.
//
//   steps      [0 .. 7]  [8 .. 15]   [20 .. 23]   [16 .. 19]
//   sum          0..7      0..15       0..15         0..23
//   early                             20..23            -       came before their turn
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace prefix {

class RowSum {
 public:
  // Takes a copy of a row whose turn has not come. May throw bad_alloc; so may begin().
  void keep(int32_t position, std::span<const float> row) {
    early_.emplace(position, std::vector<float>(row.begin(), row.end()));
  }
  void begin(size_t values) { sum_.resize(values); }
  // The next position whose row is to be added.
  int32_t next() const { return next_; }
  // The next one when those that were kept have followed it.
  int32_t next_after(int32_t position) const {
    do ++position;
    while (early_.contains(position));
    return position;
  }
  // Adds the row of next(), and those that were kept for behind it. Takes no memory.
  void add(std::span<const float> row) {
    add_one(row);
    for (auto kept = early_.find(next_); kept != early_.end(); kept = early_.find(next_)) {
      add_one(kept->second);
      early_.erase(kept);
    }
  }
  std::vector<float> mean() const {
    std::vector<float> out(sum_.size());
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(sum_[i] / next_);
    return out;
  }

 private:
  void add_one(std::span<const float> row) {
    for (size_t i = 0; i < sum_.size(); ++i) sum_[i] += double{row[i]};
    ++next_;
  }

  std::vector<double> sum_;
  int32_t next_ = 0;
  std::map<int32_t, std::vector<float>> early_;
};

}  // namespace prefix
