// States of recurrent layers as the owner of the cache sees them: look-ups, pins and snapshots.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "recurrent_support.h"
#include "snapshot_support.h"
#include "support/expect_error.h"

namespace prefix {
namespace {

using namespace testing_support;
using Tokens = std::vector<int32_t>;

class StateCache : public testing::TestWithParam<const char*> {
 protected:
  std::shared_ptr<Engine> open(OptionList list = {}) {
    Options options = make_options({{"threads", "1"}});
    for (const auto& [key, value] : list) options.set(key, value);
    return Engine::create(checkpoint.path(), options, nullptr);
  }
  // With memory for so many states and 8 pages.
  std::shared_ptr<Engine> open_small(int64_t states, const char* rows = "512") {
    const int64_t page = 32 * engine->info().kv_bytes_per_token;
    const int64_t state = (engine->info().state_bytes + page - 1) / page * page;
    return open({{"rows", rows}, {"cache_bytes", std::to_string(states * state + 8 * page)}});
  }
  Tokens text(size_t n) { return random_tokens(random, n, shape.vocab); }
  int64_t cached(Engine& e, const Tokens& tokens) { return look_up(e, tokens).cached_tokens; }
  // Without a cache.
  RequestResult cold(const RequestSpec& spec) {
    return run_all(*open({{"cache", "false"}}), {spec})->result(0);
  }
  RequestResult run(Engine& e, const RequestSpec& spec) {
    const RequestResult result = run_all(e, {spec})->result(0);
    e.check();
    return result;
  }

