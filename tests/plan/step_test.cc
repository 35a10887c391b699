#include "plan/step.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace prefix {
namespace {

using Tokens = std::vector<int32_t>;

const StepShape kShape{4, 2, 2};

Tokens random_tokens(std::mt19937& random, size_t n, unsigned vocabulary) {
  Tokens tokens(n);
  for (int32_t& t : tokens) t = static_cast<int32_t>(random() % vocabulary);
  return tokens;
}

// The first position that a row sees.
int32_t first_key(const Tokens& positions, const AttentionPlan& attention, int32_t row) {
  if (attention.window == 0) return 0;
  return std::max(0, positions[static_cast<size_t>(row)] - attention.window + 1);
}

// For every row, the keys that the plan lets it see: position -> (page, slot).
std::map<int32_t, std::pair<int32_t, int32_t>> keys_of_row(const Tokens& positions,
                                                           const AttentionPlan& attention,
                                                           int32_t row) {
  std::map<int32_t, std::pair<int32_t, int32_t>> keys;
  for (const AttentionTile& tile : attention.tiles) {
    if (row < tile.row_begin || row >= tile.row_end) continue;
    EXPECT_LE(tile.first_key, first_key(positions, attention, row));
    EXPECT_GE(tile.last_position, positions[static_cast<size_t>(row)]);
    for (int32_t r = tile.run_begin; r < tile.run_end; ++r) {
      const AttentionRun& run = attention.runs[static_cast<size_t>(r)];
      EXPECT_GE(run.row_begin, tile.row_begin);
      EXPECT_LE(run.row_end, tile.row_end);
      if (row < run.row_begin || row >= run.row_end) continue;
      for (int32_t b = 0; b < run.blocks; ++b) {
        const int32_t page = attention.pages[static_cast<size_t>(run.page_begin + b)];
        for (int32_t slot = 0; slot < kPageTokens; ++slot) {
          const int32_t position = (run.block_begin + b) * kPageTokens + slot;
          if (position > positions[static_cast<size_t>(row)]) continue;
          if (position < first_key(positions, attention, row)) continue;
          EXPECT_TRUE(keys.emplace(position, std::pair(page, slot)).second)
              << "row " << row << " sees position " << position << " twice";
        }
      }
    }
  }
  return keys;
}

// Executes plans on a model of the key memory that stores, for each slot, the path of tokens that
// its key stands for; a row must see exactly the prefixes of its own path.
class Oracle {
 public:
  void run(const StepPlan& plan, const std::vector<Tokens>& row_paths) {
    for (int64_t i = 0; i < plan.rows(); ++i) {
      const KvSlot s = plan.slots[static_cast<size_t>(i)];
      if (s.page >= 0) memory_[{s.page, s.slot}] = row_paths[static_cast<size_t>(i)];
    }
    for (const PageCopy& c : plan.copies)
      for (int32_t slot = 0; slot < c.tokens; ++slot)
        memory_[{c.to, slot}] = memory_[{c.from, slot}];
    for (const AttentionPlan& attention : plan.attention)
      expect_own_paths(plan.positions, attention, row_paths);
  }

  // The same of the rows that are kept.
  void run_kept(const StepPlan& plan, int32_t last, const std::vector<Tokens>& row_paths) {
    const StepPlan::Kept& kept = plan.kept;
    if (!kept.on) return;
    std::vector<Tokens> paths;
    Tokens positions;
    for (const int32_t row : plan.reads) {
      paths.push_back(row_paths[static_cast<size_t>(row)]);
      positions.push_back(plan.positions[static_cast<size_t>(row)]);
    }
    EXPECT_EQ(kept.positions, positions);
    expect_own_paths(positions, kept.attention[static_cast<size_t>(last)], paths);
  }

  void expect_own_paths(const Tokens& positions, const AttentionPlan& attention,
                        const std::vector<Tokens>& row_paths) {
    const auto rows = static_cast<int32_t>(positions.size());
    ASSERT_EQ(attention.tiles.empty() ? 0 : attention.tiles.back().row_end, rows);
    for (int32_t row = 0; row < rows; ++row) {
      const Tokens& path = row_paths[static_cast<size_t>(row)];
      const auto keys = keys_of_row(positions, attention, row);
      ASSERT_EQ(keys.size(), path.size() - first_key(positions, attention, row)) << "row " << row;
      for (const auto& [position, place] : keys)
        ASSERT_EQ(memory_[place], Tokens(path.begin(), path.begin() + position + 1))
            << "row " << row << " position " << position;
    }
    expect_runs_in_windows(positions, attention);
  }

