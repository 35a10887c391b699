// States of recurrent layers in the tiers below memory: another process goes on where one was.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "recurrent_support.h"
#include "support/temp_folder.h"
#include "tier_support.h"

namespace prefix {
namespace {

using namespace testing_support;
using Tokens = std::vector<int32_t>;
namespace fs = std::filesystem;

class StateTiers : public testing::TestWithParam<const char*> {
 protected:
  std::shared_ptr<Engine> open(const EngineOptions& more = {}) {
    return open_over(folder.path(), 1000, more, checkpoint);
  }
  RequestResult run(Engine& e, const RequestSpec& spec) {
    const RequestResult result = run_all(e, {spec})->result(0);
    e.check();
    EXPECT_EQ(result.status, Code::kOk) << result.message;
    return result;
  }
  RequestResult cold(const RequestSpec& spec, const char* dtype = "bf16") {
    return run(*make_engine(checkpoint, {{"threads", "1"}, {"cache", "false"}, {"dtype", dtype}}),
               spec);
  }
  Tokens text(size_t n) { return random_tokens(random, n, shape.vocab); }
  std::vector<fs::path> files() {
    std::vector<fs::path> list;
    for (const auto& entry : fs::recursive_directory_iterator(folder.path()))
      if (entry.is_regular_file() && entry.file_size() > 1000) list.push_back(entry.path());
    std::ranges::sort(list);  // a copy of a folder lists its files in another order
    return list;
  }

  // Of a state.
  int64_t pages() const {
    const EngineInfo info = make_engine(checkpoint, {{"threads", "1"}})->info();
    const int64_t page = 32 * info.kv_bytes_per_token;
    return (info.state_bytes + page - 1) / page;
  }

