// Why tokens had to be computed: every reason is told where it holds, of a request and of the
// engine. That they are all that was computed is in misses_of_requests_test.cc.
#include "cache/miss_reasons.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "misses.h"
#include "snapshot_support.h"
#include "support/manual_clock.h"

namespace prefix {
namespace {

using namespace testing_support;

Misses of_engine(Engine& engine) { return Misses::of(engine.stats()); }

struct MissReasonsTest : testing::Test {
  std::vector<int32_t> text(int32_t number, size_t length = 96) {
    std::vector<int32_t> tokens(length, 3);
    tokens[0] = number;
    return tokens;
  }
  // Why the tokens of one request were computed, all of which must be accounted for.
  Misses run(Engine& engine, const RequestSpec& spec) {
    const Misses before = of_engine(engine);
    const Usage usage = run_all(engine, {spec})->result(0).usage;
    const Misses misses = Misses::of(usage.missed);
    EXPECT_EQ(misses.sum(), usage.computed);
    EXPECT_EQ(of_engine(engine) - before, misses);
    return misses;
  }
  Misses run(Engine& engine, const std::vector<int32_t>& tokens, int32_t name_space = 0) {
    return run(engine, logits_of(tokens, name_space));
  }
};

TEST_F(MissReasonsTest, FirstSeenAndReadAgain) {
  const auto engine = open_engine(100);
  EXPECT_EQ(run(*engine, text(1, 100)), Misses{.first_seen = 100});
  EXPECT_EQ(run(*engine, text(1, 100)), Misses{.granularity = 1});
  EXPECT_EQ(run(*engine, text(1, 130)), Misses{.first_seen = 30});
  RequestSpec scores = logits_of(text(1, 130));
  scores.task = Task::kLogprobs;
  scores.from = 100;
  EXPECT_EQ(run(*engine, scores), Misses{.granularity = 30});
  RequestSpec warm = logits_of(text(1, 130));
  warm.task = Task::kWarm;
  EXPECT_EQ(run(*engine, warm), Misses{});
}

TEST_F(MissReasonsTest, OnlyAnotherNamespaceHadIt) {
  const auto engine = open_engine(100);
  const int32_t other = engine->open_namespace("other"), third = engine->open_namespace("third");
  run(*engine, text(1));
  EXPECT_EQ(run(*engine, text(1), other), Misses{.name_space = 96});
  EXPECT_EQ(run(*engine, text(1, 128), third), (Misses{.first_seen = 32, .name_space = 96}));
  EXPECT_EQ(run(*engine, text(1)), Misses{.granularity = 1});
}

TEST_F(MissReasonsTest, ItMadeRoomForOthers) {
  const auto engine = open_engine(4);
  run(*engine, text(1));
  run(*engine, text(2));  // takes two of the three pages
  EXPECT_EQ(run(*engine, text(1)), Misses{.budget = 64});
  EXPECT_EQ(run(*engine, text(3, 128)), Misses{.first_seen = 128});
  EXPECT_EQ(run(*engine, text(1)), Misses{.budget = 96});
  EXPECT_EQ(run(*engine, text(2, 128)), (Misses{.first_seen = 32, .budget = 96}));
}

TEST_F(MissReasonsTest, ItMadeRoomWithinItsQuota) {
  const auto engine = open_engine(100);
  const int32_t space = engine->open_namespace("small");
  engine->set_cache_limits(space, 0, 128 * engine->info().kv_bytes_per_token);
  run(*engine, text(1), space);
  run(*engine, text(2), space);
  EXPECT_EQ(run(*engine, text(1), space), Misses{.budget = 64});
}

TEST_F(MissReasonsTest, ItWasDropped) {
  const auto engine = open_engine(100);
  const int32_t space = engine->open_namespace("other");
  run(*engine, text(1), space);
  engine->cache_trim(0);
  EXPECT_EQ(run(*engine, text(1), space), Misses{.evicted = 96});
  engine->drop_namespace(space);
  EXPECT_EQ(run(*engine, text(1), space), Misses{.evicted = 96});
  engine->cache_evict(space, text(1).data(), 40);
  EXPECT_EQ(run(*engine, text(1), space), Misses{.evicted = 56});
}

// The page before a cut was kept: what happens to it later is another reason.
TEST_F(MissReasonsTest, ItWasKeptWhenItsTailMadeRoom) {
  const auto engine = open_engine(4);
  run(*engine, text(1));
  run(*engine, text(2, 64));  // takes the last of the three pages, and the free one
  EXPECT_EQ(look_up(*engine, text(1)).cached_tokens, 64);
  engine->cache_trim(0);
  EXPECT_EQ(run(*engine, text(1)), (Misses{.budget = 32, .evicted = 64}));
}

// What was noted of a path serves those that make room after it, as long as nothing new has come.
TEST(MissReasons, WhatMakesRoomOneAfterTheOtherIsHashedOnce) {
  constexpr int32_t kPath = 40, kLeaves = 50;
  PagePool pool(200);
  Tree tree(pool);
  const NodeId root = tree.add_root();
  MissReasons misses;
  TreeObserver observer;
  observer.evicting = [&](NodeId id, int32_t from, EvictReason) {
    misses.made_room(tree, id, from);
  };
  tree.set_observer(std::move(observer));
  const auto pages = [](int32_t first, int32_t n) {
    std::vector<int32_t> tokens(static_cast<size_t>(n * kPageTokens), 3);
    tokens[0] = first;
    return tokens;
  };
  const auto behind = [&](std::vector<int32_t> tokens, int32_t first, int32_t n) {
    const std::vector<int32_t> more = pages(first, n);
    tokens.insert(tokens.end(), more.begin(), more.end());
    return tokens;
  };
  const auto count = [&](const std::vector<int32_t>& tokens) {
    MissCounts counts;
    misses.count(0, {}, tokens, 0, counts);
    return Misses::of(counts);
  };
  const auto cache = [&](const std::vector<int32_t>& tokens) {
    count(tokens);
    const NodeId node = tree.attach(tree.match(root, tokens), tokens, {});
    tree.set_computed(node, tree.node(node).length);
    tree.unlock(node, true);
  };
  const std::vector<int32_t> path = pages(1, kPath);
  cache(path);
  for (int32_t i = 0; i < kLeaves; ++i) cache(behind(path, 100 + i, 1));
  tree.trim(kPath);
  EXPECT_EQ(misses.hashed_pages(), kPath + kLeaves);
  for (int32_t left = kPath - 1; left >= 30; --left) tree.trim(left);
  EXPECT_EQ(misses.hashed_pages(), kPath + kLeaves) << "shorter paths have nothing new";
  EXPECT_EQ(count(behind(path, 100, 1)), (Misses{.budget = 11 * 32, .evicted = 30 * 32}));
  EXPECT_EQ(count(behind(path, 149, 1)), (Misses{.budget = 1 * 32, .evicted = 40 * 32}))
      << "counted once more since";

  const std::vector<int32_t> kept(path.begin(), path.begin() + 30 * kPageTokens);
  const std::vector<int32_t> other = behind(kept, 7, 10);
  cache(other);
  tree.trim(25);
  EXPECT_EQ(count(other), (Misses{.budget = 15 * 32, .evicted = 25 * 32}));
}

// They fill no page, and stand in the table as a whole.
TEST_F(MissReasonsTest, ShortPromptsHaveReasonsToo) {
  const auto engine = open_engine(4);
  const int32_t other = engine->open_namespace("other");
  EXPECT_EQ(run(*engine, text(1, 20)), Misses{.first_seen = 20});
  EXPECT_EQ(run(*engine, text(1, 20), other), Misses{.name_space = 20});
  engine->cache_trim(0);
  EXPECT_EQ(run(*engine, text(1, 20)), Misses{.evicted = 20});
  for (int32_t i = 2; i < 10; ++i) run(*engine, text(i, 20));
  EXPECT_EQ(run(*engine, text(1, 20)), Misses{.budget = 20});
}

TEST_F(MissReasonsTest, ItExpired) {
  ManualClock clock;
  const auto engine = make_engine(tiny_checkpoint(), {}, clock.now());
  RequestSpec brief = logits_of(text(1));
  brief.cache_ttl_ms = 100;
  run(*engine, brief);
  clock.advance(std::chrono::milliseconds(100));
  EXPECT_EQ(run(*engine, text(1)), Misses{.evicted = 96});
}

TEST_F(MissReasonsTest, ItWasNotKept) {
  const auto engine = open_engine(100, {{"cache", "false"}});
  EXPECT_EQ(run(*engine, text(1)), Misses{.first_seen = 96});
  EXPECT_EQ(run(*engine, text(1)), Misses{.evicted = 96});
}

// The prompt belongs to the first choice; the other choices are tokens of their own. The third shares
// what the first one keeps: all but its last token, which is scored and not stored.
TEST_F(MissReasonsTest, ChoicesCountTooAndOnce) {
  const auto engine = open_engine(100, {{"rows", "1000"}});
  RequestSpec choices = logits_of(text(1, 64));
  choices.task = Task::kChoices;
  choices.choices = {text(5, 40), text(6, 3), text(5, 50)};
  EXPECT_EQ(run(*engine, choices), Misses{.first_seen = 64 + 40 + 3 + 11});
  engine->cache_evict(0, choices.tokens.data(), 64);
  const Misses again = run(*engine, choices);
  // What does not fill a page after what is found is not known again.
  EXPECT_EQ(again, (Misses{.first_seen = 3 + 11, .evicted = 40, .granularity = 1}));
}

// An oracle with a set of all pages that were ever asked for.
TEST_F(MissReasonsTest, FirstSeenIsWhatNobodyAskedForBefore) {
  std::mt19937 random(73);
  const auto engine = open_engine(40);
  std::set<std::vector<int32_t>> seen;
  std::vector<RequestSpec> known;
  int64_t expected = 0;
  for (int i = 0; i < cases(600); ++i) {
    std::vector<int32_t> tokens = random_prompt(random, known);
    tokens.resize(std::max<size_t>(32, tokens.size() / 32 * 32), 1);
    known.push_back(logits_of(tokens));
    const auto there = static_cast<size_t>(look_up(*engine, tokens).cached_tokens);
    for (size_t end = 32; end <= tokens.size(); end += 32)
      if (seen.insert(first_tokens(tokens, end)).second)
        expected += static_cast<int64_t>(std::min<size_t>(32, end - std::min(there, end)));
    run_all(*engine, {known.back()});
  }
  // A page may lose its place in the table to another one, and counts as new then.
  EXPECT_GE(of_engine(*engine).first_seen, expected);
  EXPECT_LE(of_engine(*engine).first_seen, expected + expected / 100);
}

// What include/prefix.h promises: of the last 32,000 pages nearly all are known,
// whatever came before.
TEST(MissReasonsOfManyPages, TheLastOnesAreRemembered) {
  constexpr int32_t kPages = 32000;
  MissReasons reasons;
  MissCounts counts;
  const auto ask = [&](int32_t first, int32_t end) {
    std::vector<int32_t> tokens(kPageTokens, 1);
    for (tokens[0] = first; tokens[0] < end; ++tokens[0]) reasons.count(0, {}, tokens, 0, counts);
  };
  ask(0, 3 * kPages);
  EXPECT_EQ(counts.first_seen, 3 * kPages * kPageTokens);
  ask(2 * kPages, 3 * kPages);
  EXPECT_GT(counts.evicted, kPages * kPageTokens / 100 * 95);
}

}  // namespace
}  // namespace prefix
