// Whole texts of models whose tokens see those behind them: the same text asked again is answered
// from what was read of it, with the bits that computing it has, and nothing else is.
#include "engine/schedule/texts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "cache/kv_memory.h"
#include "engine_support.h"
#include "ops/devices.h"
#include "random_adapter.h"
#include "support/expect_error.h"
#include "support/golden.h"
#include "support/manual_clock.h"
#include "support/temp_folder.h"

namespace prefix {
namespace {

using namespace testing_support;
using Tokens = std::vector<int32_t>;

// --- rows
// -----------------------------------------------------------------------------------------

TEST(TextRows, AreFoundByTheirPositions) {
  const TextRows all{{TextRows::kMean, 0, 4, 7}, {1, 1, 2, 2, 3, 3, 4, 4}};
  EXPECT_EQ(all.width(), 2u);
  EXPECT_EQ(rows_at(all, std::vector{0, 7}).rows, (std::vector<float>{2, 2, 4, 4}));
  EXPECT_EQ(rows_at(all, std::vector{TextRows::kMean}).rows, (std::vector<float>{1, 1}));
  for (const Tokens& missing : {Tokens{1}, Tokens{0, 5}, Tokens{8}, Tokens{}})
    EXPECT_TRUE(rows_at(all, missing).positions.empty());
  EXPECT_TRUE(rows_at({}, std::vector{0}).positions.empty());
}

TEST(TextRows, OfTwoReadsAreMergedInOrder) {
  const TextRows a{{0, 4}, {2, 3}}, b{{TextRows::kMean, 4, 7}, {1, 3, 4}};
  for (const TextRows& both : {merged(a, b), merged(b, a)}) {
    EXPECT_EQ(both.positions, (Tokens{TextRows::kMean, 0, 4, 7}));
    EXPECT_EQ(both.rows, (std::vector<float>{1, 2, 3, 4}));
  }
  EXPECT_EQ(merged({}, a).rows, a.rows);
}

// The bytes of a state are more than a page, or less, and come back as they were.
TEST(TextRows, AreKeptInPagesOfTheCache) {
  const auto device = ops::make_cpu_device({ops::kBf16Types, "auto"});
  const ops::KvLayout layout{ops::KvType::kBf16, 1, 1, 32};  // 4,096 bytes a page
  PagePool pool(6);
  KvMemory kv(*device, layout, 6);
  Tree tree(pool, {.whole = true});
  const NodeId root = tree.add_root();
  Texts texts(tree, pool, kv, 300);
  std::mt19937 random(1);
  const auto rows = [&](std::vector<int32_t> positions) {
    TextRows some{std::move(positions), {}};
    for (size_t i = 0; i < some.positions.size() * 300; ++i)
      some.rows.push_back(static_cast<float>(random()));
    return some;
  };
  const Tokens text = random_tokens(random, 50, 100);
  const TextRows mean = rows({TextRows::kMean}), most = rows({0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  texts.keep(root, text, mean, {});
  EXPECT_EQ(texts.find(root, text).rows, mean.rows);
  EXPECT_EQ(pool.used(), 1);
  EXPECT_TRUE(pool.take_dirty().empty());
  texts.keep(root, text, most, {});
  EXPECT_EQ(texts.find(root, text).positions.size(), 11u);
  EXPECT_EQ(rows_at(texts.find(root, text), most.positions).rows, most.rows);
  EXPECT_EQ(pool.used(), 4);
  // What does not fit beside leaves what is there.
  const Tokens other = random_tokens(random, 50, 100);
  texts.keep(root, other, mean, {});
  EXPECT_EQ(texts.find(root, other).rows, mean.rows);
  std::vector<int32_t> all(60);
  for (int32_t i = 0; i < 60; ++i) all[static_cast<size_t>(i)] = i;
  texts.keep(root, other, rows(all), {});
  EXPECT_EQ(rows_at(texts.find(root, other), mean.positions).rows, mean.rows);
  // Frames that were used before are not zeroed when they have been written.
  texts.keep(root, random_tokens(random, 20, 100), most, {});
  EXPECT_TRUE(pool.take_dirty().empty());
  tree.check();
  // A lease keeps what it pinned.
  const NodeId node = tree.state_of(root, other);
  if (node != kNoNode) {
    tree.pin_state(node);
    texts.keep(root, other, rows({3}), {});
    EXPECT_EQ(texts.find(root, other).positions, mean.positions);
    tree.unpin_state(node);
  }
}

// --- engines
// --------------------------------------------------------------------------------------

RequestSpec embedding(Tokens tokens, Pooling pooling = Pooling::kMean, int32_t name_space = 0) {
  RequestSpec spec;
  spec.task = Task::kEmbed;
  spec.tokens = std::move(tokens);
  spec.pooling = pooling;
  spec.name_space = name_space;
  return spec;
}

std::shared_ptr<Engine> open(OptionList list, const char* model = "gemma3-embedding",
                             Now now = Clock::now) {
  return Engine::create(golden_models() + "/" + model, make_options(list), nullptr, std::move(now));
}

RequestResult run(Engine& engine, const RequestSpec& spec) {
  return run_all(engine, {spec})->result(0);
}

Tokens text(size_t n, unsigned seed = 1) {
  std::mt19937 random(seed);
  return random_tokens(random, n, 131);
}

TEST(Texts, TheSameTextIsNotComputedAgain) {
  const auto engine = open({});
  const RequestSpec spec = embedding(text(100));
  const RequestResult first = run(*engine, spec);
  const int64_t rows = engine->stats().rows, steps = engine->stats().steps;
  const auto job = run_all(*engine, {spec});
  const RequestResult& again = job->result(0);
  EXPECT_TRUE(same_bits(again, first));
  EXPECT_EQ(first.usage.computed, 100);
  EXPECT_EQ(again.usage.cached, 100);
  EXPECT_EQ(again.usage.computed + again.usage.shared, 0);
  EXPECT_EQ(again.finish, first.finish);
  EXPECT_EQ(job->totals().tokens_cached, 100);
  EXPECT_EQ(job->totals().steps, 0);
  const EngineStats stats = engine->stats();
  EXPECT_EQ(stats.rows, rows);
  EXPECT_EQ(stats.steps, steps);
  EXPECT_EQ(stats.tokens_cached, 100);
  EXPECT_EQ(stats.tokens_computed, 100);
  EXPECT_EQ(stats.states, 1);
  EXPECT_EQ(stats.state_bytes, stats.kv_bytes);
  EXPECT_EQ(stats.pages_used, 1) << "keys and values are not kept";
  EXPECT_EQ(job->next_event(0)->kind, Event::kStarted);
  EXPECT_EQ(job->next_event(0)->kind, Event::kFinished);
  engine->check();
}

// One that only begins like it is.
TEST(Texts, NoOtherTextIsAnsweredByIt) {
  const auto engine = open({});
  const auto cold = open({{"cache", "false"}});
  const Tokens whole = text(100);
  run(*engine, embedding(whole));
  Tokens longer = whole, other = whole;
  longer.push_back(5);
  other[50] ^= 1;
  for (const Tokens& tokens : {first_tokens(whole, 99), first_tokens(whole, 64), longer, other}) {
    const RequestResult result = run(*engine, embedding(tokens));
    EXPECT_EQ(result.usage.computed, static_cast<int64_t>(tokens.size()));
    EXPECT_TRUE(same_bits(result, run(*cold, embedding(tokens))));
  }
  EXPECT_EQ(run(*engine, embedding(whole)).usage.cached, 100);
  EXPECT_EQ(cold->stats().pages_used, 0);
  engine->check();
}

// Dimensions, normalising, Dense layers and heads come after what is kept.
TEST(Texts, WhatIsMadeOfARowMayBeAnotherThing) {
  const auto engine = open({});
  const auto cold = open({{"cache", "false"}});
  RequestSpec spec = embedding(text(40));
  run(*engine, spec);
  std::vector<RequestSpec> others(4, spec);
  others[0].normalize = false;
  others[1].dense = false;
  others[2].dense = false;
  others[2].dimensions = 8;
  others[3].dimensions = 5;
  for (const RequestSpec& other : others) {
    const RequestResult result = run(*engine, other);
    EXPECT_EQ(result.usage.cached, 40);
    EXPECT_TRUE(same_bits(result, run(*cold, other)));
    EXPECT_FALSE(same_bits(result, run(*cold, spec)));
  }
}

TEST(Texts, OtherRowsAreComputedAndAdded) {
  const auto engine = open({});
  const auto cold = open({{"cache", "false"}});
  RequestSpec all = embedding(text(40), Pooling::kTokens), some = all;
  some.positions = {0, 7, 39};
  const auto expect = [&](const RequestSpec& spec, int64_t cached) {
    const RequestResult result = run(*engine, spec);
    EXPECT_EQ(result.usage.cached, cached);
    EXPECT_EQ(result.usage.computed, 40 - cached);
    EXPECT_TRUE(same_bits(result, run(*cold, spec)));
    engine->check();
  };
  expect(embedding(text(40), Pooling::kLast), 0);
  expect(embedding(text(40), Pooling::kMean), 0);
  expect(some, 0);
  expect(embedding(text(40), Pooling::kLast), 40);
  expect(embedding(text(40), Pooling::kMean), 40);
  expect(embedding(text(40), Pooling::kFirst), 40);  // the row at 0 was read for `some`
  some.positions = {7};
  expect(some, 40);
  some.positions = {8};
  expect(some, 0);
  expect(all, 0);
  some.positions = {20, 21};
  expect(some, 40);
  expect(all, 40);
  EXPECT_EQ(engine->stats().states, 1);
}

TEST(Texts, EqualOnesThatRunTogetherAreComputedOnce) {
  const auto engine = open({{"rows", "64"}});
  const RequestSpec spec = embedding(text(60));
  std::vector<RequestSpec> batch(5, spec);
  batch[3].pooling = Pooling::kLast;
  batch[4].tokens = text(60, 2);
  const auto job = run_all(*engine, batch);
  EXPECT_EQ(job->totals().tokens_computed, 120);
  EXPECT_EQ(job->totals().tokens_shared, 180);
  EXPECT_EQ(engine->stats().rows, 120);
  const auto cold = open({{"sharing", "false"}});
  for (size_t i = 0; i < batch.size(); ++i)
    EXPECT_TRUE(same_bits(job->result(i), run(*cold, batch[i]))) << i;
  EXPECT_EQ(run(*engine, batch[3]).usage.cached, 60) << "what all of them read is kept";
  EXPECT_EQ(run(*engine, batch[0]).usage.cached, 60);
  engine->check();
}

TEST(Texts, BitsAreTheSameWhateverIsKept) {
  for (const char* model : {"gemma3-embedding", "qwen2-bidirectional-window"}) {
    const auto alone = open({{"cache", "false"}, {"sharing", "false"}, {"threads", "1"}}, model);
    const int64_t page = 32 * alone->info().kv_bytes_per_token;
    const auto kept = open({{"cache_bytes", std::to_string(60 * page)}}, model);
    const auto little =
        open({{"cache_bytes", std::to_string(9 * page)}, {"rows", "257"}, {"threads", "2"}}, model);
    std::mt19937 random(7);
    std::vector<Tokens> texts;
    for (int i = 0; i < cases(60); ++i) {
      std::vector<RequestSpec> batch;
      for (size_t k = 1 + random() % 6; k > 0; --k) {
        if (texts.empty() || random() % 3 == 0)
          texts.push_back(random_tokens(random, 1 + random() % 257, 131));
        if (random() % 4 == 0) {
          const Tokens& other = texts[random() % texts.size()];
          texts.push_back(first_tokens(other, 1 + random() % other.size()));
        }
        const size_t recent = std::min<size_t>(texts.size(), 12);
        batch.push_back(embedding(texts[texts.size() - 1 - random() % recent],
                                  static_cast<Pooling>(random() % 4)));
        if (batch.back().pooling == Pooling::kTokens && random() % 2)
          batch.back().positions = {static_cast<int32_t>(random() % batch.back().tokens.size())};
        batch.back().normalize = random() % 2 == 0;
      }
      const auto many = run_all(*kept, batch), few = run_all(*little, batch);
      for (size_t k = 0; k < batch.size(); ++k) {
        const RequestResult want = run(*alone, batch[k]);
        ASSERT_EQ(want.status, Code::kOk) << want.message;
        ASSERT_TRUE(same_bits(many->result(k), want))
            << model << " batch " << i << " request " << k;
        ASSERT_TRUE(same_bits(few->result(k), want)) << model << " batch " << i << " request " << k;
        const Usage& u = many->result(k).usage;
        ASSERT_EQ(u.prompt, u.cached + u.shared + u.computed);
      }
      kept->check();
      little->check();
    }
    EXPECT_GT(kept->stats().tokens_cached, kept->stats().tokens_given / 8);
    EXPECT_GT(little->stats().tokens_cached, 0);
    EXPECT_GT(little->stats().state_evictions, 0);
    EXPECT_LE(little->stats().pages_used, 9);
    little->cache_trim(0);
    EXPECT_EQ(little->stats().pages_used, 0);
    EXPECT_EQ(little->stats().tree_tokens, 0);
    little->check();
  }
}

TEST(Texts, NothingCrossesNamespacesOrAdapters) {
  const TinyCheckpoint checkpoint;
  const TempFolder folder;
  tools::write_adapter(folder.path(), {}, {});
  const auto engine = make_engine(checkpoint, {{"attention", "bidirectional"}});
  engine->load_adapter("one", folder.path());
  const int32_t tenant = engine->open_namespace("tenant");
  const RequestSpec spec = embedding(text(50));
  RequestSpec theirs = spec, adapted = spec;
  theirs.name_space = tenant;
  adapted.adapter = "one";
  // In one batch and one after the other.
  const auto job = run_all(*engine, {spec, theirs, adapted});
  EXPECT_EQ(job->totals().tokens_computed, 150);
  EXPECT_TRUE(same_bits(job->result(0), job->result(1)));
  EXPECT_FALSE(same_bits(job->result(0), job->result(2)));
  for (size_t i = 0; i < 3; ++i) {
    const RequestSpec& again = i == 0 ? spec : i == 1 ? theirs : adapted;
    const RequestResult result = run(*engine, again);
    EXPECT_EQ(result.usage.cached, 50);
    EXPECT_TRUE(same_bits(result, job->result(i)));
  }
  EXPECT_EQ(engine->drop_namespace(tenant), 50);
  EXPECT_EQ(run(*engine, theirs).usage.cached, 0);
  EXPECT_EQ(run(*engine, spec).usage.cached, 50);
  EXPECT_EQ(engine->close_namespace(tenant), 50);
  engine->unload_adapter("one");
  EXPECT_EQ(engine->stats().states, 1);
  engine->check();
}

TEST(Texts, ALookUpAndAPinAreForWholeTexts) {
  const auto engine = open({});
  const Tokens whole = text(100);
  expect_error(Code::kNotFound, {"100 tokens"},
               [&] { engine->cache_pin(0, whole.data(), whole.size(), 0); });
  run(*engine, embedding(whole));
  run(*engine, embedding(first_tokens(whole, 60)));
  EXPECT_EQ(look_up(*engine, whole).cached_tokens, 100);
  EXPECT_EQ(look_up(*engine, first_tokens(whole, 60)).cached_tokens, 60);
  EXPECT_EQ(look_up(*engine, first_tokens(whole, 61)).cached_tokens, 0);
  Tokens longer = whole;
  longer.push_back(1);
  EXPECT_EQ(look_up(*engine, longer).cached_tokens, 0);
  expect_error(Code::kNotFound, {"61 tokens"}, [&] { engine->cache_pin(0, whole.data(), 61, 0); });
  const CachePin pin = engine->cache_pin(0, whole.data(), 60, 0);
  EXPECT_EQ(pin.tokens, 60);
  engine->cache_trim(0);
  engine->check();
  EXPECT_EQ(look_up(*engine, whole).cached_tokens, 0);
  EXPECT_EQ(run(*engine, embedding(first_tokens(whole, 60))).usage.cached, 60);
  engine->cache_unpin(pin.lease);
  engine->cache_trim(0);
  EXPECT_EQ(engine->stats().pages_used, 0);
  // What continues a prefix goes, and not the prefix.
  run(*engine, embedding(whole));
  run(*engine, embedding(first_tokens(whole, 60)));
  EXPECT_EQ(engine->cache_evict(0, whole.data(), 60), 40);
  EXPECT_EQ(look_up(*engine, first_tokens(whole, 60)).cached_tokens, 60);
  EXPECT_EQ(engine->cache_evict(0, whole.data(), 10), 60);
  EXPECT_EQ(engine->stats().tree_tokens, 0);
  engine->check();
}

TEST(Texts, TimesToLiveAndQuotasHold) {
  ManualClock clock;
  const auto engine = open({}, "gemma3-embedding", clock.now());
  RequestSpec spec = embedding(text(50));
  spec.cache_ttl_ms = 1000;
  run(*engine, spec);
  clock.advance(std::chrono::milliseconds(900));
  EXPECT_EQ(run(*engine, spec).usage.cached, 50);  // used, so it stays on
  clock.advance(std::chrono::milliseconds(900));
  EXPECT_EQ(run(*engine, spec).usage.cached, 50);
  clock.advance(std::chrono::milliseconds(1000));
  EXPECT_EQ(run(*engine, spec).usage.cached, 0);

  const int64_t token = engine->info().kv_bytes_per_token;
  const int32_t tenant = engine->open_namespace("tenant");
  engine->set_cache_limits(tenant, 0, 200 * token);
  for (unsigned i = 0; i < 6; ++i) {
    const RequestResult result = run(*engine, embedding(text(50, 10 + i), Pooling::kMean, tenant));
    ASSERT_EQ(result.status, Code::kOk) << result.message;
    EXPECT_LE(engine->cache_usage(tenant).tokens, 100);
  }
  EXPECT_EQ(run(*engine, embedding(text(50, 15), Pooling::kMean, tenant)).usage.cached, 50);
  EXPECT_EQ(run(*engine, embedding(text(50, 10), Pooling::kMean, tenant)).usage.cached, 0);
  EXPECT_EQ(run(*engine, embedding(text(201), Pooling::kMean, tenant)).status, Code::kCacheFull);
  EXPECT_EQ(run(*engine, spec).usage.cached, 50) << "another namespace";
  engine->check();
}

TEST(Texts, StatsTellWhyATextWasComputed) {
  const auto engine = open({});
  const Tokens whole = text(100);
  run(*engine, embedding(whole));
  run(*engine, embedding(first_tokens(whole, 96)));
  EXPECT_EQ(engine->stats().miss_first_seen, 196);
  const int32_t tenant = engine->open_namespace("tenant");
  run(*engine, embedding(whole, Pooling::kMean, tenant));
  EXPECT_EQ(engine->stats().miss_namespace, 100);
  engine->cache_trim(0);
  run(*engine, embedding(first_tokens(whole, 96)));
  EXPECT_EQ(engine->stats().miss_evicted, 96);
  const auto little =
      open({{"cache_bytes", std::to_string(4 * 32 * engine->info().kv_bytes_per_token)},
            {"rows", "128"}});
  run(*little, embedding(whole));
  for (unsigned i = 0; i < 4; ++i) run(*little, embedding(text(100, 20 + i)));
  const int64_t before = little->stats().miss_budget;
  run(*little, embedding(whole));
  EXPECT_EQ(little->stats().miss_budget - before, 100);
}

TEST(Texts, OptionsThatKeepNothingKeepNothing) {
  for (const char* option : {"cache", "sharing"}) {
    const auto engine = open({{option, "false"}});
    const RequestSpec spec = embedding(text(64));
    const auto job = run_all(*engine, {spec, spec});
    run(*engine, spec);
    run_all(*engine, {embedding(text(64, 2)), spec, spec});  // nothing stands for those that ended
    const bool shares = std::string(option) == "cache";      // within a batch
    EXPECT_EQ(engine->stats().tokens_computed, shares ? 4 * 64 : 6 * 64);
    EXPECT_EQ(engine->stats().tokens_cached, 0);
    EXPECT_EQ(engine->stats().pages_used, 0);
    engine->check();
  }
}

// A warmed text says nothing of what will be read.
TEST(Texts, WhatReadsNothingKeepsNothing) {
  const auto engine = open({});
  RequestSpec warm = embedding(text(64));
  warm.task = Task::kWarm;
  EXPECT_EQ(run(*engine, warm).status, Code::kOk);
  EXPECT_EQ(engine->stats().pages_used, 0);
  EXPECT_EQ(run(*engine, embedding(text(64))).usage.cached, 0);
  EXPECT_EQ(run(*engine, warm).usage.cached, 0);
}

TEST(Texts, OneThatIsCancelledLeavesTheOthersTheirRows) {
  const auto engine = open({{"rows", "64"}});
  const RequestSpec spec = embedding(text(60));
  for (int i = 0; i < 20; ++i) {
    std::vector<RequestSpec> batch(8, spec);
    batch[0].tokens[0] = i;  // before the equal ones
    for (size_t k = 1; k < batch.size(); ++k) batch[k].tokens[1] = i;
    const auto job = engine->submit(batch);
    job->cancel(1);
    job->wait(-1);
    for (size_t k = 2; k < batch.size(); ++k) {
      ASSERT_EQ(job->result(k).status, Code::kOk) << job->result(k).message;
      ASSERT_TRUE(same_bits(job->result(k), job->result(2)));
    }
    engine->check();
  }
}

TEST(Texts, SnapshotsAndEventsSayThatTheyHaveNone) {
  const auto engine = open({{"cache_events", "100"}});
  run(*engine, embedding(text(64)));
  const TempFolder folder;
  expect_error(Code::kMisuse, {"bidirectional", "snapshot"},
               [&] { engine->save_snapshot(folder / "s", {}); });
  expect_error(Code::kMisuse, {"bidirectional", "events"}, [&] { engine->read_event(0); });
  expect_error(Code::kMisuse, {"bidirectional"}, [&] { engine->dump_events(); });
}

// The keys of a layer are not read again when the next one is computed, so a page has one layer's.
TEST(Texts, KeysTakeThePlaceOfOneLayer) {
  const TinyCheckpoint checkpoint;
  const auto causal = make_engine(checkpoint);
  const OptionList options = {{"attention", "bidirectional"}};
  const auto whole = make_engine(checkpoint, options);
  EXPECT_EQ(whole->info().kv_bytes_per_token * whole->info().layers,
            causal->info().kv_bytes_per_token);
  EXPECT_GT(whole->info().layers, 1);
  EXPECT_EQ(Engine::estimate(checkpoint.path(), make_options(options)).kv_bytes_per_token,
            whole->info().kv_bytes_per_token);
}

}  // namespace
}  // namespace prefix