  // No run begins with a page that none of its rows sees.
  static void expect_runs_in_windows(const Tokens& positions, const AttentionPlan& attention) {
    for (const AttentionRun& run : attention.runs) {
      int32_t first = INT32_MAX;
      for (int32_t row = run.row_begin; row < run.row_end; ++row)
        first = std::min(first, first_key(positions, attention, row));
      EXPECT_GE(run.block_begin, first / kPageTokens);
    }
  }

 private:
  std::map<std::pair<int32_t, int32_t>, Tokens> memory_;
};

// Path of tokens of each row, found through row_of.
std::vector<Tokens> paths_of_rows(const StepBuilder& builder, const StepPlan& plan,
                                  const std::vector<std::pair<NodeId, Tokens>>& sequences) {
  std::vector<Tokens> paths(static_cast<size_t>(plan.rows()));
  for (const auto& [node, tokens] : sequences) {
    for (int32_t p = 0; p < static_cast<int32_t>(tokens.size()); ++p) {
      const int32_t row = builder.row_of(node, p);
      if (row >= 0) paths[static_cast<size_t>(row)].assign(tokens.begin(), tokens.begin() + p + 1);
    }
  }
  return paths;
}

TEST(Step, RowsAreDepthFirstAndSharedOnce) {
  PagePool pool(100);
  Tree tree(pool);
  const NodeId root = tree.add_root();
  std::vector<std::pair<NodeId, Tokens>> sequences;
  for (const Tokens& t : {Tokens{1, 2, 3, 4}, Tokens{1, 2, 9}, Tokens{1, 2, 3, 5, 6}})
    sequences.emplace_back(tree.attach(tree.match(root, t), t, {}), t);
  StepBuilder builder(tree, kShape);
  StepPlan plan;
  builder.begin();
  int32_t rows = 0;
  for (const auto& [node, t] : sequences)
    rows += builder.take(node, static_cast<int32_t>(t.size()), 1000);
  builder.build(plan);
  EXPECT_EQ(rows, 7);
  EXPECT_EQ(plan.rows(), 7);
  EXPECT_EQ(plan.positions, (std::vector<int32_t>{0, 1, 2, 3, 3, 4, 2}));
  EXPECT_EQ(plan.tokens, (std::vector<int32_t>{1, 2, 3, 4, 5, 6, 9}));
  Oracle().run(plan, paths_of_rows(builder, plan, sequences));
}

// A tree of the second rotary regime has its rows behind those of the first in the tables.
TEST(Step, RopeRowsAreThoseOfTheRegime) {
  PagePool pool(100);
  Tree tree(pool);
  std::vector<NodeId> nodes;
  const Tokens t{1, 2, 3};
  for (const int32_t offset : {0, 1000}) {
    const NodeId root = tree.add_root(offset);
    nodes.push_back(tree.attach(tree.match(root, t), t, {}));
  }
  StepBuilder builder(tree, kShape);
  StepPlan plan;
  builder.begin();
  for (const NodeId node : nodes) builder.take(node, 3, 1000);
  builder.build(plan);
  EXPECT_EQ(plan.positions, (std::vector<int32_t>{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(plan.rope_rows, (std::vector<int32_t>{0, 1, 2, 1000, 1001, 1002}));
}

// Whatever the order in which they are taken, roots of one adapter stand side by side.
TEST(Step, RowsOfAnAdapterAreOneRange) {
  PagePool pool(100);
  Tree tree(pool);
  std::vector<NodeId> nodes;
  const std::vector<int32_t> adapters = {2, 0, 7, 2, 0, 7, 2};
  for (const int32_t adapter : adapters) {
    const NodeId root = tree.add_root(0, 0, adapter);
    const Tokens t(static_cast<size_t>(1 + adapter), 5);
    nodes.push_back(tree.attach(tree.match(root, t), t, {}));
  }
  StepBuilder builder(tree, kShape);
  StepPlan plan;
  builder.begin();
  for (size_t i = 0; i < nodes.size(); ++i) builder.take(nodes[i], 1 + adapters[i], 1000);
  builder.build(plan);
  ASSERT_EQ(plan.adapters.size(), 2u);
  EXPECT_EQ(plan.adapters[0].adapter, 2);
  EXPECT_EQ(plan.adapters[0].begin, 2) << "rows without an adapter come first";
  EXPECT_EQ(plan.adapters[0].end, 11);
  EXPECT_EQ(plan.adapters[1].adapter, 7);
  EXPECT_EQ(plan.adapters[1].begin, 11);
  EXPECT_EQ(plan.adapters[1].end, 27);
  EXPECT_EQ(plan.rows(), 27);
  builder.begin();
  builder.build(plan);
  EXPECT_TRUE(plan.adapters.empty());
}

// In the middle of an edge, and across edges; the rest comes in later steps.
TEST(Step, TakesNoMoreThanItMay) {
  PagePool pool(100);
  Tree tree(pool);
  const NodeId root = tree.add_root();
  std::mt19937 random(3);
  const Tokens a = random_tokens(random, 70, 9);
  Tokens b(a.begin(), a.begin() + 40);
  b.resize(60, 10);
  const NodeId nodes[] = {tree.attach(tree.match(root, a), a, {}),
                          tree.attach(tree.match(root, b), b, {})};
  StepBuilder builder(tree, kShape);
  StepPlan plan;
  int32_t left = 70 + 20;
  for (int step = 0; left > 0; ++step) {
    ASSERT_LT(step, 10);
    builder.begin();
    const int32_t first = builder.take(nodes[0], 70, 17);
    const int32_t second = builder.take(nodes[1], 60, 17 - first);
    EXPECT_EQ(first + second, std::min(17, left)) << step;
    builder.build(plan);
    EXPECT_EQ(plan.rows(), first + second);
    for (const StepPlan::Commit& c : plan.commits) tree.set_computed(c.node, c.computed);
    left -= first + second;
  }
}

TEST(Step, RecomputeReadsAComputedTokenWithoutWriting) {
  PagePool pool(100);
  Tree tree(pool);
  const NodeId root = tree.add_root();
  const Tokens t{1, 2, 3, 4, 5};
  const NodeId node = tree.attach(tree.match(root, t), t, {});
  tree.set_computed(node, 5);
  StepBuilder builder(tree, kShape);
  StepPlan plan;
  builder.begin();
  EXPECT_EQ(builder.take(node, 5, 100), 0);
  EXPECT_EQ(builder.recompute(node, 4), 1);
  EXPECT_EQ(builder.recompute(node, 2), 1);
  EXPECT_EQ(builder.recompute(node, 4), 0);
  builder.build(plan);
  ASSERT_EQ(plan.rows(), 2);
  EXPECT_EQ(plan.positions, (std::vector<int32_t>{2, 4}));
  EXPECT_EQ(plan.slots[0].page, -1);
  EXPECT_EQ(builder.row_of(node, 4), 1);
  EXPECT_EQ(builder.row_of(node, 3), -1);
  EXPECT_TRUE(plan.commits.empty());
}

TEST(Step, LongPathsAreSplitOverItemsOnlyWhenThreadsWouldIdle) {
  PagePool pool(1000);
  Tree tree(pool);
  const NodeId root = tree.add_root();
  const Tokens t(5000, 1);
  const NodeId node = tree.attach(tree.match(root, t), t, {});
  tree.set_computed(node, 4999);
  StepBuilder builder(tree, {4, 2, 8});
  StepPlan plan;
  builder.begin();
  EXPECT_EQ(builder.take(node, 5000, 100), 1);
  builder.build(plan);
  EXPECT_EQ(plan.attention[0].items.size(), 3u);
  EXPECT_EQ(plan.attention[0].partial_slots, 3);
  StepBuilder single(tree, {4, 2, 0});
  single.begin();
  single.take(node, 5000, 100);
  single.build(plan);
  ASSERT_EQ(plan.attention[0].items.size(), 1u);
  EXPECT_EQ(plan.attention[0].items[0].chunk, -1);
}

// A plan for each window; only the chunks and the pages that the row sees.
TEST(Step, WindowsReadNothingBehindThem) {
  PagePool pool(1000);
  Tree tree(pool);
  const NodeId root = tree.add_root();
  const Tokens t(5000, 1);
  const NodeId node = tree.attach(tree.match(root, t), t, {});
  tree.set_computed(node, 4999);
  StepBuilder builder(tree, {4, 2, 8, 96, 0, {0, 100, 3000}});
  StepPlan plan;
  builder.begin();
  EXPECT_EQ(builder.take(node, 5000, 100), 1);
  builder.build(plan);
  ASSERT_EQ(plan.attention.size(), 3u);
  EXPECT_EQ(plan.attention[0].items.size(), 3u);
  const AttentionPlan& narrow = plan.attention[1];
  EXPECT_EQ(narrow.window, 100);
  ASSERT_EQ(narrow.tiles.size(), 1u);
  EXPECT_EQ(narrow.tiles[0].first_key, 4900);
  ASSERT_EQ(narrow.runs.size(), 1u);
  EXPECT_EQ(narrow.runs[0].block_begin, 4900 / kPageTokens);
  EXPECT_EQ(narrow.runs[0].block_begin + narrow.runs[0].blocks, 4999 / kPageTokens + 1);
  ASSERT_EQ(narrow.items.size(), 1u);
  EXPECT_EQ(narrow.items[0].chunk, -1);
  const AttentionPlan& wide = plan.attention[2];
  ASSERT_EQ(wide.items.size(), 3u);
  EXPECT_EQ(wide.items[0].chunk, 0);
  EXPECT_EQ(wide.tiles[0].first_key, 2000);
}

// Rows see what is behind them too, up to the end of their text, in windows of both sides.
TEST(Step, TextsAreSeenAsAWhole) {
  PagePool pool(1000);
  Tree tree(pool);
  Tokens ends;
  std::vector<std::pair<NodeId, int32_t>> texts;
  for (const int32_t length : {1, 31, 33, 70, 300}) {
    const NodeId root = tree.add_root();  // its own: no two texts share a key
    const Tokens t(static_cast<size_t>(length), 1);
    texts.emplace_back(tree.attach(tree.match(root, t), t, {}), length);
    ends.insert(ends.end(), t.size(), length - 1);
  }
  StepShape shape{4, 2, 2, 40, 0, {0, 9}};
  shape.bidirectional = shape.keeps_reads = true;
  shape.last_attention = 1;
  StepBuilder builder(tree, shape);
  builder.begin();
  for (const auto& [node, length] : texts) EXPECT_EQ(builder.take(node, length, length), length);
  StepPlan plan;
  builder.build(plan);
  for (const AttentionPlan& attention : plan.attention) {
    EXPECT_EQ(attention.ends, ends);
    for (const AttentionTile& tile : attention.tiles) {
      for (int32_t row = tile.row_begin; row < tile.row_end; ++row) {
        const auto r = static_cast<size_t>(row);
        const int32_t position = plan.positions[r], w = attention.window;
        const int32_t first = w == 0 ? 0 : std::max(0, position - w + 1);
        const int32_t last = w == 0 ? ends[r] : std::min(ends[r], position + w - 1);
        EXPECT_LE(tile.first_key, first);
        EXPECT_GE(tile.last_position, last);
        std::set<int32_t> seen;  // positions whose page is in a run of the row
        for (int32_t i = tile.run_begin; i < tile.run_end; ++i) {
          const AttentionRun& run = attention.runs[static_cast<size_t>(i)];
          if (row < run.row_begin || row >= run.row_end) continue;
          for (int32_t b = 0; b < run.blocks; ++b) {
            const int32_t page = attention.pages[static_cast<size_t>(run.page_begin + b)];
            EXPECT_EQ(tree.page_tokens(page)[0], 1);
            EXPECT_TRUE(seen.insert(run.block_begin + b).second);
          }
        }
        for (int32_t block = first / kPageTokens; block <= last / kPageTokens; ++block)
          EXPECT_TRUE(seen.count(block)) << "row " << row << " block " << block;
        const SeenKeys keys = seen_keys(attention, r, position);
        EXPECT_EQ(keys.first, first);
        EXPECT_EQ(keys.last, last);
      }
    }
  }
  plan.reads = {0, 20, 33, 134, 434};
  builder.keep_reads(plan);
  ASSERT_TRUE(plan.kept.on);
  EXPECT_EQ(plan.kept.attention[1].ends, (Tokens{0, 30, 32, 69, 299}));
}

// The rows that are read go on, unless that are nearly all.
TEST(Step, KeepsWhatIsReadOfUpToThreeQuarters) {
  PagePool pool(100);
  Tree tree(pool);
  const Tokens t{1, 2, 3, 4};
  const NodeId node = tree.attach(tree.match(tree.add_root(), t), t, {});
  for (const bool keeps : {false, true}) {
    StepShape shape = kShape;
    shape.keeps_reads = keeps;
    StepBuilder builder(tree, shape);
    StepPlan plan;
    builder.begin();
    builder.take(node, 4, 4);
    for (const Tokens& reads : {Tokens{}, Tokens{3}, Tokens{0, 1, 3}, Tokens{0, 1, 2, 3}}) {
      builder.build(plan);
      EXPECT_FALSE(plan.kept.on);
      plan.reads = reads;
      builder.keep_reads(plan);
      EXPECT_EQ(plan.kept.on, keeps && reads.size() < 4) << reads.size();
      if (plan.kept.on) {
        EXPECT_EQ(plan.kept.positions, reads);
      }
    }
  }
}

// Acceptance: rows computed equals the number of distinct (namespace, prefix) tuples.
TEST(StepProperty, RowsEqualDistinctPrefixesInRandomBatches) {
  int64_t batches = 0, kept = 0;
  for (unsigned seed = 0; seed < 10000; ++seed) {
    std::mt19937 random(seed);
    PagePool pool(100000);
    Tree tree(pool);
    const NodeId roots[] = {tree.add_root(), tree.add_root(), tree.add_root()};
    const unsigned vocabulary = 2 + random() % 7;
    const size_t count = random() % 20;
    std::set<std::pair<NodeId, Tokens>> distinct;
    std::vector<std::pair<NodeId, Tokens>> sequences;
    for (size_t i = 0; i < count; ++i) {
      const NodeId root = roots[random() % 3];
      Tokens t = random_tokens(random, 1 + random() % 60, vocabulary);
      if (!sequences.empty() && random() % 2) {  // continue, cut or repeat an earlier one
        t = sequences[random() % sequences.size()].second;
        t.resize(1 + random() % (t.size() + 20), static_cast<int32_t>(random() % vocabulary));
      }
      sequences.emplace_back(tree.attach(tree.match(root, t), t, {}), t);
      for (size_t n = 1; n <= t.size(); ++n)
        distinct.emplace(root, Tokens(t.begin(), t.begin() + static_cast<ptrdiff_t>(n)));
    }
    StepShape shape = kShape;
    shape.windows = {static_cast<int32_t>(1 + seed / 50 % 40), 0};
    shape.tile_rows = static_cast<int32_t>(2 + seed / 50 % 32);
    shape.keeps_reads = true;
    shape.last_attention = static_cast<int32_t>(seed / 50 % 2);
    StepBuilder builder(tree, shape);
    StepPlan plan;
    int64_t rows = 0;
    const int32_t limit = 1 + static_cast<int32_t>(random() % 64);
    const bool verify = seed % 50 == 0;
    Oracle oracle;
    for (;;) {
      builder.begin();
      int32_t left = limit;
      for (const auto& [node, t] : sequences) {
        if (left == 0) break;
        left -= builder.take(node, static_cast<int32_t>(t.size()), left);
      }
      builder.build(plan);
      if (plan.rows() == 0) break;
      ASSERT_EQ(plan.rows(), limit - left);
      rows += plan.rows();
      if (verify) {
        const std::vector<Tokens> paths = paths_of_rows(builder, plan, sequences);
        oracle.run(plan, paths);
        const auto every = static_cast<int32_t>(1 + seed / 50 % 9);
        for (int32_t row = 0; row < plan.rows(); ++row)
          if ((row * 7 + static_cast<int32_t>(seed)) % 9 < every) plan.reads.push_back(row);
        builder.keep_reads(plan);
        kept += plan.kept.on;
        oracle.run_kept(plan, shape.last_attention, paths);
      }
      if (testing::Test::HasFatalFailure()) FAIL() << "seed " << seed;
      for (const StepPlan::Commit& c : plan.commits) tree.set_computed(c.node, c.computed);
    }
    ASSERT_EQ(rows, static_cast<int64_t>(distinct.size())) << "seed " << seed;
    if (verify) tree.check();
    ++batches;
  }
  EXPECT_EQ(batches, 10000);
  EXPECT_GT(kept, 100);
}

}  // namespace
}  // namespace prefix