  const bool granite = GetParam() == std::string("granite");
  const tools::CheckpointShape shape = granite ? granite_shape() : qwen_shape();
  const TinyCheckpoint checkpoint{shape};
  std::shared_ptr<Engine> engine = open();
  std::mt19937 random{17};
  TempFolder folder;
  const std::string path = folder / "snapshot";
};

INSTANTIATE_TEST_SUITE_P(Families, StateCache, testing::Values("granite", "qwen"),
                         [](const auto& family) { return family.param; });

// --- look-ups and pins ---------------------------------------------------------------------------

TEST_P(StateCache, ALookUpTellsWhatARequestGoesOnFrom) {
  const Tokens prompt = text(50);
  EXPECT_EQ(cached(*engine, prompt), 0);
  const RequestResult r = run(*engine, generation(prompt, 9));
  const Tokens all = joined(prompt, r.tokens);
  EXPECT_EQ(cached(*engine, prompt), 49);  // in front of the last token of the prompt
  EXPECT_EQ(cached(*engine, first_tokens(prompt, 48)), 0);  // there are only keys and values
  EXPECT_EQ(cached(*engine, all), 58);                      // the last token was not run
  EXPECT_EQ(cached(*engine, first_tokens(all, 57)), 49);
  const Tokens next = joined(all, text(10));
  EXPECT_EQ(cached(*engine, next), 58);
  EXPECT_EQ(look_up(*engine, next).pending_tokens, 0);
  EXPECT_EQ(run(*engine, logits_of(next)).usage.cached, 58);
}

TEST_P(StateCache, APinKeepsTheStateToo) {
  const auto small = open_small(5);
  const Tokens kept = text(40);
  run(*small, warm(kept));
  const CachePin pin = small->cache_pin(0, joined(kept, text(9)).data(), 49, 0);
  EXPECT_EQ(pin.tokens, 40);
  for (int i = 0; i < 20; ++i)
    ASSERT_EQ(run(*small, generation(text(30), 4)).status, Code::kOk) << i;
  EXPECT_GT(small->stats().state_evictions, 0);
  EXPECT_EQ(cached(*small, kept), 40);
  small->cache_trim(0);
  small->check();
  EXPECT_EQ(cached(*small, kept), 40);
  EXPECT_EQ(small->stats().states, 1);
  small->cache_unpin(pin.lease);
  EXPECT_EQ(cached(*small, kept), 40);
  small->cache_trim(0);
  small->check();
  EXPECT_EQ(small->stats().states, 0);
}

TEST_P(StateCache, APinEndsAtTheState) {
  const Tokens prompt = text(60);
  run(*engine, generation(prompt, 3));
  EXPECT_EQ(engine->cache_pin(0, prompt.data(), 60, 0).tokens, 59);
  testing_support::expect_error(Code::kNotFound, {"nothing of these 58 tokens is cached"},
                                [&] { engine->cache_pin(0, prompt.data(), 58, 0); });
}

// The one who needs memory for a state may take those of others, not one that a lease keeps.
TEST_P(StateCache, WhatIsPinnedIsNotTakenByAStepWithoutMemory) {
  const auto small = open_small(3, "8");
  const Tokens kept = text(40);
  run(*small, warm(kept));
  const CachePin pin = small->cache_pin(0, kept.data(), kept.size(), 0);
  for (int round = 0; round < 12; ++round) {
    std::vector<RequestSpec> batch;
    for (int i = 0; i < 8; ++i) {
      const Tokens tokens = joined(kept, text(1 + random() % 40));
      batch.push_back(i % 3 == 0 ? generation(tokens, 4) : logits_of(tokens));
    }
    const auto job = run_all(*small, batch);
    for (size_t i = 0; i < batch.size(); ++i) {
      ASSERT_EQ(job->result(i).status, Code::kOk) << job->result(i).message;
      EXPECT_TRUE(same_bits(job->result(i), cold(batch[i])));
    }
    EXPECT_EQ(cached(*small, kept), 40);
    small->check();
  }
  small->cache_unpin(pin.lease);
}

// --- snapshots -----------------------------------------------------------------------------------

TEST_P(StateCache, ASnapshotGoesOnAtTheExactToken) {
  const Tokens prompt = text(75);
  const RequestResult first = run(*engine, generation(prompt, 9));
  const Tokens next = joined(joined(prompt, first.tokens), text(11));
  const RequestSpec spec = generation(next, 5);
  const RequestResult expected = cold(spec);
  const SnapshotResult saved = engine->save_snapshot(path, {});
  EXPECT_EQ(saved.tokens, 83);
  for (const char* rows : {"512", "7"}) {
    const auto second = open({{"rows", rows}});
    const SnapshotResult loaded = second->load_snapshot(path);
    second->check();
    EXPECT_EQ(loaded.tokens, saved.tokens);
    EXPECT_EQ(loaded.nodes, saved.nodes);
    EXPECT_EQ(second->stats().states, engine->stats().states);
    EXPECT_EQ(cached(*second, prompt), 74);
    EXPECT_EQ(cached(*second, next), 83);
    const RequestResult r = run(*second, spec);
    EXPECT_EQ(r.usage.cached, 83);
    EXPECT_EQ(r.usage.computed, static_cast<int64_t>(next.size()) - 83);
    EXPECT_TRUE(same_bits(r, expected));
    // What was loaded is saved again as it is.
    const auto third = open();
    const std::string again = folder / "again";
    second->save_snapshot(again, {});
    third->load_snapshot(again);
    EXPECT_TRUE(same_bits(run(*third, generation(prompt, 9)), first));
    EXPECT_EQ(cached(*third, next), 94);
  }
}

// Bytes of states, one after the other: only what goes on from there is lost.
TEST_P(StateCache, ADamagedStateOfASnapshotIsAMiss) {
  const Tokens prompt = text(64);
  run(*engine, warm(prompt));
  ASSERT_EQ(engine->stats().states, 1);
  engine->save_snapshot(path, {});
  const RequestSpec spec = logits_of(joined(prompt, text(5)));
  const RequestResult expected = cold(spec);
  const SnapshotBytes bytes(path);
  const int64_t pages =
      (engine->info().state_bytes + static_cast<int64_t>(bytes.shape.page_bytes) - 1) /
      static_cast<int64_t>(bytes.shape.page_bytes);
  ASSERT_EQ(static_cast<int64_t>(bytes.page_count()), 2 + pages);
  for (size_t page = 2; page < bytes.page_count(); ++page) {
    std::string damaged = bytes.text;
    damaged[bytes.page_at(page) + random() % bytes.shape.page_bytes] ^= 4;
    std::ofstream(path, std::ios::binary) << damaged;
    const auto second = open();
    const SnapshotResult loaded = second->load_snapshot(path);
    EXPECT_EQ(loaded.tokens, 64);
    EXPECT_EQ(second->stats().states, 0);
    EXPECT_EQ(second->stats().pages_used, 2);
    EXPECT_EQ(cached(*second, prompt), 0);
    const RequestResult r = run(*second, spec);
    EXPECT_EQ(r.usage.computed, 69);
    EXPECT_TRUE(same_bits(r, expected));
  }
  // Cut short: as if it were damaged.
  std::ofstream(path, std::ios::binary) << bytes.text.substr(0, bytes.text.size() - 1);
  const auto second = open();
  EXPECT_EQ(second->load_snapshot(path).tokens, 64);
  EXPECT_EQ(second->stats().states, 0);
}

// With a checksum that is right.
TEST_P(StateCache, AStateThatIsNotFiniteIsNotLoaded) {
  const Tokens prompt = text(64);
  run(*engine, warm(prompt));
  engine->save_snapshot(path, {});
  SnapshotBytes bytes(path);
  const size_t at = bytes.page_at(2);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(bytes.text.data() + at + 40, &nan, sizeof(nan));
  const Sha256::Digest digest =
      sha256({reinterpret_cast<const std::byte*>(bytes.text.data() + at), bytes.shape.page_bytes});
  std::memcpy(bytes.text.data() + at + bytes.shape.page_bytes, digest.data(), digest.size());
  std::ofstream(path, std::ios::binary) << bytes.text;
  const auto second = open();
  EXPECT_EQ(second->load_snapshot(path).tokens, 64);
  EXPECT_EQ(second->stats().states, 0);
}

TEST_P(StateCache, ASnapshotOfAnotherModelTypeOrLayoutIsRefused) {
  run(*engine, warm(text(64)));
  engine->save_snapshot(path, {});
  tools::CheckpointShape other = shape;
  other.recurrent.conv += 1;
  for (const auto& [model, dtype] :
       {std::pair{shape, "f32"}, std::pair{granite ? qwen_shape() : granite_shape(), "bf16"},
        std::pair{other, "bf16"}}) {
    const TinyCheckpoint another(model);
    const auto second = make_engine(another, {{"threads", "1"}, {"dtype", dtype}});
    testing_support::expect_error(Code::kIncompatibleSnapshot, {"another model"},
                                  [&] { second->load_snapshot(path); });
    EXPECT_EQ(second->stats().pages_used, 0);
  }
}

TEST_P(StateCache, AStateWithoutRoomIsLeftOutOfWhatIsLoaded) {
  for (int i = 0; i < 12; ++i) run(*engine, warm(text(32)));
  engine->save_snapshot(path, {});
  const auto small = open_small(3);
  small->load_snapshot(path);
  small->check();
  const EngineStats s = small->stats();
  EXPECT_GT(s.states, 0);
  EXPECT_LT(s.states, 12);
  EXPECT_EQ(s.evicted_tokens + s.state_evictions, 0);
}

// The bytes of what is evicted while the file is written never get into it.
TEST_P(StateCache, StatesThatGoWhileASnapshotIsSavedAreLeftOut) {
  PagesToSave pages;
  pages.add({7, 0, 0, 32});
  pages.add({8, 0, 32, 32});
  pages.add({9, 0, 32, 32});
  pages.add({8, 1, 40, 40});
  pages.taking_state({8, 3});
  std::vector<int32_t> left;
  for (const PagesToSave::Entry& e : pages.entries()) left.push_back(e.page);
  EXPECT_EQ(left, (std::vector<int32_t>{7, -1, 9, -1}));
}

}  // namespace
}  // namespace prefix
