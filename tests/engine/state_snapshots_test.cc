// Snapshots of states of recurrent layers: another engine goes on at the exact token, and what is
// damaged, not finite or has no room is a miss.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <limits>

#include "snapshot_support.h"
#include "state_cache_fixture.h"
#include "support/expect_error.h"

namespace prefix {
namespace {

using namespace testing_support;

TEST_P(StateCache, ASnapshotGoesOnAtTheExactToken) {
  const Tokens prompt = text(75);
  const RequestResult first = run(*engine, generation(prompt, 9));
  const Tokens next = joined(joined(prompt, first.tokens), text(11));
  const RequestSpec spec = generation(next, 5);
  const RequestResult expected = cold(spec);
  const SnapshotResult saved = engine->save_snapshot(path, {});
  EXPECT_EQ(saved.tokens, 83);
  EXPECT_EQ(saved.states, engine->stats().states);
  for (const char* rows : {"512", "7"}) {
    const auto second = open({{"rows", rows}});
    const SnapshotResult loaded = second->load_snapshot(path);
    second->check();
    EXPECT_EQ(loaded.tokens, saved.tokens);
    EXPECT_EQ(loaded.nodes, saved.nodes);
    EXPECT_EQ(loaded.states, saved.states);
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
  ASSERT_EQ(static_cast<int64_t>(bytes.page_count()), 2 + state_pages());
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
       {std::pair{shape, "f32"},
        std::pair{shape.architecture == "lfm2" ? qwen_shape() : lfm2_shape(), "bf16"},
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
  const SnapshotResult loaded = small->load_snapshot(path);
  small->check();
  const EngineStats s = small->stats();
  EXPECT_EQ(loaded.states, s.states);
  EXPECT_GT(s.states, 0);
  EXPECT_LT(s.states, 12);
  EXPECT_EQ(s.evicted_tokens + s.state_evictions, 0);
}

// With gdsf what was used often stays, also when it was another process that used it.
TEST_P(StateCache, ASnapshotKeepsHowOftenStatesWereUsed) {
  const Tokens often = text(40), lately = text(40);
  for (int i = 0; i < 6; ++i) run(*engine, warm(often));
  run(*engine, warm(lately));
  engine->save_snapshot(path, {});
  const int64_t state = state_pages();
  // For these two, and the state that the engine sets aside.
  const auto second = open(
      {{"cache_policy", "gdsf"}, {"cache_bytes", std::to_string((3 * state + 6) * page_bytes())}});
  EXPECT_EQ(second->load_snapshot(path).states, 2);
  for (int i = 0; i < 2; ++i) run(*second, warm(text(40)));
  EXPECT_EQ(cached(*second, often), 40);
  EXPECT_EQ(cached(*second, lately), 0);
}

// What was asked for is so after it was loaded: a long path does not lose it.
TEST_P(StateCache, ASnapshotKeepsWhichStatesWereAskedFor) {
  const Tokens prompt = text(60);
  const RequestSpec spec = with_checkpoints(generation(prompt, 4), {10, 30});
  Tokens turn = joined(prompt, run(*engine, spec).tokens);
  engine->save_snapshot(path, {});
  const auto second = open({{"cache_path_states", "1"}});
  EXPECT_EQ(second->load_snapshot(path).states, 4);
  for (int i = 0; i < 3; ++i) {
    turn = joined(turn, text(8));
    turn = joined(turn, run(*second, generation(turn, 4)).tokens);
  }
  EXPECT_EQ(second->stats().states, 3);
  for (const size_t at : {10u, 30u})
    EXPECT_EQ(cached(*second, first_tokens(turn, at)), static_cast<int64_t>(at));
  EXPECT_EQ(cached(*second, first_tokens(turn, 59)), 30);
}

// The state that a warm request computes comes from elsewhere meanwhile.
TEST_P(StateCache, AWarmRequestIsDoneWhenItsStateIsLoaded) {
  const Tokens prompt = text(64);
  const auto other = open({});
  run(*other, warm(prompt));
  other->save_snapshot(path, {});
  for (int i = 0; i < 5; ++i) {
    const auto e = open({{"rows", "1"}});
    run(*e, logits_of(joined(prompt, text(5))));
    const auto job = e->submit({warm(prompt)});
    job->next_event(-1);
    e->load_snapshot(path);
    EXPECT_TRUE(job->wait(120000));
  }
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
