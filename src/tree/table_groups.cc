#include "tree/table_groups.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace prefix {
namespace {

using Rows = std::vector<uint32_t>;
using Columns = std::vector<int32_t>;

class Grouping {
 public:
  Grouping(const NumberedTable& table, GroupScore score, size_t looks)
      : t_(table), score_(score), looks_left_(looks) {
    rows_.reserve(t_.rows);
    columns_.reserve(t_.cells.size());
    counts_.resize(static_cast<size_t>(t_.columns));
    for (size_t c = 0; c < counts_.size(); ++c) counts_[c].resize(t_.lengths[c].size());
    number_ = counts_;
    taken_.resize(t_.rows);
    active_.resize(counts_.size());
    in_path_.resize(counts_.size());
  }

  void run() {
    Rows rows(t_.rows);
    std::iota(rows.begin(), rows.end(), 0U);
    Columns columns(counts_.size());
    std::iota(columns.begin(), columns.end(), 0);
    order(std::move(rows), std::move(columns));
  }

  RowOrder result() { return {std::move(rows_), std::move(columns_)}; }

 private:
  struct Group {
    double score;
    double length;      // what each row after the first saves
    size_t begin, end;  // its rows in `members`, with those that other groups took meanwhile
    uint32_t count;     // of rows when it was scored; there may be fewer by now
    int32_t column;
    uint32_t value;

    bool operator<(const Group& o) const {
      if (score != o.score) return score < o.score;
      return column != o.column ? column > o.column : value > o.value;
    }
  };
  struct Child {
    Rows rows;
    int32_t column;
  };

  uint32_t& count(int32_t column, uint32_t row) {
    return counts_[static_cast<size_t>(column)][t_.row(row)[column]];
  }

  // Rows that are being ordered, by groups that are ordered before those that are in none.
  struct Level {
    Rows rows;  // of no group
    Columns columns;
    size_t depth;  // of path_ before it
    std::vector<Child> groups;
    size_t next = 0;  // of these
  };

  // Appends these rows, whose prompts begin with the columns of path_. Only `columns` may
  // have values that some of them share. There may be as many levels as rows, which no stack
  // of a thread holds.
  void order(Rows rows, Columns columns) {
    std::vector<Level> levels;
    levels.push_back(level_of(std::move(rows), std::move(columns), path_.size()));
    while (!levels.empty()) {
      Level& level = levels.back();
      if (level.next < level.groups.size()) {
        Child& child = level.groups[level.next++];
        const size_t depth = path_.size();
        push(child.column);
        Columns others;
        for (const int32_t c : level.columns)
          if (c != child.column) others.push_back(c);
        levels.push_back(level_of(std::move(child.rows), std::move(others), depth));
        continue;
      }
      for (const uint32_t r : level.rows) emit(r);
      while (path_.size() > level.depth) pop();
      levels.pop_back();
    }
  }

  Level level_of(Rows rows, Columns columns, size_t depth) {
    take_common(rows, columns);
    std::vector<Child> groups;
    const size_t looks = rows.size() * columns.size();
    if (rows.size() > 2 && !columns.empty() && looks <= looks_left_) {
      looks_left_ -= looks;
      groups = split(rows, columns);
    }
    return {std::move(rows), std::move(columns), depth, std::move(groups)};
  }

  void push(int32_t column) {
    path_.push_back(column);
    in_path_[static_cast<size_t>(column)] = true;
  }
  void pop() {
    in_path_[static_cast<size_t>(path_.back())] = false;
    path_.pop_back();
  }

  void emit(uint32_t row) {
    rows_.push_back(row);
    columns_.insert(columns_.end(), path_.begin(), path_.end());
    for (int32_t c = 0; c < t_.columns; ++c)
      if (!in_path_[static_cast<size_t>(c)]) columns_.push_back(c);
  }

  // Puts columns in front in which all rows are alike.
  void take_common(const Rows& rows, Columns& columns) {
    std::erase_if(columns, [&](int32_t c) {
      const uint32_t value = t_.row(rows.front())[c];
      const auto same = [&](uint32_t r) { return t_.row(r)[c] == value; };
      if (rows.size() > 1 && !std::all_of(rows.begin(), rows.end(), same)) return false;
      push(c);
      return true;
    });
  }

