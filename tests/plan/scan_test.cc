// Segments and states of a step, against what they stand for: the tokens before them.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "plan/step.h"

namespace prefix {
namespace {

using Tokens = std::vector<int32_t>;

const StepShape kShape{4, 2, 2, 96, 2};  // states of two pages

// Executes the scans of plans: a state is the tokens that it has seen.
class ScanOracle {
 public:
  void run(const StepPlan& plan) {
    const ScanPlan& scan = plan.scan;
    std::vector<Tokens> end(scan.segments.size());
    std::map<int32_t, Tokens> after;  // rows
    int32_t rows = 0;
    for (size_t i = 0; i < scan.segments.size(); ++i) {
      const ScanSegment& s = scan.segments[i];
      ASSERT_EQ(s.row_begin, rows);
      ASSERT_LT(s.row_begin, s.row_end);
      ASSERT_LT(s.parent, static_cast<int32_t>(i));
      Tokens state;
      if (s.parent >= 0) {
        ASSERT_EQ(s.from, -1);
        state = end[static_cast<size_t>(s.parent)];
      } else if (s.from >= 0) {
        state = stored_.at(pages(scan, s.from));
      }
      for (int32_t row = s.row_begin; row < s.row_end; ++row) {
        ASSERT_EQ(plan.positions[static_cast<size_t>(row)], static_cast<int32_t>(state.size()));
        state.push_back(plan.tokens[static_cast<size_t>(row)]);
        after[row] = state;
      }
      end[i] = state;
      rows = s.row_end;
    }
    ASSERT_EQ(rows, plan.rows());
    for (size_t i = 0; i < scan.writes.size(); ++i) {
      const ScanWrite& w = scan.writes[i];
      if (i > 0) {
        ASSERT_LE(scan.writes[i - 1].row, w.row);
      }
      stored_[pages(scan, w.state)] = after.at(w.row);
    }
  }
  const Tokens& stored(const std::vector<int32_t>& pages) const { return stored_.at(pages); }

 private:
  static std::vector<int32_t> pages(const ScanPlan& scan, int32_t state) {
    const auto begin = scan.pages.begin() + state * scan.state_pages;
    return {begin, begin + scan.state_pages};
  }
  std::map<std::vector<int32_t>, Tokens> stored_;
};

struct ScanTest : testing::Test {
  PagePool pool{4000};
  Tree tree{pool};
  NodeId root = tree.add_root();
  StepBuilder builder{tree, kShape};
  StepPlan plan;
  ScanOracle oracle;

