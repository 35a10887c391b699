// A process that starts warm: an engine that loads what another one saved gives the same bits as
// one that computes, has what was used last when there is no room for all, and nothing it must not.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <set>
#include <thread>

#include "snapshot_support.h"
#include "support/expect_error.h"
#include "support/golden.h"

namespace prefix {
namespace {

using namespace testing_support;
namespace fs = std::filesystem;

// --- warm equals cold ----------------------------------------------------------------------------

struct Setting {
  const char* name;
  const char* dtype;
  const char* rows;
  int64_t pages;
  int cases;
};

class WarmEqualsColdOverSnapshots : public testing::TestWithParam<Setting> {
 protected:
  void restart(int64_t pages) {
    engine_ = open_engine(pages, {{"dtype", GetParam().dtype}, {"rows", GetParam().rows}});
    spaces_ = open_tuples(*engine_, random_);
  }
  // Batches of known requests; counts the requests that ran.
  int run(const KnownRequests& known, int batches) {
    int done = 0;
    for (; batches > 0; --batches) {
      std::vector<size_t> chosen;
      std::vector<RequestSpec> batch;
      do {
        chosen.push_back(random_() % known.requests.size());
        batch.push_back(known.requests[chosen.back()]);
        batch.back().name_space = spaces_[random_() % spaces_.size()];
      } while (random_() % 4 == 0);
      const auto job = run_all(*engine_, batch);
      for (size_t i = 0; i < chosen.size(); ++i) {
        known.check(job->result(i), chosen[i]);
        cached_ += job->result(i).usage.cached;
        ++done;
      }
      if (HasFatalFailure()) break;
    }
    return done;
  }

  TempFolder folder_;
  std::mt19937 random_{23};
  std::shared_ptr<Engine> engine_;
  std::vector<int32_t> spaces_;
  int64_t cached_ = 0;
};

TEST_P(WarmEqualsColdOverSnapshots, WhateverTheEngineHoldsAlready) {
  const Setting& s = GetParam();
  const std::string path = folder_ / "snapshot";
  int done = 0, loads = 0, beside = 0, short_of_room = 0;
  while (done < cases(s.cases)) {
    const KnownRequests known(random_, 40, s.dtype);
    restart(s.pages);
    done += run(known, 30);
    for (int round = 0; round < 5; ++round) {
      ASSERT_FALSE(HasFatalFailure()) << "case " << done;
      const SnapshotResult saved = engine_->save_snapshot(path, {});
      const EngineStats before = engine_->stats();
      ASSERT_EQ(saved.tokens, before.tree_tokens);
      ASSERT_EQ(saved.bytes, static_cast<int64_t>(fs::file_size(path)));
      restart(random_() % 3 ? s.pages : s.pages / 2);
      if (random_() % 2) done += run(known, 1 + static_cast<int>(random_() % 6));
      const EngineStats own = engine_->stats();
      const SnapshotResult loaded = engine_->load_snapshot(path);
      const EngineStats after = engine_->stats();
      ASSERT_EQ(loaded.tokens + loaded.skipped_tokens, saved.tokens);
      ASSERT_EQ(loaded.namespaces, saved.namespaces);
      ASSERT_EQ(after.evicted_tokens, own.evicted_tokens);
      ASSERT_GE(after.tree_tokens, std::max(own.tree_tokens, loaded.tokens));
      ASSERT_LE(after.tree_tokens, own.tree_tokens + loaded.tokens);
      ASSERT_TRUE(loaded.skipped_tokens == 0 || after.pages_used == after.pages_total);
      ++loads;
      beside += own.tree_tokens > 0;
      short_of_room += loaded.skipped_tokens > 0;
      cached_ = 0;
      done += run(known, 25);
      ASSERT_FALSE(HasFatalFailure()) << "case " << done;
      ASSERT_GT(cached_, 0);
    }
    engine_->cache_trim(0);
    ASSERT_EQ(engine_->stats().pages_used, 0);
    ASSERT_EQ(engine_->stats().tree_tokens, 0);
  }
  std::printf("%s: %d cases, %d loads, %d of them beside something, %d with too little room\n",
              s.name, done, loads, beside, short_of_room);
  EXPECT_GT(beside, loads / 10);
  EXPECT_GT(short_of_room, loads / 10);
}

INSTANTIATE_TEST_SUITE_P(Settings, WarmEqualsColdOverSnapshots,
                         testing::Values(Setting{"rows_of_7", "bf16", "7", 60, 1000},
                                         Setting{"rows_of_31", "bf16", "31", 100, 2500},
                                         Setting{"f32", "f32", "31", 60, 1000}),
                         [](const auto& setting) { return setting.param.name; });

// --- what is in it -------------------------------------------------------------------------------

struct Snapshots : testing::Test {
  // Prompts that share nothing, of `length` tokens.
  std::vector<int32_t> text(int32_t number, size_t length = 64) {
    std::vector<int32_t> tokens(length, 3);
    tokens[0] = number;
    return tokens;
  }
  void compute(Engine& engine, const std::vector<int32_t>& tokens, int32_t name_space = 0) {
    const auto job = run_all(engine, {logits_of(tokens, name_space)});
    ASSERT_EQ(job->result(0).status, Code::kOk) << job->result(0).message;
  }
  int64_t cached(Engine& engine, const std::vector<int32_t>& tokens, int32_t name_space = 0) {
    return look_up(engine, tokens, name_space).cached_tokens;
  }

