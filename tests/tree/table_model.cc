#include "tree/table_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>

namespace prefix::table_model {
namespace {

uint64_t below(std::mt19937& random, uint64_t n) { return random() % n; }

// The text of a value has one length, which follows from its number.
int32_t length_of(int64_t value, int32_t mean) {
  const auto mixed = static_cast<uint64_t>(value) * 0x9e3779b97f4a7c15U >> 40;
  return std::max(1, static_cast<int32_t>(mixed % static_cast<uint64_t>(2 * mean)));
}

// How a column of a shape gets its values.
struct Column {
  enum Kind { kDrawn, kUnique, kOf } kind;
  int64_t distinct;  // kDrawn: so many, the first ones far more often; kOf: values per entity
  int32_t length;    // mean
  int32_t of = 0;    // kOf: the column that decides
};

Cells shape(const char* name, size_t rows, const std::vector<Column>& columns, unsigned seed) {
  Cells cells;
  cells.name = name;
  cells.columns = static_cast<int32_t>(columns.size());
  std::mt19937 random(seed);
  for (size_t r = 0; r < rows; ++r) {
    const size_t row = cells.values.size();
    for (size_t c = 0; c < columns.size(); ++c) {
      const Column& column = columns[c];
      int64_t value = static_cast<int64_t>(r);
      if (column.kind == Column::kDrawn) {
        const double u = static_cast<double>(below(random, 1U << 24)) / (1U << 24);
        value = static_cast<int64_t>(std::pow(u, 1.5) * static_cast<double>(column.distinct));
      } else if (column.kind == Column::kOf) {
        const int64_t entity = cells.values[row + static_cast<size_t>(column.of)];
        value = column.distinct > 0 ? entity * 7919 % column.distinct : entity;
      }
      cells.values.push_back(value);
      cells.lengths.push_back(length_of(value + static_cast<int64_t>(c) * 1000003, column.length));
    }
  }
  for (size_t c = 0; c < columns.size(); ++c) {
    std::vector<int32_t> group = {static_cast<int32_t>(c)};
    for (size_t d = 0; d < columns.size(); ++d)
      if (columns[d].kind == Column::kOf && columns[d].distinct == 0 &&
          columns[d].of == static_cast<int32_t>(c))
        group.push_back(static_cast<int32_t>(d));
    if (group.size() > 1) cells.alike.push_back(group);
  }
  return cells;
}

class Recursion {
 public:
  Recursion(const Cells& cells, bool stops) : cells_(cells), stops_(stops) {
    const auto width = static_cast<size_t>(cells.columns);
    with_.resize(width);
    for (const std::vector<int32_t>& group : cells.alike)
      for (const int32_t c : group)
        for (const int32_t other : group)
          if (other != c) with_[static_cast<size_t>(c)].push_back(other);
  }

  Order run() {
    std::vector<size_t> rows(cells_.rows());
    std::iota(rows.begin(), rows.end(), size_t{0});
    std::vector<int32_t> columns(static_cast<size_t>(cells_.columns));
    std::iota(columns.begin(), columns.end(), 0);
    visit(std::move(rows), columns, {}, 0, 0);
    return std::move(out_);
  }

 private:
  static bool has(const std::vector<int32_t>& list, int32_t c) {
    return std::find(list.begin(), list.end(), c) != list.end();
  }

  void emit(size_t row, const std::vector<int32_t>& path, const std::vector<int32_t>& rest) {
    out_.rows.push_back(static_cast<int64_t>(row));
    out_.columns.insert(out_.columns.end(), path.begin(), path.end());
    out_.columns.insert(out_.columns.end(), rest.begin(), rest.end());
  }

  // One order of columns for all: those that are long and repeat first.
  void by_statistics(std::vector<size_t> rows, std::vector<int32_t> columns,
                     const std::vector<int32_t>& path) {
    std::map<int32_t, double> score;
    for (const int32_t c : columns) {
      std::map<int64_t, int64_t> counts;
      double squares = 0;
      for (const size_t r : rows) {
        ++counts[cells_.value(r, c)];
        squares += std::pow(static_cast<double>(cells_.length(r, c)), 2);
      }
      const double repeated = static_cast<double>(rows.size() - counts.size());
      score[c] = squares / static_cast<double>(rows.size()) * repeated;
    }
    std::stable_sort(columns.begin(), columns.end(),
                     [&](int32_t a, int32_t b) { return score[a] > score[b]; });
    std::stable_sort(rows.begin(), rows.end(), [&](size_t a, size_t b) {
      for (const int32_t c : columns)
        if (cells_.value(a, c) != cells_.value(b, c))
          return cells_.value(a, c) < cells_.value(b, c);
      return false;
    });
    for (const size_t r : rows) emit(r, path, columns);
  }