  NodeId attach(const Tokens& tokens) { return tree.attach(tree.match(root, tokens), tokens, {}); }
  void commit() {
    for (const StepPlan::Commit& c : plan.commits) tree.set_computed(c.node, c.computed);
  }
};

TEST_F(ScanTest, SiblingsFollowTheSegmentOfTheirParent) {
  const NodeId a = attach({1, 2, 3, 4});
  const NodeId b = attach({1, 2, 3, 7, 8});
  builder.begin();
  EXPECT_EQ(builder.scan(a, 0, 4, 100).rows(), 4);
  EXPECT_EQ(builder.scan(b, 0, 5, 100).rows(), 2);  // three are there already
  builder.build(plan);
  ASSERT_EQ(plan.scan.segments.size(), 3u);
  EXPECT_EQ(plan.scan.segments[1].parent, 0);
  EXPECT_EQ(plan.scan.segments[2].parent, 0);
  EXPECT_EQ(builder.reach(b, 0, 5), 5);
  oracle.run(plan);
}

TEST_F(ScanTest, ComputedTokensAreScannedAgainWithoutWritingKeys) {
  const NodeId a = attach({1, 2, 3, 4});
  builder.begin();
  builder.scan(a, 0, 4, 100);
  builder.build(plan);
  commit();
  const NodeId b = attach({1, 2, 9});
  builder.begin();
  const StepBuilder::Scanned added = builder.scan(b, 0, 3, 100);
  EXPECT_EQ(added.recomputed, 2);
  EXPECT_EQ(added.pending, 1);
  builder.build(plan);
  EXPECT_EQ(plan.slots[0].page, -1);
  EXPECT_EQ(plan.slots[1].page, -1);
  EXPECT_GE(plan.slots[2].page, 0);
  oracle.run(plan);
}

TEST_F(ScanTest, ALimitCutsThePathAndAStoredStateContinuesIt) {
  const NodeId a = attach({1, 2, 3, 4, 5, 6, 7});
  builder.begin();
  EXPECT_EQ(builder.scan(a, 0, 7, 3).rows(), 3);
  builder.build(plan);
  EXPECT_EQ(builder.reach(a, 0, 7), 3);
  const std::vector<int32_t> state = tree.take_state_pages(2);
  builder.store(a, 2, state, plan);
  oracle.run(plan);
  EXPECT_EQ(oracle.stored(state), (Tokens{1, 2, 3}));
  commit();

  builder.begin();
  builder.start(a, 3, state);
  EXPECT_EQ(builder.scan(a, 3, 7, 100).rows(), 4);
  builder.build(plan);
  builder.store(a, 6, state, plan);  // the same pages: read, then written
  oracle.run(plan);
  EXPECT_EQ(plan.scan.pages.size(), 2u);
  EXPECT_EQ(oracle.stored(state), (Tokens{1, 2, 3, 4, 5, 6, 7}));
}

// Sequences of random trees begin at states that earlier steps stored somewhere on their paths.
TEST_F(ScanTest, RandomTreesContinueFromWhatTheyAreGiven) {
  std::mt19937 random(7);
  const auto below = [&](size_t n) { return static_cast<int32_t>(random() % n); };
  for (int round = 0; round < 300; ++round) {
    struct Path {
      NodeId node;
      Tokens tokens;
      int32_t resume = 0;
      std::vector<int32_t> state;
    };
    NodeId here = tree.add_root();
    std::vector<Path> paths;
    for (int32_t i = 1 + below(6); i > 0; --i) {
      Path p;
      if (!paths.empty() && below(4) > 0) {
        const Tokens& other = paths[static_cast<size_t>(below(paths.size()))].tokens;
        p.tokens.assign(other.begin(), other.begin() + below(other.size() + 1));
      }
      for (int32_t more = 1 + below(40); more > 0; --more) p.tokens.push_back(below(3));
      p.node = tree.attach(tree.match(here, p.tokens), p.tokens, {});
      paths.push_back(std::move(p));
    }
    for (int step = 0; step < 60; ++step) {
      builder.begin();
      int32_t budget = 1 + below(25);
      std::vector<size_t> order(paths.size());
      for (size_t i = 0; i < order.size(); ++i) order[i] = i;
      std::shuffle(order.begin(), order.end(), random);
      bool left = false;
      for (const size_t i : order) {
        Path& p = paths[i];
        const auto length = static_cast<int32_t>(p.tokens.size());
        left = left || p.resume < length;
        if (p.resume > 0 && p.resume < length) builder.start(p.node, p.resume, p.state);
        budget -= builder.scan(p.node, p.resume, length, budget).rows();
      }
      ASSERT_GE(budget, 0);
      if (!left) break;
      builder.build(plan);
      for (Path& p : paths) {
        const int32_t reach =
            builder.reach(p.node, p.resume, static_cast<int32_t>(p.tokens.size()));
        ASSERT_GE(reach, p.resume);
        if (reach == p.resume) continue;
        if (p.state.empty()) p.state = tree.take_state_pages(2);
        builder.store(p.node, reach - 1, p.state, plan);
        p.resume = reach;
      }
      oracle.run(plan);
      if (HasFatalFailure()) return;
      commit();
      for (const Path& p : paths) {
        if (p.resume > 0) {
          ASSERT_EQ(oracle.stored(p.state), Tokens(p.tokens.begin(), p.tokens.begin() + p.resume));
        }
      }
    }
    for (Path& p : paths) {
      ASSERT_EQ(p.resume, static_cast<int32_t>(p.tokens.size()));
      tree.give_state_pages(p.state);
      tree.unlock(p.node, false);
    }
    tree.check();
  }
}

}  // namespace
}  // namespace prefix
