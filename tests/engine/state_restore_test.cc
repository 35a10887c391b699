// States that come back from a snapshot, a folder or a Redis server are those that were computed:
// equal bits over random trees.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "../cache/redis_support.h"
#include "recurrent_support.h"
#include "support/cases.h"
#include "tier_support.h"

namespace prefix {
namespace {

using namespace testing_support;

class StateRestore : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Families, StateRestore,
                         testing::Values("granite", "qwen", "nemotron", "lfm2"),
                         [](const auto& family) { return family.param; });

using Tree = std::vector<RequestSpec>;

// Runs the trees, each in one batch, and compares with `expected`. Tokens that were not computed.
int64_t run_trees(Engine& engine, const std::vector<Tree>& trees,
                  const std::vector<std::vector<RequestResult>>& expected, const char* from) {
  int64_t known = 0;
  for (size_t t = 0; t < trees.size(); ++t) {
    const auto job = run_all(engine, trees[t]);
    for (size_t i = 0; i < trees[t].size(); ++i) {
      EXPECT_TRUE(same_bits(job->result(i), expected[t][i]))
          << from << ", tree " << t << ", request " << i;
      known += job->result(i).usage.cached;
    }
  }
  engine.check();
  return known;
}

// One engine computes the trees, with a folder and a server below its memory, and saves a snapshot;
// then three run them again, each with one of these alone.
TEST_P(StateRestore, RandomTreesAreEqualBitsFromSnapshotDiskAndRedis) {
  constexpr int64_t kPages = 4000;
  const tools::CheckpointShape shape = hybrid_shape(GetParam());
  const TinyCheckpoint checkpoint(shape);
  std::optional<RedisServer> server;
  if (no_redis().empty()) server.emplace();
  const auto cold = make_engine(checkpoint, {{"threads", "1"}, {"cache", "false"}});
  std::mt19937 random(83);
  int64_t computed = 0, from_snapshot = 0, from_disk = 0, from_redis = 0;
  for (int done = 0; done < cases(250);) {
    std::vector<Tree> trees(20);
    std::vector<std::vector<RequestResult>> expected;
    for (Tree& tree : trees) {
      const size_t requests = 1 + random() % 5;
      while (tree.size() < requests)
        tree.push_back(random_hybrid_request(random, tree, shape.vocab));
      std::vector<RequestResult>& results = expected.emplace_back();
      for (const RequestSpec& spec : tree) {
        results.push_back(run_all(*cold, {spec})->result(0));
        ASSERT_EQ(results.back().status, Code::kOk) << results.back().message;
        computed += results.back().usage.prompt;
      }
    }
    done += static_cast<int>(trees.size());
    const TempFolder folder;
    const std::string snapshot = folder / "snapshot";
    EngineOptions below{{"rows", random() % 2 ? "7" : "31"}};
    if (server) server->ask({"FLUSHALL"}), below["cache_store"] = server->url();
    {
      const auto first = open_over(folder / "pages", kPages, below, checkpoint);
      run_trees(*first, trees, expected, "computed");
      first->save_snapshot(snapshot, {});
      first->shutdown(-1);
    }
    for (Tree& tree : trees) {  // in another order, so that others come first
      std::vector<RequestResult>& results = expected[static_cast<size_t>(&tree - trees.data())];
      std::reverse(tree.begin(), tree.end());
      std::reverse(results.begin(), results.end());
    }
    {
      const auto second = open_over("", kPages, {}, checkpoint);
      EXPECT_EQ(second->load_snapshot(snapshot).skipped_tokens, 0);
      from_snapshot += run_trees(*second, trees, expected, "snapshot");
    }
    from_disk +=
        run_trees(*open_over(folder / "pages", kPages, {}, checkpoint), trees, expected, "disk");
    if (server) {
      const EngineOptions store{{"cache_store", server->url()}};
      from_redis += run_trees(*open_over("", kPages, store, checkpoint), trees, expected, "redis");
    }
    if (HasFailure()) FAIL() << "trees before " << done;
  }
  std::printf("of %lld tokens: %lld from snapshots, %lld from folders, %lld from %s\n",
              static_cast<long long>(computed), static_cast<long long>(from_snapshot),
              static_cast<long long>(from_disk), static_cast<long long>(from_redis),
              server ? "a server" : "no server, for there is none");
  EXPECT_GT(from_snapshot, computed / 10);
  EXPECT_GT(from_disk, computed / 10);
  EXPECT_TRUE(!server || from_redis > computed / 10);
}

}  // namespace
}  // namespace prefix