  void visit(std::vector<size_t> rows, const std::vector<int32_t>& columns,
             const std::vector<int32_t>& path, int row_depth, int column_depth) {
    while (!rows.empty()) {
      if (rows.size() == 1 || columns.size() <= 1 ||
          (stops_ && (row_depth >= 4 || column_depth >= 2)))
        return by_statistics(std::move(rows), columns, path);
      double most = 0;
      int32_t best = -1;
      int64_t best_value = 0;
      for (const int32_t c : columns) {
        std::map<int64_t, std::pair<double, int64_t>> groups;  // length, rows
        for (const size_t r : rows) {
          auto& [length, count] = groups[cells_.value(r, c)];
          if (count++ > 0) continue;
          length = std::pow(static_cast<double>(cells_.length(r, c)), 2);
          for (const int32_t other : with_[static_cast<size_t>(c)])
            if (has(columns, other))
              length += std::pow(static_cast<double>(cells_.length(r, other)), 2);
        }
        for (const auto& [value, group] : groups) {
          const double score = group.first * static_cast<double>(group.second - 1);
          if (score > most) {
            most = score;
            best = c;
            best_value = value;
          }
        }
      }
      if (best < 0) return by_statistics(std::move(rows), columns, path);
      std::vector<size_t> in;
      std::erase_if(rows, [&](size_t r) {
        if (cells_.value(r, best) != best_value) return false;
        in.push_back(r);
        return true;
      });
      std::vector<int32_t> deeper = path, rest;
      deeper.push_back(best);
      for (const int32_t c : with_[static_cast<size_t>(best)])
        if (has(columns, c)) deeper.push_back(c);
      for (const int32_t c : columns)
        if (!has(deeper, c)) rest.push_back(c);
      visit(std::move(in), rest, deeper, row_depth, column_depth + 1);
      ++row_depth;
    }
  }