  double score(double length, uint32_t n) const {
    return score_ == GroupScore::kPerRow ? length * (n - 1.0) / n : length * std::log2(n);
  }

  // What a row saves whose values in this column, and in those that it determines,
  // are already there.
  double length_of(int32_t column, uint32_t row) const {
    auto length = static_cast<double>(t_.length(column, row));
    for (const int32_t c : t_.followers[static_cast<size_t>(column)])
      if (active_[static_cast<size_t>(c)]) length += static_cast<double>(t_.length(c, row));
    return length;
  }

  // Appends the groups of one column with at least two rows, their rows to `members`.
  // False: there are none.
  bool find_groups(const Rows& rows, int32_t column, std::vector<Group>& groups, Rows& members) {
    const size_t first = groups.size();
    for (const uint32_t r : rows) ++count(column, r);
    std::vector<uint32_t>& number = number_[static_cast<size_t>(column)];
    size_t at = members.size();
    for (const uint32_t r : rows) {
      const uint32_t value = t_.row(r)[column];
      const uint32_t n = count(column, r);
      if (n < 2 || number[value] > 0) continue;
      const double length = length_of(column, r);
      groups.push_back({score(length, n), length, at, at, n, column, value});
      number[value] = static_cast<uint32_t>(groups.size() - first);
      at += n;
    }
    members.resize(at);
    for (const uint32_t r : rows)
      if (const uint32_t g = number[t_.row(r)[column]]) members[groups[first + g - 1].end++] = r;
    for (size_t g = first; g < groups.size(); ++g) number[groups[g].value] = 0;
    if (groups.size() > first) return true;
    for (const uint32_t r : rows) --count(column, r);
    return false;
  }

  // Takes groups out of `rows` until none is left, the best first. Columns without
  // groups are dropped: those below have none either.
  std::vector<Child> split(Rows& rows, Columns& columns) {
    for (const int32_t c : columns) active_[static_cast<size_t>(c)] = true;
    std::vector<Group> groups;
    Rows members;
    std::erase_if(columns, [&](int32_t c) { return !find_groups(rows, c, groups, members); });
    std::vector<Child> children;
    std::make_heap(groups.begin(), groups.end());
    while (!groups.empty()) {
      std::pop_heap(groups.begin(), groups.end());
      Group& best = groups.back();
      const uint32_t left = counts_[static_cast<size_t>(best.column)][best.value];
      if (left < best.count) {  // others took rows of it: back to where it belongs now
        best.count = left;
        best.score = score(best.length, left);
        if (left < 2)
          groups.pop_back();
        else
          std::push_heap(groups.begin(), groups.end());
        continue;
      }
      Child child{{}, best.column};
      child.rows.reserve(left);
      for (size_t i = best.begin; i < best.end; ++i)
        if (!taken_[members[i]]) child.rows.push_back(members[i]);
      groups.pop_back();
      for (const uint32_t r : child.rows) take(r, columns);
      children.push_back(std::move(child));
    }
    std::erase_if(rows, [&](uint32_t r) { return taken_[r]; });
    for (const uint32_t r : rows) take(r, columns);
    for (const Child& child : children)
      for (const uint32_t r : child.rows) taken_[r] = false;
    for (const uint32_t r : rows) taken_[r] = false;
    std::fill(active_.begin(), active_.end(), false);
    return children;
  }

  void take(uint32_t row, const Columns& columns) {
    taken_[row] = true;
    for (const int32_t c : columns) --count(c, row);
  }

  const NumberedTable& t_;
  const GroupScore score_;
  size_t looks_left_;
  Rows rows_;
  Columns columns_, path_;
  std::vector<std::vector<uint32_t>> counts_;  // [column][value]: rows not taken; 0 between splits
  std::vector<std::vector<uint32_t>> number_;  // [column][value]: of its group while they are found
  std::vector<uint8_t> taken_;                 // [row]: by a group of the split that goes on
  std::vector<uint8_t> active_, in_path_;      // [column]
};

}  // namespace

RowOrder order_by_groups(const NumberedTable& table, GroupScore score, size_t looks) {
  Grouping grouping(table, score, looks);
  grouping.run();
  return grouping.result();
}

}  // namespace prefix