  const TempFolder folder;
  const std::string path = folder / "snapshot";
  std::mt19937 random{5};
};

TEST_F(Snapshots, AnEmptyCacheIsOneToo) {
  const SnapshotResult saved = open_engine(10)->save_snapshot(path, {});
  EXPECT_EQ(saved.nodes + saved.tokens, 0);
  const auto engine = open_engine(10);
  const SnapshotResult loaded = engine->load_snapshot(path);
  EXPECT_EQ(loaded.nodes + loaded.tokens + loaded.skipped_tokens, 0);
  compute(*engine, text(1));
}

TEST_F(Snapshots, EveryPrefixComesBackInItsNamespaceOnly) {
  const auto first = open_engine(2000);
  const std::vector<int32_t> from = open_tuples(*first, random);
  std::vector<RequestSpec> requests;
  for (int i = 0; i < 60; ++i) {
    requests.push_back(logits_of(random_prompt(random, requests)));
    requests.back().name_space = from[random() % from.size()];
  }
  for (const RequestSpec& spec : requests) run_all(*first, {spec});
  const SnapshotResult saved = first->save_snapshot(path, {});
  const auto second = open_engine(2000);
  second->open_namespace("another one before");
  const SnapshotResult loaded = second->load_snapshot(path);
  EXPECT_EQ(loaded.tokens, saved.tokens);
  EXPECT_EQ(loaded.nodes, saved.nodes);
  EXPECT_EQ(loaded.skipped_tokens, 0);
  EXPECT_EQ(loaded.namespaces, 4);
  const std::vector<int32_t> to = open_tuples(*second, random);
  EXPECT_EQ(second->namespace_count(), 5);
  int apart = 0;
  for (const RequestSpec& spec : requests) {
    for (size_t n = 0; n < from.size(); ++n) {
      ASSERT_EQ(cached(*first, spec.tokens, from[n]), cached(*second, spec.tokens, to[n]));
      apart += cached(*second, spec.tokens, to[n]) < static_cast<int64_t>(spec.tokens.size());
    }
    ASSERT_EQ(cached(*second, spec.tokens, second->find_namespace("another one before")), 0);
  }
  EXPECT_GT(apart, 60);
}

TEST_F(Snapshots, OfSomeNamespaces) {
  const auto first = open_engine(100);
  const int32_t a = first->open_namespace("a"), b = first->open_namespace("b");
  compute(*first, text(1), a);
  compute(*first, text(2), b);
  compute(*first, text(3));
  const SnapshotResult saved = first->save_snapshot(path, {b, 0, b});
  EXPECT_EQ(saved.namespaces, 2);
  EXPECT_EQ(saved.tokens, 128);
  const auto second = open_engine(100);
  second->load_snapshot(path);
  EXPECT_EQ(second->find_namespace("a"), -1);
  EXPECT_EQ(cached(*second, text(2), second->find_namespace("b")), 64);
  EXPECT_EQ(cached(*second, text(3)), 64);
  expect_error(Code::kNotFound, {"namespace 9"}, [&] { first->save_snapshot(path, {0, 9}); });
}

// A choice that reaches beyond the short rotation has the long one,
// as the same tokens without a choice.
TEST_F(Snapshots, ChoicesRotateByTheirWholeLength) {
  const std::string model = golden_models() + "/phi3-longrope";
  if (!fs::exists(model)) GTEST_SKIP() << "tools/golden/make_models.py has not written " << model;
  const auto engine = Engine::create(model, make_options({{"threads", "1"}}), nullptr);
  for (const int32_t length : {20, 28, 40}) {  // the short one ends at 32
    RequestSpec choices;
    choices.task = Task::kChoices;
    for (int32_t i = 0; i < length; ++i) choices.tokens.push_back(3 + i % 50);
    choices.choices = {{7, 8, 9, 10, 11, 12, 13, 14}};
    RequestSpec scored;
    scored.task = Task::kLogprobs;
    scored.tokens = choices.tokens;
    scored.tokens.insert(scored.tokens.end(), choices.choices[0].begin(), choices.choices[0].end());
    scored.from = length;
    const auto job = run_all(*engine, {choices, scored});
    EXPECT_EQ(job->result(0).token_logprobs, job->result(1).values) << length;
  }
}

// A model that rotates short sequences in another way than long ones keeps two trees.
TEST_F(Snapshots, OfAModelWithTwoRotations) {
  const std::string model = golden_models() + "/phi3-longrope";
  if (!fs::exists(model)) GTEST_SKIP() << "tools/golden/make_models.py has not written " << model;
  const auto open = [&](const char* cache) {
    return Engine::create(model, make_options({{"threads", "1"}, {"cache", cache}}), nullptr);
  };
  std::vector<RequestSpec> requests;
  for (int i = 0; i < 60; ++i) {
    std::vector<int32_t> tokens = random_prompt(random, requests);
    if (i % 2) tokens.resize(std::min<size_t>(tokens.size(), 2 + random() % 26));  // below 32
    requests.push_back(random_task(random, tokens));
  }
  const auto cold = run_all(*open("false"), requests);
  const auto first = open("true");
  run_all(*first, requests);
  const SnapshotResult saved = first->save_snapshot(path, {});
  const auto second = open("true");
  EXPECT_EQ(second->load_snapshot(path).tokens, saved.tokens);
  EXPECT_EQ(second->stats().tree_nodes, first->stats().tree_nodes);
  const auto warm = run_all(*second, requests);
  for (size_t i = 0; i < requests.size(); ++i)
    ASSERT_TRUE(same_bits(cold->result(i), warm->result(i))) << i;
  EXPECT_LT(warm->totals().tokens_computed, cold->totals().tokens_computed / 2);
  // As much is found as where the requests ran, but for log-probs, which a snapshot does not have.
  EXPECT_EQ(run_all(*second, requests)->totals().tokens_computed,
            run_all(*first, requests)->totals().tokens_computed);
}

// --- recency and room ----------------------------------------------------------------------------

TEST_F(Snapshots, TheOrderOfUseSurvives) {
  const auto first = open_engine(400);
  std::vector<std::vector<int32_t>> prompts;
  for (int32_t i = 0; i < 40; ++i) {  // branches at the ends of pages: both engines share alike
    prompts.push_back(text(i % 12, 32 * (1 + random() % 3)));
    for (const int32_t t : random_tokens(random, 32 * (1 + random() % 3), kVocab))
      prompts.back().push_back(t);
  }
  for (int i = 0; i < 200; ++i) compute(*first, prompts[random() % prompts.size()]);
  first->save_snapshot(path, {});
  const auto second = open_engine(400);
  second->load_snapshot(path);
  const EngineStats stats = first->stats();
  ASSERT_EQ(second->stats().pages_used, stats.pages_used);
  const int64_t page = stats.kv_bytes / stats.pages_used;
  for (int64_t left = stats.pages_used; left >= 0; --left) {
    first->cache_trim(left * page);
    second->cache_trim(left * page);
    for (size_t i = 0; i < prompts.size(); ++i)
      ASSERT_EQ(cached(*first, prompts[i]), cached(*second, prompts[i]))
          << left << " pages left, prompt " << i;
  }
}

TEST_F(Snapshots, HowOftenAPrefixWasUsedSurvives) {
  const EngineOptions lfu = {{"cache_policy", "lfu"}};
  const auto first = open_engine(100, lfu);
  // One prefix with many branches, each used once; and others, used more often.
  for (int32_t i = 0; i < 10; ++i) {
    std::vector<int32_t> tokens = text(1, 32);
    tokens.resize(64, 10 + i);
    compute(*first, tokens);
  }
  for (int32_t i = 2; i < 10; ++i)
    for (int times = 0; times < i; ++times) compute(*first, text(i));
  first->save_snapshot(path, {});
  const auto second = open_engine(100, lfu);
  second->load_snapshot(path);
  const EngineStats stats = first->stats();
  const int64_t page = stats.kv_bytes / stats.pages_used;
  for (int64_t left = stats.pages_used; left >= 0; --left) {
    first->cache_trim(left * page);
    second->cache_trim(left * page);
    for (int32_t i = 1; i < 10; ++i)
      ASSERT_EQ(cached(*first, text(i)), cached(*second, text(i))) << left << " pages left";
  }
}

TEST_F(Snapshots, WhatWasUsedLastHasRoomFirst) {
  const auto first = open_engine(100);
  for (int32_t i = 0; i < 10; ++i) compute(*first, text(i, 96));
  ASSERT_EQ(first->save_snapshot(path, {}).tokens, 960);
  for (int64_t pages = 1; pages <= 31; ++pages) {
    const auto second = open_engine(pages);
    const SnapshotResult loaded = second->load_snapshot(path);
    EXPECT_EQ(loaded.tokens, std::min<int64_t>(960, 32 * pages));
    EXPECT_EQ(loaded.skipped_tokens, 960 - loaded.tokens);
    EXPECT_EQ(loaded.nodes, std::min<int64_t>(10, pages / 3));
    EXPECT_EQ(second->stats().evicted_tokens, 0);
    for (int32_t i = 0; i < 10; ++i)
      ASSERT_EQ(cached(*second, text(9 - i, 96)), std::clamp<int64_t>(32 * pages - 96 * i, 0, 96));
  }
}

TEST_F(Snapshots, AFullCacheFitsIntoAnEmptyOneOfItsSize) {
  const auto first = open_engine(60);
  for (int i = 0; i < 100; ++i) {  // conversations whose turns end and part in mid-page
    std::vector<int32_t> turns = text(i % 7, 20 + static_cast<int32_t>(random() % 40));
    for (const int32_t t : random_tokens(random, 1 + random() % 50, kVocab)) turns.push_back(t);
    compute(*first, turns);
    for (const int32_t t : random_tokens(random, 1 + random() % 50, kVocab)) turns.push_back(t);
    compute(*first, turns);
  }
  const EngineStats stats = first->stats();
  ASSERT_GT(stats.evicted_tokens, 0);
  const SnapshotResult saved = first->save_snapshot(path, {});
  const auto second = open_engine(60);
  const SnapshotResult loaded = second->load_snapshot(path);
  EXPECT_EQ(loaded.tokens, saved.tokens);
  EXPECT_EQ(loaded.skipped_tokens, 0);
  EXPECT_LE(second->stats().pages_used, stats.pages_used);
}

TEST_F(Snapshots, WhatIsThereStays) {
  const auto first = open_engine(100);
  for (int32_t i = 0; i < 10; ++i) compute(*first, text(i));
  first->save_snapshot(path, {});
  const auto second = open_engine(10);
  for (int32_t i = 20; i < 23; ++i) compute(*second, text(i));
  const SnapshotResult loaded = second->load_snapshot(path);
  EXPECT_EQ(loaded.tokens, 4 * 32);
  for (int32_t i = 20; i < 23; ++i) EXPECT_EQ(cached(*second, text(i)), 64);
  // Once more, into an engine that is full of it: all that fitted is there already.
  EXPECT_EQ(second->load_snapshot(path).tokens, 4 * 32);
  EXPECT_EQ(second->stats().evicted_tokens, 0);
}

TEST_F(Snapshots, AQuotaLimitsWhatIsLoadedToo) {
  const auto first = open_engine(100);
  const int32_t space = first->open_namespace("small");
  for (int32_t i = 0; i < 10; ++i) compute(*first, text(i), space);
  for (int32_t i = 0; i < 3; ++i) compute(*first, text(i));
  first->save_snapshot(path, {});
  const auto second = open_engine(100);
  const int32_t same = second->open_namespace("small");
  const int64_t token = second->info().kv_bytes_per_token;
  second->set_cache_limits(same, 0, 150 * token);
  compute(*second, text(50, 10), same);
  const SnapshotResult loaded = second->load_snapshot(path);
  EXPECT_EQ(loaded.tokens, 140 + 3 * 64);
  EXPECT_EQ(loaded.skipped_tokens, 640 - 140);
  EXPECT_EQ(second->cache_usage(same).tokens, 150);
  EXPECT_EQ(second->stats().evicted_tokens, 0);
  EXPECT_EQ(cached(*second, text(50, 10), same), 10);
  EXPECT_EQ(cached(*second, text(9), same), 64);
  EXPECT_EQ(cached(*second, text(8), same), 64);
  EXPECT_EQ(cached(*second, text(7), same), 12);
  EXPECT_EQ(cached(*second, text(0)), 64);
}

constexpr int64_t kDay = 86400000;

void run_for(Engine& engine, const std::vector<int32_t>& tokens, int64_t ttl_ms) {
  RequestSpec spec = logits_of(tokens);
  spec.cache_ttl_ms = ttl_ms;
  run_all(engine, {spec});
}

// Its own time would be over long before the file is loaded, and a new one nobody has asked for.
TEST_F(Snapshots, WhatHasATimeToLiveIsLeftOut) {
  const auto first = open_engine(100);
  std::vector<int32_t> branch = text(1);
  branch.push_back(7);
  run_for(*first, text(1), 0);
  run_for(*first, branch, kDay);
  run_for(*first, text(2), kDay);
  run_for(*first, text(3), kDay);
  run_for(*first, text(3), 0);
  EXPECT_EQ(first->save_snapshot(path, {}).tokens, 128);
  const auto second = open_engine(100);
  EXPECT_EQ(second->load_snapshot(path).tokens, 128);
  EXPECT_EQ(cached(*second, branch), 64);
  EXPECT_EQ(cached(*second, text(2)), 0);
  EXPECT_EQ(cached(*second, text(3)), 64);
}

// What is in a file has no time to live: it stays also where it was there already and had one. What
// continues it keeps its own.
TEST_F(Snapshots, WhatIsLoadedStays) {
  const auto first = open_engine(100);
  run_for(*first, text(1), 0);
  run_for(*first, text(2), 0);
  first->save_snapshot(path, {});
  const auto second = open_engine(100);
  std::vector<int32_t> longer = text(1);
  longer.insert(longer.end(), 100, 7);
  run_for(*second, longer, kDay);
  run_for(*second, text(2), kDay);
  EXPECT_EQ(second->save_snapshot(path + "2", {}).tokens, 0);
  EXPECT_EQ(second->load_snapshot(path).tokens, 128);
  EXPECT_EQ(second->save_snapshot(path + "2", {}).tokens, 128);
  EXPECT_EQ(cached(*second, longer), 164);
}

TEST_F(Snapshots, AQuotaHasRoomForWhatRunsWhileOneIsLoaded) {
  const auto first = open_engine(100);
  const int32_t space = first->open_namespace("small");
  compute(*first, text(1, 800), space);
  first->save_snapshot(path, {});
  const auto second = open_engine(200);
  const int32_t same = second->open_namespace("small");
  second->set_cache_limits(same, 0, 1000 * second->info().kv_bytes_per_token);
  RequestSpec spec;
  spec.tokens = text(2, 10);
  spec.name_space = same;
  spec.sampling.max_tokens = 900;
  spec.sampling.ignore_eos = true;
  const auto job = second->submit({spec});
  while (second->cache_usage(same).tokens == 0) std::this_thread::yield();
  second->load_snapshot(path);
  job->wait(-1);
  EXPECT_EQ(job->result(0).status, Code::kOk) << job->result(0).message;
  EXPECT_LE(second->cache_usage(same).tokens, 1000);
  EXPECT_EQ(second->stats().evicted_tokens, 0);
}

// --- files that must not be used -----------------------------------------------------------------

TEST_F(Snapshots, OfAnotherModelNumberTypeOrInstructionSetAreRefused) {
  const auto first = open_engine(100);
  compute(*first, text(1), first->open_namespace("tenant"));
  first->save_snapshot(path, {});
  tools::CheckpointShape shape;
  shape.seed = 2;
  const TinyCheckpoint other(shape);
  std::vector<std::shared_ptr<Engine>> engines = {open_engine(100, {}, other),
                                                  open_engine(100, {{"dtype", "f32"}})};
  if (first->info().isa != "scalar") engines.push_back(open_engine(100, {{"isa", "scalar"}}));
  for (const auto& engine : engines) {
    expect_error(Code::kIncompatibleSnapshot, {"another model"},
                 [&] { engine->load_snapshot(path); });
    EXPECT_EQ(engine->stats().pages_used, 0);
    EXPECT_EQ(engine->namespace_count(), 1) << "nothing of it is taken over";
    compute(*engine, text(1));
  }
  const auto same = open_engine(100, {{"rows", "7"}, {"threads", "2"}});
  EXPECT_EQ(same->load_snapshot(path).tokens, 64);
}

TEST_F(Snapshots, FilesThatAreNoneChangeNothing) {
  const auto engine = open_engine(100);
  compute(*engine, text(1));
  folder.write("text", std::string_view("hello"));
  expect_error(Code::kFormat, {"not a snapshot"}, [&] { engine->load_snapshot(folder / "text"); });
  expect_error(Code::kNotFound, {"nothing"}, [&] { engine->load_snapshot(folder / "nothing"); });
  expect_error(Code::kIo, {"missing"}, [&] { engine->save_snapshot(folder / "missing/a", {}); });
  EXPECT_EQ(cached(*engine, text(1)), 64);
  engine->cache_trim(0);
  EXPECT_EQ(engine->stats().pages_used, 0) << "a save that failed holds nothing";
}

TEST_F(Snapshots, WithoutACacheThereIsNone) {
  for (const char* option : {"sharing", "cache"}) {
    const auto engine = open_engine(100, {{option, "false"}});
    expect_error(Code::kMisuse, {option}, [&] { engine->save_snapshot(path, {}); });
    expect_error(Code::kMisuse, {option}, [&] { engine->load_snapshot(path); });
  }
  EXPECT_FALSE(fs::exists(path));
  const auto closed = open_engine(100);
  closed->shutdown(0);
  expect_error(Code::kMisuse, {"shut down"}, [&] { closed->save_snapshot(path, {}); });
  expect_error(Code::kMisuse, {"shut down"}, [&] { closed->load_snapshot(path); });
}

// A damaged or missing page takes what is below it, and nothing else.
TEST_F(Snapshots, DamagedPagesAreLeftOut) {
  const KnownRequests known(random, 40);
  {
    const auto first = open_engine(2000);
    run_all(*first, known.requests);
    first->save_snapshot(path, {});
  }
  const SnapshotBytes whole(path);
  const std::string copy = folder / "copy";
  const int rounds = cases(60);
  int64_t lost_in_all = 0;
  for (int round = 0; round < rounds; ++round) {
    std::string text = whole.text;
    for (size_t n = 1 + random() % 4; n > 0; --n) {
      const size_t at = whole.page_at(random() % whole.page_count());
      text[at + random() % (whole.shape.page_bytes + 32)] ^= 1 << random() % 8;
    }
    if (round % 4 == 0) text.resize(whole.pages_at + random() % (text.size() - whole.pages_at));
    folder.write("copy", text);
    const int64_t lost = lost_tokens(SnapshotReader(copy, whole.shape), whole.shape.page_bytes);
    lost_in_all += lost;
    const auto engine = open_engine(2000);
    const SnapshotResult loaded = engine->load_snapshot(copy);
    ASSERT_EQ(loaded.skipped_tokens, lost) << "round " << round;
    ASSERT_EQ(engine->stats().tree_tokens, loaded.tokens);
    const auto job = run_all(*engine, known.requests);
    for (size_t i = 0; i < known.requests.size(); ++i) known.check(job->result(i), i);
    if (HasFatalFailure()) FAIL() << "round " << round;
    engine->cache_trim(0);
    ASSERT_EQ(engine->stats().pages_used, 0);
  }
  EXPECT_GT(lost_in_all, rounds * 32);
}

}  // namespace
}  // namespace prefix
