// The tree when memory ends, under random operations. What adds to it may fail, and then every path
// that is held is as it was and no page is lost; what only takes away needs no memory at all.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <new>
#include <random>
#include <utility>
#include <vector>

#include "base/status.h"
#include "support/cases.h"
#include "support/failing_new.h"
#include "tree/tree.h"

namespace prefix {
namespace {

using testing_support::Allowing;
using testing_support::cases;

// Paths that are held, in a tree whose operations may find no memory.
class PoorTree {
 public:
  PoorTree(Policy policy, bool whole, uint32_t seed)
      : random_(seed), tree_(pool_, {.policy = policy, .keep_created = true, .whole = whole}) {
    for (NodeId& root : roots_) root = tree_.add_root(0, below(2));
  }

  void operation() {
    switch (below(12)) {
      case 0:
      case 1:
      case 2:
        return attach();
      case 3:
        return add([&] { advance(); });
      case 4:
        return add([&] { keep_state(); });
      case 5:
        return add([&] { end_inside(); });
      case 6:
        return add([&] { tree_.set_limits(1, below(2) * 64, below(3) * 256); });
      case 7:
        return add([&] { tree_.set_policy(static_cast<Policy>(below(8))); });
      case 8:
        return add([&] { replace_root(); });
      default:
        return take();
    }
  }

  // Every path that is held, and what the tree says of itself.
  void check() const {
    tree_.check();
    for (const Path& path : held_) {
      std::vector<int32_t> tokens(static_cast<size_t>(tree_.node(path.node).end()));
      for (NodeId up = path.node; tree_.node(up).length > 0; up = tree_.node(up).parent)
        std::ranges::copy(tree_.tokens(tree_.node(up)), tokens.begin() + tree_.node(up).start);
      tokens.resize(path.tokens.size());
      ASSERT_EQ(tokens, path.tokens);
    }
  }

  void release_everything() {
    {
      const Allowing none(0);
      while (!held_.empty()) unlock(held_.size() - 1);
      for (const NodeId root : roots_) tree_.drop(root);  // trim() stops at floors
    }
    check();
    EXPECT_EQ(pool_.used() + pool_.hollow_pages(), 0);
    EXPECT_EQ(tree_.token_count() + tree_.held_tokens(), 0);
    EXPECT_EQ(pool_.available(), pool_.capacity());
    EXPECT_EQ(tree_.node_count(), std::size(roots_));
  }

  int64_t failed() const { return failed_; }

 private:
  struct Path {
    NodeId node;
    std::vector<int32_t> tokens;
    int32_t length() const { return static_cast<int32_t>(tokens.size()); }
  };

  int32_t below(int32_t n) { return static_cast<int32_t>(random_() % static_cast<uint32_t>(n)); }
  Path& any() { return held_[static_cast<size_t>(below(static_cast<int32_t>(held_.size())))]; }

  // Runs f, for which there is memory or there is not.
  template <typename F>
  void add(const F& f) {
    const Allowing some(below(3) == 0 ? 1000 : below(8));
    try {
      f();
    } catch (const std::bad_alloc&) {
      ++failed_;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::kCacheFull);
    }
  }

  void attach() {
    std::vector<int32_t> tokens(static_cast<size_t>(1 + below(120)));
    for (int32_t& token : tokens) token = below(8) == 0;
    held_.reserve(held_.size() + 1);
    add([&] {
      const NodeId root = roots_[below(2)];
      const AttachOptions use = {.expires_ms = below(3) * (now_ + below(9))};
      const NodeId node = tree_.whole() ? tree_.attach_whole(root, tokens, use)
                                        : tree_.attach(tree_.match(root, tokens), tokens, use);
      held_.push_back({node, std::move(tokens)});
    });
    if (below(3) > 0 && !held_.empty() && !tree_.whole()) compute(any().node);
  }
  void compute(NodeId node) {
    if (tree_.node(tree_.node(node).parent).computed < tree_.node(tree_.node(node).parent).length)
      compute(tree_.node(node).parent);
    tree_.set_computed(node, tree_.node(node).length);
  }
  void advance() {
    if (held_.empty() || pool_.available() < 2 || tree_.whole()) return;
    Path& path = any();
    const int32_t token = below(2);
    int32_t pages = 0;
    path.tokens.reserve(path.tokens.size() + 1);
    compute(path.node);
    const AttachOptions use = {.expires_ms = below(3) * (now_ + below(9))};
    path.node = tree_.advance(path.node, path.length(), token, use, &pages);
    path.tokens.push_back(token);
  }
  void end_inside() {
    if (held_.empty() || tree_.whole()) return;
    const Path& path = any();
    tree_.end_at(path.node, 1 + below(path.length()));
  }
  void keep_state() {
    if (held_.empty()) return;
    const Path& path = any();
    const NodeId node = path.node;
    if (tree_.has_state(node) || !tree_.make_state_room(2, tree_.name_space(tree_.node(node))))
      return;
    if (tree_.whole() && tree_.node(node).end() != path.length()) return;
    if (!tree_.whole()) compute(node);
    tree_.add_state(node, tree_.take_state_pages(2), true);
    tree_.unpin_state(node);
  }
  // Of another namespace, when nothing is below it.
  void replace_root() {
    NodeId& root = roots_[below(2)];
    if (tree_.node(root).first_child != kNoNode) return;
    const NodeId fresh = tree_.add_root(0, below(2));
    tree_.remove_root(std::exchange(root, fresh));
  }

