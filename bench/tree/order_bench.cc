// Orders of tables and parts of batches: how good and how fast, one thread, no model.
//
//   million    a million rows of ten columns: many distinct values, few, and nearly none alike
//   shape      tables with the rows, columns and repeated values of the paper's data sets, against its
//              algorithm as published (with its limits)
//   small      random tables of 4 to 11 rows, against the best order there is
//   partition  16 parts of three batches, against parts by a hash of the first 256 tokens and at random
//
// Times are seconds of one processor.
#include <algorithm>
#include <ctime>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "../line.h"
#include "../program.h"
#include "tree/partition.h"
#include "tree/table_model.h"
#include "tree/table_order.h"

namespace {

using prefix::bench::Line;
using prefix::table_model::Cells;
using Prompt = std::vector<int32_t>;

// Of the processor: others may be using the machine.
double seconds(const std::function<void()>& work) {
  const std::clock_t start = std::clock();
  work();
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

double share(int64_t part, int64_t all) {
  return static_cast<double>(part) / static_cast<double>(std::max<int64_t>(1, all));
}

void million() {
  constexpr size_t kRows = 1000000;
  constexpr int32_t kColumns = 10;
  const std::vector<std::pair<const char*, std::vector<int64_t>>> tables = {
      {"mixed", {3, 20, 500, 4000, 30000, 1000, 100000, 1000000, 400000, 50}},
      {"pairs", std::vector<int64_t>(kColumns, 500000)},
      {"flags", std::vector<int64_t>(kColumns, 2)}};
  for (const auto& [name, distinct] : tables) {
    std::mt19937 random(1);
    std::vector<int64_t> values;
    std::vector<int32_t> lengths;
    for (size_t i = 0; i < kRows * kColumns; ++i) {
      const int64_t value = static_cast<int64_t>(random()) % distinct[i % kColumns];
      values.push_back(value * 7919);
      lengths.push_back(5 + static_cast<int32_t>(value % 20));
    }
    prefix::TableOrder found;
    const double s = seconds([&] { found = prefix::order_table(values, lengths, kColumns); });
    Line line("order");
    line.field("table", prefix::cat("million ", name)).field("rows", kRows);
    line.field("columns", kColumns).field("seconds", s);
    line.field("hit_before", share(found.hit_before, found.tokens));
    line.field("hit", share(found.hit, found.tokens)).print();
  }
}

void shapes() {
  for (const Cells& cells : prefix::table_model::paper_shapes(1)) {
    prefix::TableOrder found;
    const double s =
        seconds([&] { found = prefix::order_table(cells.values, cells.lengths, cells.columns); });
    prefix::table_model::Order theirs;
    const double ggr = seconds([&] { theirs = greedy_group_recursion(cells, true); });
    Line line("order");
    line.field("table", cells.name).field("rows", cells.rows()).field("columns", cells.columns);
    line.field("seconds", s).field("hit_before", share(found.hit_before, found.tokens));
    line.field("hit", share(found.hit, found.tokens)).field("ggr_seconds", ggr);
    line.field("ggr_hit", share(hits(cells, theirs), found.tokens)).print();
  }
}

void small() {
  std::mt19937 random(3);
  for (const size_t rows : {4U, 6U, 8U, 9U, 10U, 11U}) {
    int64_t found = 0, best = 0, ggr = 0;
    double worst = 1;
    constexpr int kTables = 200;
    for (int i = 0; i < kTables; ++i) {
      const auto columns = static_cast<int32_t>(2 + random() % 5);
      const Cells cells = prefix::table_model::random_cells(
          random, rows, columns, static_cast<int64_t>(2 + random() % rows), i % 2 ? 20 : 3);
      const int64_t hit = prefix::order_table(cells.values, cells.lengths, columns).hit;
      const int64_t most = best_hits(cells);
      found += hit;
      best += most;
      ggr += hits(cells, greedy_group_recursion(cells, false));
      if (most > 0) worst = std::min(worst, share(hit, most));
    }
    Line line("order");
    line.field("table", "small").field("rows", rows).field("tables", kTables);
    line.field("of_best", share(found, best)).field("worst", worst);
    line.field("ggr_of_best", share(ggr, best)).print();
  }
}

// A system prompt for all, a document, questions about it.
std::vector<Prompt> documents(std::mt19937& random, int32_t count, size_t longest,
                              size_t questions) {
  std::vector<Prompt> prompts;
  for (int32_t d = 0; d < count; ++d) {
    Prompt document(40, 1);
    for (size_t n = longest / 10 + random() % longest; n > 0; --n)
      document.push_back(static_cast<int32_t>(random() % 32000));
    for (size_t q = 1 + random() % questions; q > 0; --q) {
      prompts.push_back(document);
      for (size_t n = 10 + random() % 40; n > 0; --n)
        prompts.back().push_back(static_cast<int32_t>(random() % 32000));
    }
  }
  std::shuffle(prompts.begin(), prompts.end(), random);
  return prompts;
}

// Conversations: each turn goes on from the one before, and each turn is a prompt.
std::vector<Prompt> conversations(std::mt19937& random, int count) {
  std::vector<Prompt> prompts;
  for (int c = 0; c < count; ++c) {
    Prompt prompt(300, static_cast<int32_t>(c % 3));  // one of three assistants
    for (size_t turn = 1 + random() % 8; turn > 0; --turn) {
      for (size_t n = 30 + random() % 200; n > 0; --n)
        prompt.push_back(static_cast<int32_t>(random() % 32000));
      prompts.push_back(prompt);
    }
  }
  std::shuffle(prompts.begin(), prompts.end(), random);
  return prompts;
}

// One prefix for all, longer than a question: every part has to compute it.
std::vector<Prompt> one_prefix(std::mt19937& random, int count) {
  std::vector<Prompt> prompts;
  for (int i = 0; i < count; ++i) {
    prompts.emplace_back(2000, 7);
    for (size_t n = 50 + random() % 300; n > 0; --n)
      prompts.back().push_back(static_cast<int32_t>(random() % 32000));
  }
  return prompts;
}

void print_parts(const char* batch, const char* by, size_t prompts, int64_t distinct,
                 const std::vector<int64_t>& work, double s) {
  int64_t sum = 0, largest = 0;
  for (const int64_t w : work) {
    sum += w;
    largest = std::max(largest, w);
  }
  const double mean = static_cast<double>(sum) / static_cast<double>(work.size());
  Line line("partition");
  line.field("batch", batch).field("by", by).field("prompts", prompts).field("parts", work.size());
  line.field("distinct", distinct).field("duplicated", share(sum - distinct, distinct));
  line.field("largest_of_mean", static_cast<double>(largest) / mean).field("seconds", s).print();
}

void partitions() {
  constexpr size_t kParts = 16;
  std::mt19937 random(9);
  const std::pair<const char*, std::vector<Prompt>> batches[] = {
      {"documents", documents(random, 4000, 2000, 8)},
      {"few documents", documents(random, 300, 4000, 30)},
      {"conversations", conversations(random, 6000)},
      {"one prefix", one_prefix(random, 20000)}};
  for (const auto& batch : batches) {
    const char* const name = batch.first;
    const std::vector<Prompt>& prompts = batch.second;
    const std::vector<std::span<const int32_t>> spans(prompts.begin(), prompts.end());
    prefix::Partition found;
    const double s = seconds([&] { found = prefix::partition(spans, kParts, 1.05); });
    print_parts(name, "prefix", prompts.size(), found.distinct, found.work, s);
    const auto other = [&](const char* by, const std::function<size_t(const Prompt&)>& part) {
      std::vector<std::vector<std::span<const int32_t>>> parts(kParts);
      for (const Prompt& p : prompts) parts[part(p) % kParts].push_back(p);
      std::vector<int64_t> work;
      for (const auto& list : parts) work.push_back(prefix::estimate_batch(list).computed);
      print_parts(name, by, prompts.size(), found.distinct, work, 0);
    };
    other("hash", [](const Prompt& p) {
      uint64_t h = 14695981039346656037U;
      for (size_t i = 0; i < std::min<size_t>(256, p.size()); ++i)
        h = (h ^ static_cast<uint64_t>(p[i])) * 1099511628211U;
      return static_cast<size_t>(h >> 32);
    });
    other("random", [&](const Prompt&) { return static_cast<size_t>(random()); });
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::pair<std::string, void (*)()> all[] = {
      {"million", million}, {"shape", shapes}, {"small", small}, {"partition", partitions}};
  std::vector<std::string> wanted;
  prefix::bench::Program program(
      "order_bench",
      "orders of tables and parts of batches, one thread, no model: the share of tokens that is shared,\n"
      "before and after (hit), and seconds of the processor",
      "partition");
  program.arguments(
      "PART", "million, shape, small or partition (default: all)", [&](const std::string& part) {
        wanted.push_back(prefix::bench::read_choice("PART", part, "million|shape|small|partition"));
      });
  return program.run(argc, argv, [&] {
    for (const auto& [name, run] : all)
      if (wanted.empty() || std::ranges::count(wanted, name) > 0) run();
  });
}