  const Cells& cells_;
  const bool stops_;
  std::vector<std::vector<int32_t>> with_;
  Order out_;
};

}  // namespace

int64_t Cells::tokens() const {
  return std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
}

int64_t hits(const Cells& cells, const Order& order) {
  int64_t sum = 0;
  const auto width = static_cast<size_t>(cells.columns);
  for (size_t k = 1; k < order.rows.size(); ++k) {
    const auto row = static_cast<size_t>(order.rows[k]),
               before = static_cast<size_t>(order.rows[k - 1]);
    for (size_t i = 0; i < width; ++i) {
      const int32_t c = order.columns[k * width + i];
      if (order.columns[(k - 1) * width + i] != c || cells.value(row, c) != cells.value(before, c))
        break;
      sum += cells.length(row, c);
    }
  }
  return sum;
}

int64_t best_hits(const Cells& cells) {
  const size_t n = cells.rows();
  std::vector<int64_t> best(size_t{1} << n);
  for (size_t set = 1; set < best.size(); ++set) {
    const auto first = static_cast<size_t>(std::countr_zero(set));
    const size_t rest = set & (set - 1);
    if (rest == 0) continue;
    int64_t common = 0;
    for (int32_t c = 0; c < cells.columns; ++c) {
      bool alike = true;
      for (size_t r = 0; r < n; ++r)
        alike = alike && ((set >> r & 1) == 0 || cells.value(r, c) == cells.value(first, c));
      if (alike) common += cells.length(first, c);
    }
    int64_t most = 0;
    for (size_t half = (rest - 1) & rest;; half = (half - 1) & rest) {
      most = std::max(most, best[set ^ rest ^ half] + best[rest ^ half]);
      if (half == 0) break;
    }
    best[set] = most + common;
  }
  return best.back();
}

Order greedy_group_recursion(const Cells& cells, bool stops) {
  return Recursion(cells, stops).run();
}

std::vector<Cells> paper_shapes(double share) {
  constexpr auto kDrawn = Column::kDrawn;
  constexpr auto kUnique = Column::kUnique;
  constexpr auto kOf = Column::kOf;
  const auto part = [&](double n) { return std::max<int64_t>(2, static_cast<int64_t>(n * share)); };
  const auto rows = [&](double n) { return static_cast<size_t>(part(n)); };
  std::vector<Cells> list;
  // Reviews of films; link, title and description belong to the film.
  list.push_back(shape("movies", rows(15000),
                       {{kUnique, 0, 40},
                        {kDrawn, part(1200), 12},
                        {kOf, 0, 8, 1},
                        {kOf, 0, 120, 1},
                        {kOf, 300, 8, 1},
                        {kOf, 60, 6, 1},
                        {kDrawn, 2, 3},
                        {kDrawn, 2, 3}},
                       1));
  list.push_back(shape("products", rows(14890),
                       {{kUnique, 0, 60},
                        {kUnique, 0, 10},
                        {kDrawn, part(1500), 8},
                        {kOf, 0, 20, 2},
                        {kOf, 0, 150, 2},
                        {kDrawn, 5, 2},
                        {kDrawn, 2, 2},
                        {kUnique, 0, 8}},
                       2));
  // Comments on posts: the post with its text is repeated.
  list.push_back(
      shape("bird", rows(14920),
            {{kUnique, 0, 40}, {kDrawn, part(1500), 200}, {kOf, 0, 6, 1}, {kUnique, 0, 12}}, 3));
  // 57 fields of pieces of music: most are flags and small numbers, some are names.
  std::vector<Column> pieces = {{kUnique, 0, 30}, {kUnique, 0, 30}, {kDrawn, part(2500), 8},
                                {kOf, 0, 8, 2},   {kOf, 40, 6, 2},  {kDrawn, part(900), 20}};
  while (pieces.size() < 57)
    pieces.push_back({kDrawn, 2 + static_cast<int64_t>(pieces.size() % 9) * 3, 4});
  for (size_t c = 40; c < 50; ++c) pieces[c] = {kDrawn, part(6000), 5};
  list.push_back(shape("pdmx", rows(10000), pieces, 4));
  list.push_back(shape("beer", rows(28479),
                       {{kDrawn, part(1700), 6},
                        {kOf, 0, 10, 0},
                        {kOf, 90, 8, 0},
                        {kDrawn, 9, 4},
                        {kDrawn, 9, 4},
                        {kDrawn, 9, 4},
                        {kDrawn, part(4000), 6},
                        {kUnique, 0, 8}},
                       5));
  // A claim or a question with four passages that were found for it.
  list.push_back(shape("fever", rows(19929),
                       {{kUnique, 0, 12},
                        {kDrawn, part(2500), 180},
                        {kDrawn, part(5000), 180},
                        {kDrawn, part(7000), 180},
                        {kDrawn, part(9000), 180}},
                       6));
  list.push_back(shape("squad", rows(22665),
                       {{kUnique, 0, 15},
                        {kDrawn, part(4000), 200},
                        {kDrawn, part(5000), 200},
                        {kDrawn, part(6000), 200},
                        {kDrawn, part(6500), 200}},
                       7));
  return list;
}

Cells random_cells(std::mt19937& random, size_t rows, int32_t columns, int64_t most,
                   int32_t longest) {
  Cells cells;
  cells.columns = columns;
  std::map<std::pair<int32_t, int64_t>, int32_t> lengths;
  for (size_t i = 0; i < rows * static_cast<size_t>(columns); ++i) {
    const auto c = static_cast<int32_t>(i % static_cast<size_t>(columns));
    const auto value = static_cast<int64_t>(below(random, static_cast<uint64_t>(most))) * 1000003;
    const auto [it, is_new] = lengths.emplace(std::pair(c, value), 0);
    if (is_new)
      it->second = 1 + static_cast<int32_t>(below(random, static_cast<uint64_t>(longest)));
    cells.values.push_back(value);
    cells.lengths.push_back(it->second);
  }
  return cells;
}

}  // namespace prefix::table_model