  void take() {
    const Allowing none(0);
    const NodeId root = roots_[below(2)];
    switch (below(8)) {
      case 0:
        tree_.trim(below(40));
        return;
      case 1:
        tree_.drop(root);
        return;
      case 2:
        tree_.expire(now_ += below(5));
        return;
      case 3:
        tree_.make_room(below(20));
        return;
      case 4:
        if (const NodeId victim = tree_.victim(); victim != kNoNode) tree_.evict_tail(victim, 1);
        return;
      case 5: {
        const int32_t tokens[] = {0, 0, 0, 0, 0};
        tree_.drop_after(tree_.match(root, std::span(tokens).first(1 + below(5))));
        return;
      }
      default:
        if (!held_.empty()) unlock(static_cast<size_t>(below(static_cast<int32_t>(held_.size()))));
    }
  }
  void unlock(size_t i) {
    if (below(2) == 0)
      tree_.prolong(held_[i].node, held_[i].length(), below(3) * (now_ + below(9)));
    tree_.unlock(held_[i].node, below(4) > 0);
    std::swap(held_[i], held_.back());
    held_.pop_back();
  }

  std::mt19937 random_;
  PagePool pool_{40};
  Tree tree_;
  NodeId roots_[2];
  std::vector<Path> held_;
  int64_t now_ = 1;
  int64_t failed_ = 0;
};

TEST(TreeMemory, WhatFailsLeavesEveryPathAndLosesNoPage) {
  int64_t failed = 0;
  for (uint32_t seed = 1; seed <= static_cast<uint32_t>(cases(400)); ++seed) {
    SCOPED_TRACE(seed);
    PoorTree tree(static_cast<Policy>(seed % 8), seed % 3 == 0, seed);
    for (int i = 0; i < 300 && !testing::Test::HasFatalFailure(); ++i) {
      tree.operation();
      ASSERT_NO_THROW(tree.check()) << "operation " << i;
    }
    tree.release_everything();
    if (HasFailure()) return;
    failed += tree.failed();
  }
  EXPECT_GT(failed, cases(400));
}

// The table of children has room for 48, so that a split makes it grow.
TEST(TreeMemory, ASplitThatFindsNoMemoryChangesNothing) {
  PagePool pool(100);
  Tree tree(pool);
  const NodeId root = tree.add_root();
  std::vector<NodeId> paths;
  for (int32_t i = 0; i < 47; ++i) {
    const int32_t tokens[] = {i, i};
    paths.push_back(tree.attach(tree.match(root, tokens), tokens, {}));
  }
  tree.end_at(paths[0], 1);
  {
    const Allowing none(0);
    EXPECT_THROW(tree.end_at(paths[1], 1), std::bad_alloc);
  }
  EXPECT_EQ(tree.node_count(), 49u);
  ASSERT_NO_THROW(tree.check());
  EXPECT_NE(tree.end_at(paths[1], 1), paths[1]);
}

TEST(TreeMemory, LogProbsThatThereIsNoMemoryForAreNotKept) {
  PagePool pool(10);
  Tree tree(pool);
  const NodeId root = tree.add_root();
  const int32_t tokens[] = {1, 2, 3};
  const NodeId node = tree.attach(tree.match(root, tokens), tokens, {});
  const float values[] = {-1, -2};
  float known[2];
  {
    const Allowing none(0);
    tree.set_logprobs(node, 1, values);
  }
  tree.get_logprobs(node, 1, known);
  EXPECT_TRUE(std::isnan(known[0]) && std::isnan(known[1]));
  tree.set_logprobs(node, 1, values);
  tree.get_logprobs(node, 1, known);
  EXPECT_TRUE(std::ranges::equal(known, values));
}

// A leaf that reads what is behind the window of the path that is held.
TEST(TreeMemory, WhatIsBehindAWindowGoesWithoutMemory) {
  PagePool pool(20);
  Tree tree(pool, {.window = 64});
  const NodeId root = tree.add_root();
  std::vector<int32_t> path(180), other(60, -1);
  for (size_t i = 0; i < path.size(); ++i) path[i] = static_cast<int32_t>(i);
  std::copy_n(path.begin(), 40, other.begin());
  const auto compute = [&](NodeId node) {
    for (NodeId up = node; tree.node(up).length > 0; up = tree.node(up).parent)
      tree.set_computed(up, tree.node(up).length);
  };
  const NodeId held = tree.attach(tree.match(root, path), path, {.slides = true});
  pool.add_band(6);
  tree.fill_sliding(held, 0, 180);
  compute(held);
  const NodeId leaf = tree.attach(tree.match(root, other), other, {});
  compute(leaf);
  tree.unlock(leaf, true);
  const size_t before = tree.node_count();

  {
    const Allowing none(0);
    tree.for_each_sliding(held, 180, [&](const Tree::SlidingPage& page) {
      if (page.begin == 0) pool.empty(page.page);
    });
    tree.prune_behind(held, 0, 32);
  }
  EXPECT_EQ(tree.node_count(), before - 1);
  tree.check();
}

}  // namespace
}  // namespace prefix
