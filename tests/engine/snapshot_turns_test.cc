// A load goes on in turns, between which the engine's requests do what they like with the tree.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "cache/snapshot.h"
#include "support/temp_folder.h"

namespace prefix {
namespace {

// A cache without an engine, whose turns are counted.
struct TurnsCache {
  explicit TurnsCache(int64_t tokens_of_a_turn = INT64_MAX, int32_t name_space = 0)
      : root(tree.add_root(0, name_space)), turn_tokens(tokens_of_a_turn) {}

  SnapshotCache view() {
    SnapshotShape shape;
    shape.page_tokens = kPageTokens;
    shape.page_bytes = layout.page_bytes();
    return {.tree = tree,
            .pages = pool,
            .kv = kv,
            .namespaces = namespaces,
            .run_exclusive =
                [this](const std::function<void()>& f) {
                  if (between) between();
                  const int64_t before = tree.tick();
                  f();
                  uses.push_back(tree.tick() - before);
                },
            .roots =
                [this](int32_t name_space) {
                  return name_space == tree.name_space(tree.node(root)) ? std::vector<NodeId>{root}
                                                                        : std::vector<NodeId>{};
                },
            .root = [this](int32_t, bool) { return root; },
            .watch = [](const std::weak_ptr<PagesToSave>&) {},
            .shape = shape,
            .layout = layout,
            .turn_tokens = turn_tokens};
  }
  static std::vector<int32_t> path(int32_t first, int32_t length) {
    std::vector<int32_t> tokens(static_cast<size_t>(length), 1);
    tokens[0] = first;
    return tokens;
  }
  void add(const std::vector<int32_t>& tokens) {
    const NodeId id = tree.attach(tree.match(root, tokens), tokens, {});
    tree.set_computed(id, tree.node(id).length);
    tree.unlock(id, true);
  }
  // What the leaf that goes next begins with.
  int32_t first_token_of_victim() {
    NodeId id = tree.victim();
    while (tree.node(id).start > 0) id = tree.node(id).parent;
    return tree.token(tree.node(id), 0);
  }

  const ops::KvLayout layout{ops::KvType::kBf16, 1, 1, 32};
  const std::unique_ptr<ops::Device> device = ops::make_cpu_device({});
  PagePool pool{400};
  KvMemory kv{*device, layout, 400};
  Tree tree{pool};
  const NodeId root;
  Namespaces namespaces;
  const int64_t turn_tokens;
  std::function<void()> between;
  std::vector<int64_t> uses;  // of each turn
};

struct SnapshotTurns : testing::Test {
  static constexpr int32_t kPaths = 60, kLength = 96;

  // Path i is used before path i + 1.
  void save(TurnsCache& cache) {
    for (int32_t i = 0; i < kPaths; ++i) cache.add(TurnsCache::path(i, kLength));
    save_snapshot(cache.view(), file, {});
  }

  testing_support::TempFolder folder;
  const std::string file = folder / "snapshot";
  TurnsCache first;
};

TEST_F(SnapshotTurns, AFewPathsAreUsedInEach) {
  save(first);
  TurnsCache second(1000);
  const SnapshotResult loaded = load_snapshot(second.view(), file);
  EXPECT_EQ(loaded.tokens, kPaths * kLength);
  EXPECT_EQ(loaded.nodes, kPaths);
  // Names, then pages, then what they are used once more.
  ASSERT_GT(second.uses.size(), 2u);
  const std::vector<int64_t> uses(second.uses.begin() + 2, second.uses.end());
  const auto at_once = int64_t{1000 / kLength + 1};
  EXPECT_LE(*std::ranges::max_element(uses), at_once);
  EXPECT_EQ(static_cast<int64_t>(uses.size()), (kPaths + at_once - 1) / at_once);
  for (int32_t i = 0; i < kPaths; ++i) {
    EXPECT_EQ(second.first_token_of_victim(), i);
    second.tree.evict(second.tree.victim());
  }
}

// What goes meanwhile is not counted as loaded, and the rest keeps its order.
TEST_F(SnapshotTurns, RequestsEvictAndUseBetweenThem) {
  save(first);
  for (const int64_t turn_tokens : {1, 200, 1000}) {
    TurnsCache second(turn_tokens);
    int turn = 0;
    std::vector<bool> gone(kPaths);
    second.between = [&] {
      if (++turn < 3 || turn % 3 != 0) return;
      const int32_t path = second.first_token_of_victim();
      if (path < kPaths) gone[static_cast<size_t>(path)] = true;
      second.tree.evict(second.tree.victim());
      second.add(TurnsCache::path(1000 + turn, 10));
    };
    const SnapshotResult loaded = load_snapshot(second.view(), file);
    EXPECT_GT(std::ranges::count(gone, true), 0);
    EXPECT_EQ(loaded.tokens + loaded.skipped_tokens, kPaths * kLength);
    EXPECT_GE(loaded.nodes, kPaths - std::ranges::count(gone, true));
    EXPECT_EQ(loaded.nodes * kLength, loaded.tokens);
    second.tree.check();
    std::vector<int32_t> order;
    for (; second.tree.victim() != kNoNode; second.tree.evict(second.tree.victim()))
      if (const int32_t path = second.first_token_of_victim(); path < kPaths) order.push_back(path);
    EXPECT_TRUE(std::ranges::is_sorted(order)) << turn_tokens << " tokens a turn";
    EXPECT_EQ(std::ssize(order), std::ranges::count(gone, false));
  }
}

// Of a namespace that is closed between two turns the rest is skipped.
TEST_F(SnapshotTurns, ANamespaceEndsBetweenThem) {
  TurnsCache guest(INT64_MAX, 1), second(1000, 1);
  ASSERT_EQ(guest.namespaces.open({"guest"}), 1);
  save(guest);
  int turn = 0;
  second.between = [&] {
    if (++turn == 4) second.namespaces.close(second.namespaces.find({"guest"}));
  };
  const SnapshotResult loaded = load_snapshot(second.view(), file);
  EXPECT_EQ(second.namespaces.find({"guest"}), -1);
  EXPECT_EQ(loaded.tokens, 11 * kLength) << "of the one turn before";
  EXPECT_EQ(loaded.skipped_tokens, (kPaths - 11) * kLength);
}

}  // namespace
}  // namespace prefix
