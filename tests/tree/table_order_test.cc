// Orders of tables: that they are orders, what they hit against the best there is and against the
// paper's algorithm, and that they are the same every time.
#include "tree/table_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string_view>

#include "base/status.h"
#include "tree/table_groups.h"
#include "tree/table_model.h"

namespace prefix {
namespace {

using table_model::Cells;
using table_model::Order;

// Every row once, every column once in each, and the figures as counted here.
TableOrder checked(const Cells& cells) {
  TableOrder found = order_table(cells.values, cells.lengths, cells.columns);
  std::vector<uint32_t> rows = found.rows;
  std::sort(rows.begin(), rows.end());
  std::vector<uint32_t> all(cells.rows());
  std::iota(all.begin(), all.end(), 0U);
  EXPECT_EQ(rows, all);
  EXPECT_EQ(found.columns.size(), cells.values.size());
  std::vector<int32_t> each(static_cast<size_t>(cells.columns));
  std::iota(each.begin(), each.end(), 0);
  Order given;
  for (size_t k = 0; k < found.rows.size(); ++k) {
    const auto begin = found.columns.begin() + static_cast<std::ptrdiff_t>(k * each.size());
    std::vector<int32_t> columns(begin, begin + cells.columns);
    std::sort(columns.begin(), columns.end());
    EXPECT_EQ(columns, each) << "prompt " << k;
    given.rows.push_back(static_cast<int64_t>(k));
    given.columns.insert(given.columns.end(), each.begin(), each.end());
  }
  const Order order{{found.rows.begin(), found.rows.end()}, found.columns};
  EXPECT_EQ(found.hit, table_model::hits(cells, order));
  EXPECT_EQ(found.hit_before, table_model::hits(cells, given));
  EXPECT_EQ(found.tokens, cells.tokens());
  EXPECT_GE(found.hit, found.hit_before);
  return found;
}

TEST(TableOrder, Cases) {
  EXPECT_EQ(checked({"", 1, {5}, {3}, {}}).hit, 0) << "one row";
  EXPECT_EQ(checked({"", 2, {5, 6, 5, 6}, {3, 4, 3, 4}, {}}).hit, 7) << "equal rows";
  EXPECT_EQ(checked({"", 2, {5, 6, 7, 6}, {3, 4, 3, 4}, {}}).hit, 4) << "the second column first";
  EXPECT_EQ(checked({"", 2, {5, 6, 6, 5}, {3, 4, 4, 3}, {}}).hit, 0) << "of other columns";
  EXPECT_EQ(checked({"", 1, {5, 6, 5}, {3, 4, 3}, {}}).hit, 3);
  EXPECT_EQ(checked({"", 1, {5, 6, 5}, {0, 0, 0}, {}}).hit, 0) << "cells without text";
  EXPECT_EQ(checked({"", 1, {INT64_MIN, INT64_MAX, INT64_MIN}, {2, 1, 2}, {}}).hit, 2);
  const int32_t most = INT32_MAX;
  EXPECT_EQ(checked({"", 2, {1, 2, 1, 2, 1, 2}, {most, most, most, most, most, most}, {}}).hit,
            int64_t{4} * most);
}

// A row may share one column with some rows and another one with others.
TEST(TableOrder, AsTheDrawingSays) {
  const Cells cells{
      "", 3, {1, 10, 20, 2, 11, 21, 3, 10, 20, 1, 12, 20}, std::vector<int32_t>(12, 1), {}};
  EXPECT_EQ(checked(cells).hit, 3);
  EXPECT_EQ(table_model::best_hits(cells), 3);
}

TEST(TableOrder, ValueWithTwoLengthsIsRefused) {
  const std::vector<int64_t> values = {1, 2, 3, 2};
  const std::vector<int32_t> lengths = {1, 5, 1, 6};
  try {
    order_table(values, lengths, 2);
    FAIL() << "it was taken";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kInvalidArgument);
    EXPECT_EQ(
        e.message(),
        "row 1, column 1: value 2 has length 6, and 5 in a row before; a value of a column has "
        "one length");
  }
}

// Rows have the numbers that they came with, also where they are sorted first.
TEST(TableOrder, ARefusalNumbersRowsAsTheyWereGiven) {
  const std::vector<int64_t> values = {9, 2, 3, 2};
  const std::vector<int32_t> lengths = {1, 5, 1, 6};
  try {
    order_table(values, lengths, 2);
    FAIL() << "it was taken";
  } catch (const Error& e) {
    EXPECT_NE(std::string_view(e.message()).find("row 1, column 1: value 2 has length 6, and 5 in"),
              std::string_view::npos)
        << e.message();
  }
}

// Random tables have the least to go by: real ones are easier.
TEST(TableOrder, AlmostTheBestThereIs) {
  std::mt19937 random(3);
  int64_t found = 0, best = 0;
  for (int round = 0; round < 120; ++round) {
    const size_t rows = 3 + random() % (round % 8 == 0 ? 9 : 7);
    const auto columns = static_cast<int32_t>(2 + random() % 5);
    const Cells cells = table_model::random_cells(
        random, rows, columns, static_cast<int64_t>(2 + random() % rows), round % 2 == 0 ? 20 : 3);
    const int64_t hit = checked(cells).hit;
    const int64_t most = table_model::best_hits(cells);
    ASSERT_LE(hit, most);
    if (rows <= 8) {
      EXPECT_EQ(hit, most) << "up to eight rows nothing better is left";
    }
    found += hit;
    best += most;
  }
  EXPECT_GE(static_cast<double>(found), 0.99 * static_cast<double>(best))
      << found << " of " << best;
}

TEST(TableOrder, NotBelowGreedyGroupRecursion) {
  for (const double share : {0.02, 0.06}) {
    for (const Cells& cells : table_model::paper_shapes(share)) {
      const auto tokens = static_cast<double>(cells.tokens());
      const double hit = static_cast<double>(checked(cells).hit) / tokens;
      for (const bool stops : {true, false}) {
        if (!stops && share > 0.02) continue;  // it takes seconds
        const Order theirs = table_model::greedy_group_recursion(cells, stops);
        EXPECT_GE(hit, static_cast<double>(table_model::hits(cells, theirs)) / tokens - 0.005)
            << cells.name;
      }
    }
  }
}

// A short value of four rows saves more in all than a long one of two, and less for each row.
TEST(TableGroups, WhatARowSavesGoesFirst) {
  const std::vector<int64_t> values = {1, 7, 1, 2, 3, 7, 1, 4, 1, 5};
  const std::vector<int32_t> lengths = {4, 10, 4, 1, 1, 10, 4, 1, 4, 1};
  for (const GroupScore score : {GroupScore::kPerRow, GroupScore::kLogarithm}) {
    const RowOrder found = order_by_groups(number_table(values, lengths, 2), score, SIZE_MAX);
    EXPECT_EQ(found.rows, (std::vector<uint32_t>{0, 2, 1, 3, 4}));
    EXPECT_EQ(found.columns, (std::vector<int32_t>{1, 0, 1, 0, 0, 1, 0, 1, 0, 1}));
  }
}

// Of five rows and two columns the first level looks at ten cells;
// in its group, A=1, another three.
TEST(TableGroups, LevelsLookAtNoMoreCellsThanTheyMay) {
  const std::vector<int64_t> values = {1, 5, 2, 7, 1, 6, 1, 5, 3, 5};
  const NumberedTable t = number_table(values, std::vector<int32_t>(values.size(), 1), 2);
  const auto rows = [&](size_t looks) {
    return order_by_groups(t, GroupScore::kPerRow, looks).rows;
  };
  EXPECT_EQ(rows(13), (std::vector<uint32_t>{0, 3, 2, 1, 4}));
  EXPECT_EQ(rows(12), (std::vector<uint32_t>{0, 2, 3, 1, 4})) << "the group as it was given";
  EXPECT_EQ(rows(9), (std::vector<uint32_t>{0, 1, 2, 3, 4})) << "no group";
}

TEST(TableOrder, ManyColumnsAndManyRows) {
  std::mt19937 random(5);
  const std::pair<int, int32_t> sizes[] = {{20, 130}, {2, 64}, {9, 65}, {3000, 3}};
  for (const auto& [rows, columns] : sizes)
    checked(table_model::random_cells(random, static_cast<size_t>(rows), columns, 4, 9));
}

// Columns that are all alike determine each other: their pairs would take gigabytes.
TEST(TableOrder, FollowersOfAWideTableGoByItsCells) {
  const int32_t columns = 20000;
  const std::vector<int64_t> values(3 * size_t{columns}, 7);
  const std::vector<int32_t> lengths(values.size(), 1);
  for (const auto& followers : number_table(values, lengths, columns).followers)
    ASSERT_LT(followers.size(), 128U);
  EXPECT_EQ(order_table(values, lengths, columns).hit, 2 * columns);
}

// Of 64 columns and fewer every pair is looked at.
TEST(TableOrder, FollowersOfANarrowTableAreAllFound) {
  std::vector<int64_t> values;
  for (int64_t row = 0; row < 100; ++row) values.insert(values.end(), 64, row / 2);
  const std::vector<int32_t> lengths(values.size(), 1);
  for (const auto& followers : number_table(values, lengths, 64).followers)
    EXPECT_EQ(followers.size(), 63U);
}

// The prompts that are made: rows by their cells, each with its columns.
std::vector<std::vector<int64_t>> prompts_of(const Cells& cells, const TableOrder& order) {
  const auto width = static_cast<size_t>(cells.columns);
  std::vector<std::vector<int64_t>> prompts;
  for (size_t k = 0; k < order.rows.size(); ++k) {
    std::vector<int64_t>& prompt = prompts.emplace_back();
    for (size_t i = 0; i < width; ++i) {
      const int32_t column = order.columns[k * width + i];
      prompt.push_back(column);
      prompt.push_back(cells.values[order.rows[k] * width + static_cast<size_t>(column)]);
    }
  }
  return prompts;
}

// Columns that share alike, and rows that do: who comes first must not matter.
TEST(TableOrder, ThePromptsOfATableAreThoseOfItsRowsInAnyOrder) {
  std::mt19937 random(7);
  int kept = 0;
  for (int round = 0; round < 40; ++round) {
    const size_t rows = 2 + random() % (round % 10 == 0 ? 600 : 40);
    const auto columns = static_cast<int32_t>(1 + random() % 5);
    const Cells cells = table_model::random_cells(random, rows, columns, 1 + random() % 6, 3);
    const TableOrder found = checked(cells);
    const auto prompts = prompts_of(cells, found);
    for (int turn = 0; turn < 3; ++turn) {
      std::vector<size_t> other(rows);
      std::iota(other.begin(), other.end(), size_t{0});
      std::shuffle(other.begin(), other.end(), random);
      Cells shuffled = cells;
      const auto width = static_cast<std::ptrdiff_t>(columns);
      for (size_t k = 0; k < rows; ++k) {
        const auto from = static_cast<std::ptrdiff_t>(other[k]) * width;
        const auto to = static_cast<std::ptrdiff_t>(k) * width;
        std::copy_n(cells.values.begin() + from, width, shuffled.values.begin() + to);
        std::copy_n(cells.lengths.begin() + from, width, shuffled.lengths.begin() + to);
      }
      const TableOrder again = checked(shuffled);
      // Nothing is better than what was given now and then; then it stays.
      if (again.hit == again.hit_before || found.hit == found.hit_before) {
        ++kept;
        continue;
      }
      ASSERT_EQ(prompts_of(shuffled, again), prompts) << "round " << round;
    }
  }
  EXPECT_LT(kept, 40);
}

TEST(TableOrder, TheSameEveryTime) {
  std::mt19937 random(6);
  const Cells cells = table_model::random_cells(random, 300, 6, 20, 9);
  const TableOrder first = checked(cells), second = checked(cells);
  EXPECT_EQ(first.rows, second.rows);
  EXPECT_EQ(first.columns, second.columns);
}

}  // namespace
}  // namespace prefix