  const tools::CheckpointShape shape = hybrid_shape(GetParam());
  const TinyCheckpoint checkpoint{shape};
  TempFolder folder;
  std::mt19937 random{29};
};

INSTANTIATE_TEST_SUITE_P(Families, StateTiers,
                         testing::Values("granite", "qwen", "nemotron", "lfm2"),
                         [](const auto& family) { return family.param; });

TEST_P(StateTiers, AnotherProcessGoesOnAtTheExactToken) {
  for (const size_t n : {5u, 31u, 32u, 33u, 100u, 128u}) {
    const Tokens prompt = text(n);
    Tokens all;
    {
      const auto first = open();
      all = joined(prompt, run(*first, generation(prompt, 9)).tokens);
      first->shutdown(-1);
    }
    const auto known = static_cast<int64_t>(n) + 8;  // the last token was not run
    const RequestSpec next = generation(joined(all, text(40)), 5);
    const auto second = open();
    const RequestResult r = run(*second, next);
    EXPECT_EQ(r.usage.cached, known);
    EXPECT_EQ(r.usage.computed, 41);
    EXPECT_EQ(second->stats().rows, 41 + 4);
    EXPECT_EQ(second->stats().fetched_tokens, known);
    EXPECT_TRUE(same_bits(r, cold(next))) << n;
    // The same prompt: in front of its last token.
    const auto third = open();
    const RequestResult again = run(*third, generation(prompt, 9));
    EXPECT_EQ(again.usage.computed, 1);
    EXPECT_EQ(joined(prompt, again.tokens), all);
    EXPECT_TRUE(same_bits(again, cold(generation(prompt, 9))));
  }
}

TEST_P(StateTiers, AWarmedPrefixServesAllThatBeginSo) {
  const Tokens head = text(77);
  {
    const auto first = open();
    run(*first, warm(head));
    first->shutdown(-1);
  }
  std::vector<RequestSpec> batch;
  for (int i = 0; i < 8; ++i) batch.push_back(logits_of(joined(head, joined({i}, text(20)))));
  const auto second = open();
  const auto job = run_all(*second, batch);
  second->check();
  EXPECT_EQ(second->stats().rows, 8 * 21);
  EXPECT_EQ(second->stats().fetched_tokens, 77);
  for (size_t i = 0; i < batch.size(); ++i)
    EXPECT_TRUE(same_bits(job->result(i), cold(batch[i]))) << i;
}

// What was asked for stays so in another process: a long path does not lose it. A state that was
// saved before somebody asked for it is saved once more.
TEST_P(StateTiers, AStateThatWasAskedForIsSoInAnotherProcess) {
  for (const bool asked : {false, true}) {
    const Tokens prompt = text(50);
    Tokens turn;
    {
      const auto first = open();
      turn = joined(prompt, run(*first, generation(prompt, 6)).tokens);
      RequestSpec spec = logits_of(turn);
      if (asked) spec.checkpoint = {55};
      run(*first, spec);
      first->shutdown(-1);
    }
    const auto second = open({{"cache_path_states", "1"}});
    for (int i = 0; i < 3; ++i) {
      turn = joined(turn, text(8));
      turn = joined(turn, run(*second, generation(turn, 4)).tokens);
    }
    EXPECT_EQ(look_up(*second, first_tokens(turn, 55)).cached_tokens, asked ? 55 : 0);
  }
}

// A state far in front of the end: a tier is asked for so many at a time.
TEST_P(StateTiers, AStateIsFoundBeforeALongText) {
  const Tokens head = text(40);
  {
    const auto first = open();
    run(*first, warm(head));
    first->shutdown(-1);
  }
  for (const size_t more : {1024u, 1025u, 1500u}) {
    const auto second = open({{"rows", "30"}});
    EXPECT_EQ(run(*second, logits_of(joined(head, text(more)))).usage.cached, 40) << more;
    second->shutdown(-1);
  }
}

// The keys are in memory and the state has gone: only that is fetched.
TEST_P(StateTiers, AStateThatMadeRoomComesBack) {
  const Tokens head = text(64);
  const auto engine = open();
  run(*engine, warm(head));
  // In memory only that of a shorter prefix.
  engine->shutdown(-1);
  const auto second = open();
  run(*second, logits_of(first_tokens(head, 40)));
  EXPECT_EQ(second->stats().fetched_tokens, 0);
  const RequestSpec spec = logits_of(joined(head, text(3)));
  const RequestResult r = run(*second, spec);
  EXPECT_EQ(r.usage.computed, 3);
  EXPECT_EQ(second->stats().rows, 40 + 3);
  EXPECT_TRUE(same_bits(r, cold(spec)));
}

TEST_P(StateTiers, WithoutAStateNothingIsFetched) {
  const Tokens prompt = text(100);
  {
    const auto first = open();
    run(*first, logits_of(prompt));  // a leaf that is only read leaves no state
    first->shutdown(-1);
  }
  ASSERT_FALSE(files().empty());
  const auto second = open();
  const RequestResult r = run(*second, logits_of(joined(prompt, text(3))));
  EXPECT_EQ(r.usage.computed, 103);
  EXPECT_EQ(second->stats().fetched_tokens, 0);
  EXPECT_EQ(second->tiers().front().stats.hits, 0u);
}

// Any file may be damaged: of the state, of the page of its last tokens, of the full pages. Only
// the mark that it was asked for can be done without.
TEST_P(StateTiers, ADamagedFileIsAMiss) {
  const Tokens prompt = text(75);
  const RequestSpec spec = logits_of(joined(prompt, text(5)));
  const RequestResult expected = cold(spec);
  {
    const auto first = open();
    run(*first, warm(prompt));
    first->shutdown(-1);
  }
  const size_t count = files().size();
  ASSERT_EQ(static_cast<int64_t>(count), 3 + pages() + 1);
  int found = 0;
  for (size_t i = 0; i < count; ++i) {
    const fs::path copy = folder.path() + "-whole";
    fs::remove_all(copy);
    fs::copy(folder.path(), copy, fs::copy_options::recursive);
    {
      std::fstream file(files()[i], std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(500);
      const char byte = static_cast<char>(file.get() ^ 8);
      file.seekp(500);
      file.put(byte);
    }
    const auto second = open();
    const RequestResult r = run(*second, spec);
    EXPECT_EQ(r.usage.computed, r.usage.cached == 0 ? 80 : 5) << files()[i];
    found += r.usage.cached > 0;
    EXPECT_TRUE(same_bits(r, expected));
    second->shutdown(-1);
    fs::remove_all(folder.path());
    fs::rename(copy, folder.path());
    // As it was, it is found.
    EXPECT_EQ(run(*open(), spec).usage.computed, 5);
  }
  EXPECT_EQ(found, 1);
}

TEST_P(StateTiers, AnotherModelOrTypeFindsNothing) {
  const Tokens prompt = text(64);
  {
    const auto first = open();
    run(*first, warm(prompt));
    first->shutdown(-1);
  }
  const RequestSpec spec = logits_of(joined(prompt, text(5)));
  const RequestResult r = run(*open({{"dtype", "f32"}}), spec);
  EXPECT_EQ(r.usage.computed, 69);
  EXPECT_TRUE(same_bits(r, cold(spec, "f32")));
  tools::CheckpointShape other = shape;
  other.recurrent.conv += 1;
  const TinyCheckpoint another(other);
  EXPECT_EQ(run(*open_over(folder.path(), 1000, {}, another), spec).usage.computed, 69);
}

TEST_P(StateTiers, AStateWithoutRoomIsNotInstalled) {
  const Tokens prompt = text(64);
  {
    const auto first = open();
    run(*first, warm(prompt));
    first->shutdown(-1);
  }
  const RequestSpec spec = logits_of(joined(prompt, text(5)));
  const int64_t state = pages();
  for (int64_t room = state + 4; room <= 3 * state + 4; ++room) {
    const auto second = open_over(folder.path(), room, {}, checkpoint);
    const RequestResult r = run(*second, spec);
    EXPECT_TRUE(r.usage.computed == 5 || r.usage.computed == 69) << r.usage.computed;
    EXPECT_TRUE(same_bits(r, cold(spec)));
    second->shutdown(-1);
  }
}

// Conversations of many turns, each turn in another process over the same folder.
TEST_P(StateTiers, RandomConversationsAreEqualBits) {
  std::vector<Tokens> chats(3);
  std::vector<int64_t> known(3);
  for (int turn = 0; turn < 12; ++turn) {
    const size_t chat = random() % chats.size();
    Tokens& history = chats[chat];
    history = joined(history, text(1 + random() % 50));
    const RequestSpec spec = generation(history, 1 + static_cast<int32_t>(random() % 9));
    const auto engine = open({{"rows", random() % 2 ? "7" : "31"}});
    const RequestResult r = run(*engine, spec);
    ASSERT_EQ(r.usage.cached, known[chat]);
    ASSERT_TRUE(same_bits(r, cold(spec)));
    history = joined(history, r.tokens);
    known[chat] = static_cast<int64_t>(history.size()) - 1;
    engine->shutdown(-1);
  }
}

}  // namespace
}  // namespace prefix
