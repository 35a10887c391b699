// Namespaces that end: nothing of them stays, whatever still uses them.
#include <gtest/gtest.h>

#include "cache/namespaces.h"
#include "snapshot_support.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace prefix {
namespace {

using namespace testing_support;

// The tiny model has 131 tokens; two texts share nothing.
std::vector<int32_t> text(int32_t number, size_t n = 80) {
  std::vector<int32_t> tokens(n, 3);
  tokens[0] = number;
  return tokens;
}

RequestSpec generation(int32_t number, int32_t max_tokens, int32_t name_space) {
  RequestSpec spec;
  spec.task = Task::kGenerate;
  spec.tokens = text(number);
  spec.name_space = name_space;
  spec.sampling.max_tokens = max_tokens;
  spec.sampling.ignore_eos = true;
  spec.sampling.seed = 7;
  return spec;
}

TEST(NamespaceClose, ANameIsFreeAtOnceAndANumberNeverAgain) {
  Namespaces spaces;
  EXPECT_EQ(spaces.open({"a"}), 1);
  EXPECT_EQ(spaces.open({"b", "c"}), 2);
  spaces.close(1);
  EXPECT_FALSE(spaces.has(1));
  EXPECT_EQ(spaces.find({"a"}), -1);
  EXPECT_EQ(spaces.parts(1), NamespaceParts{"a"}) << "for those who still use it";
  EXPECT_EQ(spaces.open({"a"}), 3);
  EXPECT_EQ(spaces.count(), 3);
  EXPECT_EQ(spaces.numbers(), (std::vector<int32_t>{0, 2, 3}));
  spaces.close(3);
  const size_t before = spaces.metadata_bytes();
  spaces.forget(1);
  spaces.forget(3);
  EXPECT_LT(spaces.metadata_bytes(), before);
  EXPECT_EQ(spaces.open({"a"}), 4);
  expect_error(Code::kNotFound, {"namespace 3", "closed"}, [&] { spaces.require(3); });
  expect_error(Code::kNotFound, {"namespace 5", "never opened"}, [&] { spaces.require(5); });
  expect_error(Code::kNotFound, {"namespace -1", "never opened"}, [&] { spaces.require(-1); });
}

TEST(NamespaceClose, NothingOfItStays) {
  const auto engine = open_engine(100);
  const int64_t page = engine->info().kv_bytes_per_token * 32;
  const EngineStats before = engine->stats();
  const int32_t ns = engine->open_namespace("tenant");
  engine->set_cache_limits(ns, page, 20 * page);
  run_all(*engine, {logits_of(text(1), ns), logits_of(text(2), ns)});
  const CachePin pin = engine->cache_pin(ns, text(1).data(), 80, 0);
  EXPECT_EQ(engine->close_namespace(ns), 160) << "what is pinned too";
  expect_error(Code::kNotFound, {"lease"}, [&] { engine->cache_unpin(pin.lease); });
  EXPECT_EQ(engine->stats().tree_nodes, before.tree_nodes);
  EXPECT_EQ(engine->stats().tree_tokens, 0);
  EXPECT_EQ(engine->namespace_count(), 1);
  EXPECT_EQ(engine->find_namespace("tenant"), -1);
  const auto gone = [&](const auto& call) {
    expect_error(Code::kNotFound, {"namespace 1", "closed"}, call);
  };
  gone([&] { look_up(*engine, text(1), ns); });
  gone([&] { engine->close_namespace(ns); });
  gone([&] { engine->drop_namespace(ns); });
  gone([&] { engine->cache_usage(ns); });
  gone([&] { engine->set_cache_limits(ns, 0, 0); });
  gone([&] { engine->cache_pin(ns, text(1).data(), 80, 0); });
  const auto job = run_all(*engine, {logits_of(text(1), ns), logits_of(text(1))});
  EXPECT_EQ(job->result(0).status, Code::kNotFound);
  EXPECT_EQ(job->result(0).message, "namespace 1 was closed");
  EXPECT_EQ(job->result(1).status, Code::kOk) << "a bad request fails alone";
  // The same name again is another namespace.
  EXPECT_EQ(engine->open_namespace("tenant"), 2);
  EXPECT_EQ(look_up(*engine, text(1), 2).cached_tokens, 0);
  EXPECT_EQ(engine->cache_usage(2).quota_bytes, 0);
  EXPECT_EQ(engine->cache_usage(2).tokens, 0);
}

TEST(NamespaceClose, TheEmptyOneAndUnknownOnesAreRefused) {
  const auto engine = open_engine(100);
  run_all(*engine, {logits_of(text(1))});
  expect_error(Code::kInvalidArgument, {"namespace 0"}, [&] { engine->close_namespace(0); });
  expect_error(Code::kNotFound, {"namespace 1"}, [&] { engine->close_namespace(1); });
  expect_error(Code::kNotFound, {"namespace -1"}, [&] { engine->close_namespace(-1); });
  EXPECT_EQ(look_up(*engine, text(1)).cached_tokens, 80);
}

// What waits and what runs comes to its end with the same bits, and takes with it what it used.
TEST(NamespaceClose, RequestsGoOn) {
  const auto engine = open_engine(100, {{"cache_events", "1000"}});
  const auto expected = run_all(*open_engine(100), {generation(1, 200, 0), logits_of(text(2))});
  for (bool in_time = false; !in_time;) {  // the engine may be done before it can be asked
    const EngineStats before = engine->stats();
    const int32_t ns = engine->open_namespace("tenant");
    const auto job = engine->submit({generation(1, 200, ns), logits_of(text(2), ns)});
    engine->close_namespace(ns);
    in_time = !job->done();
    const int32_t again = engine->open_namespace("tenant");
    EXPECT_NE(again, ns);
    EXPECT_EQ(look_up(*engine, text(1), again).cached_tokens, 0);
    job->wait(-1);
    for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(same_bits(job->result(i), expected->result(i))) << i;
    EXPECT_EQ(engine->stats().tree_tokens, 0);
    EXPECT_EQ(engine->stats().tree_nodes, before.tree_nodes);
    EXPECT_EQ(look_up(*engine, text(1), again).cached_tokens, 0);
    engine->close_namespace(again);
  }
}

TEST(NamespaceClose, WhatARequestUsesGoesWithTheLast) {
  const auto engine = open_engine(300);
  const int32_t ns = engine->open_namespace("tenant");
  run_all(*engine, {logits_of(text(9), ns)});
  const auto job = engine->submit({generation(1, 3000, ns), generation(2, 3000, ns)});
  ASSERT_TRUE(token_comes(*job));
  EXPECT_EQ(engine->close_namespace(ns), 80) << "of the one that is over";
  EXPECT_GT(engine->stats().tree_tokens, 0);
  EXPECT_NE(engine->tree_json().find("tenant"), std::string::npos);
  job->cancel(0);
  while (!job->finished(0)) job->next_event(-1);
  EXPECT_GT(engine->stats().tree_tokens, 0) << "the other one is still there";
  job->cancel();
  job->wait(-1);
  EXPECT_EQ(engine->stats().tree_tokens, 0);
  EXPECT_EQ(engine->tree_json().find("tenant"), std::string::npos);
}

TEST(NamespaceClose, EventsTellThatItsBlocksAreGone) {
  const auto engine = open_engine(100, {{"cache_events", "1000"}});
  const int32_t ns = engine->open_namespace("tenant");
  run_all(*engine, {logits_of(text(1), ns)});
  engine->close_namespace(ns);
  std::vector<std::pair<CacheEvent::Kind, int32_t>> seen;
  for (int64_t at = 0; at < engine->dump_events().next; ++at) {
    const CacheEvent event = engine->read_event(at);
    seen.emplace_back(event.kind, event.name_space);
  }
  const std::vector<std::pair<CacheEvent::Kind, int32_t>> wanted = {{CacheEvent::kStored, ns},
                                                                    {CacheEvent::kStored, ns},
                                                                    {CacheEvent::kRemoved, ns},
                                                                    {CacheEvent::kRemoved, ns},
                                                                    {CacheEvent::kCleared, 0}};
  EXPECT_EQ(seen, wanted);
  EXPECT_TRUE(engine->dump_events().blocks.empty());
}

// A root that comes later has another key, even where it has the number of one that went.
TEST(NamespaceClose, KeysGoWithTheirRoots) {
  const auto engine = open_engine(100, {{"cache_events", "1000"}});
  const auto block_in = [&](const char* name) {
    const int32_t ns = engine->open_namespace(name);
    run_all(*engine, {logits_of(text(1), ns)});
    const uint64_t block = engine->dump_events().blocks.at(0).block;
    engine->close_namespace(ns);
    return block;
  };
  const uint64_t one = block_in("one");
  EXPECT_NE(block_in("two"), one);
  EXPECT_EQ(block_in("one"), one) << "named by the name";
}

TEST(NamespaceClose, PagesOnDiskAreFoundByTheNextOfThatName) {
  const testing_support::TempFolder folder;
  const std::vector<int32_t> prompt = text(1, 97);
  {
    const auto engine = open_over(folder.path());
    const int32_t ns = engine->open_namespace("tenant");
    run_all(*engine, {logits_of(prompt, ns)});
    EXPECT_EQ(engine->close_namespace(ns), 97);
    engine->shutdown(0);  // what was given to the folder is there
  }
  const auto engine = open_over(folder.path());
  run_all(*engine, {logits_of(prompt, engine->open_namespace("other"))});
  EXPECT_EQ(engine->stats().fetched_tokens, 0);
  run_all(*engine, {logits_of(prompt, engine->open_namespace("tenant"))});
  EXPECT_EQ(engine->stats().fetched_tokens, 96);
}

TEST(NamespaceClose, IsRefusedAfterTheEngineWasShutDownAsAPinIs) {
  const auto engine = open_engine(100);
  const int32_t ns = engine->open_namespace("tenant");
  run_all(*engine, {logits_of(text(1), ns)});
  const CachePin pin = engine->cache_pin(ns, text(1).data(), 80, 0);
  engine->shutdown(0);
  const auto refused = [](const auto& call) { expect_error(Code::kMisuse, {"shut down"}, call); };
  refused([&] { engine->close_namespace(ns); });
  refused([&] { engine->cache_unpin(pin.lease); });
  refused([&] { engine->cache_pin(ns, text(1).data(), 80, 0); });
  refused([&] { engine->open_namespace("other"); });
}

TEST(NamespaceClose, SnapshotsAreOfWhatIsOpen) {
  const testing_support::TempFolder folder;
  const auto engine = open_engine(100);
  for (const char* name : {"a", "b", "c"})
    run_all(*engine, {logits_of(text(1), engine->open_namespace(name))});
  engine->close_namespace(2);
  const SnapshotResult saved = engine->save_snapshot(folder / "snapshot", {});
  EXPECT_EQ(saved.namespaces, 3);
  EXPECT_EQ(saved.tokens, 160);
  expect_error(Code::kNotFound, {"namespace 2"},
               [&] { engine->save_snapshot(folder / "snapshot", {1, 2}); });
  engine->close_namespace(1);
  engine->load_snapshot(folder / "snapshot");
  EXPECT_EQ(look_up(*engine, text(1), engine->find_namespace("a")).cached_tokens, 80);
  EXPECT_EQ(engine->namespace_count(), 3);
}

// One namespace for each user, for the life of the process.
TEST(NamespaceClose, AHundredThousandTakeNoMemory) {
  const auto engine = open_engine(3000, {{"rows", "512"}, {"cache_events", "100"}});
  const int32_t rounds = quick() ? 20 : 200;
  int64_t first = 0, last = 0;
  for (int32_t round = 0; round < rounds; ++round) {
    std::vector<int32_t> spaces;
    std::vector<RequestSpec> batch;
    for (int32_t i = 0; i < 500; ++i) {
      spaces.push_back(engine->open_namespace(cat("user ", round * 500 + i)));
      batch.push_back(logits_of(text(i % 100, i % 50 == 0 ? 33 : 1), spaces.back()));
      if (i % 20 == 0) engine->set_cache_limits(spaces.back(), 0, 1 << 20);
    }
    const auto job = run_all(*engine, batch);
    for (size_t i = 0; i < batch.size(); ++i) {
      ASSERT_EQ(job->result(i).status, Code::kOk) << job->result(i).message;
      if (i % 30 == 0) engine->cache_pin(spaces[i], batch[i].tokens.data(), 1, 0);
      ASSERT_EQ(engine->close_namespace(spaces[i]), static_cast<int64_t>(batch[i].tokens.size()));
    }
    ASSERT_EQ(engine->namespace_count(), 1);
    ASSERT_EQ(engine->stats().tree_nodes, 0);
    last = engine->stats().metadata_bytes;
    if (round == 0) first = last;
  }
  EXPECT_EQ(last, first);
}

}  // namespace
}  // namespace prefix
