// The events of a whole engine: a router that reads them knows what every prompt would find there.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

#include "event_router.h"
#include "snapshot_support.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace prefix {
namespace {

using namespace testing_support;

// Reads an engine's events into a router.
class Follower {
 public:
  Follower(Engine& engine, int32_t block) : engine_(engine), block_(block), router_(block) {}

  void read() {
    for (;;) {
      CacheEvent event;
      try {
        event = engine_.read_event(next_);
      } catch (const Error& e) {
        ASSERT_EQ(e.code(), Code::kNoEvent) << e.message();
        return;
      }
      ASSERT_EQ(event.sequence, next_++) << "a gap";
      ASSERT_GE(event.time_ns, time_);
      time_ = event.time_ns;
      last_ = event.kind;
      const std::string wrong = router_.apply(event);
      ASSERT_EQ(wrong, "") << "event " << event.sequence << ", kind " << event.kind;
    }
  }
  // That the dump says the same, and each prompt finds in the engine what the router thinks.
  void check(const std::vector<RequestSpec>& prompts, const std::vector<int32_t>& spaces) {
    // What is past its time goes when somebody looks, between the two as well.
    EventDump dump;
    for (int tries = 0; tries == 0 || (dump.next != next_ && tries < 100); ++tries) {
      dump = engine_.dump_events();
      read();
    }
    ASSERT_EQ(dump.next, next_);
    EventRouter fresh(block_);
    for (const CacheEvent& event : dump.blocks) {
      const std::string wrong = fresh.apply(event);
      ASSERT_EQ(wrong, "");
    }
    ASSERT_EQ(fresh.blocks(), router_.blocks());
    // What is past its time goes when somebody looks: again, until nothing has gone meanwhile.
    int64_t before = -1;
    while (std::exchange(before, next_) != next_) {
      wrong_.clear();
      for (const RequestSpec& spec : prompts)
        for (const int32_t space : spaces)
          if (router_.cached(space, spec.tokens) !=
              look_up(engine_, spec.tokens, space).cached_tokens / block_ * block_)
            wrong_ = "a prompt finds something else than the router says";
      read();
    }
    ASSERT_EQ(wrong_, "");
  }
  const EventRouter& router() const { return router_; }
  int64_t next() const { return next_; }
  int32_t last() const { return last_; }

 private:
  Engine& engine_;
  int32_t block_;
  EventRouter router_;
  int64_t next_ = 0;
  int64_t time_ = 0;
  int32_t last_ = -1;
  std::string wrong_;
};

EngineOptions events_of(int32_t block, EngineOptions more = {}) {
  more["cache_events"] = "100000";
  more["cache_event_tokens"] = std::to_string(block);
  return more;
}

class EventsOfAnEngine : public testing::TestWithParam<int32_t> {};

TEST_P(EventsOfAnEngine, ARouterKnowsWhatItHolds) {
  const int32_t block = GetParam();
  const TempFolder folder;
  std::mt19937 random(51);
  const auto engine = open_engine(30, events_of(block));
  std::vector<int32_t> spaces = open_tuples(*engine, random);
  const int64_t token = engine->info().kv_bytes_per_token;
  engine->set_cache_limits(spaces[1], 0, 300 * token);
  Follower follower(*engine, block);
  std::vector<RequestSpec> prompts;
  for (int i = 0; i < 30; ++i)
    prompts.push_back(random_task(random, random_prompt(random, prompts)));
  int cleared = 0;
  const int operations = cases(3000);
  for (int i = 0; i < operations; ++i) {
    const RequestSpec& one = prompts[random() % prompts.size()];
    const int32_t space = spaces[random() % spaces.size()];
    const size_t what = random() % 20;
    if (what < 13) {
      std::vector<RequestSpec> batch;
      for (size_t n = 1 + random() % 3; n > 0; --n) {
        batch.push_back(prompts[random() % prompts.size()]);
        batch.back().name_space = spaces[random() % spaces.size()];
        batch.back().cache_ttl_ms = random() % 4 ? 0 : 1;
      }
      run_all(*engine, batch);
    } else if (what < 15) {
      engine->cache_evict(space, one.tokens.data(), random() % one.tokens.size());
    } else if (what < 16) {
      engine->cache_trim(static_cast<int64_t>(random() % 30) * 32 * token);
    } else if (what < 17 && random() % 2) {
      engine->drop_namespace(space);
    } else if (what < 17) {
      if (space != 0) engine->close_namespace(space);
      spaces = open_tuples(*engine, random);
    } else if (what < 18) {
      engine->save_snapshot(folder / "snapshot", {});
      engine->cache_trim(0);
      follower.read();
      ASSERT_TRUE(follower.last() == CacheEvent::kCleared || follower.next() == 0);
      ++cleared;
      engine->load_snapshot(folder / "snapshot");
    } else {
      auto job = engine->submit({one});
      job->cancel();
      job->wait(-1);
    }
    follower.check(prompts, spaces);
    if (testing::Test::HasFatalFailure()) FAIL() << "operation " << i;
  }
  EXPECT_GT(cleared, operations / 50);
  EXPECT_GT(follower.next(), operations / 4);
  for (const int32_t space : spaces) engine->drop_namespace(space);
  follower.check(prompts, spaces);
  EXPECT_TRUE(follower.router().blocks().empty());
  EXPECT_EQ(follower.last(), CacheEvent::kCleared);
}

INSTANTIATE_TEST_SUITE_P(Tokens, EventsOfAnEngine, testing::Values(32, 64, 128),
                         testing::PrintToStringParamName());

TEST(EngineEvents, WithoutACacheEverythingIsRemovedAgain) {
  const auto engine = open_engine(100, events_of(32, {{"cache", "false"}}));
  std::mt19937 random(3);
  Follower follower(*engine, 32);
  for (int i = 0; i < 10; ++i) {
    run_all(*engine, {logits_of(random_tokens(random, 100, kVocab))});
    follower.read();
    EXPECT_TRUE(follower.router().blocks().empty());
  }
  EXPECT_EQ(follower.next(), 60);
}

// Its blocks have the names of those in a namespace that is opened under its name, so they are told
// to be gone when it is closed, and not told of again.
TEST(EngineEvents, ANamespaceThatIsClosedInUseIsGoneAtOnce) {
  const auto engine = open_engine(300, events_of(32));
  Follower follower(*engine, 32);
  const std::vector<int32_t> prompt(80, 3);
  RequestSpec runs = logits_of(prompt, engine->open_namespace("tenant"));
  runs.task = Task::kGenerate;
  runs.logit_ids.clear();
  runs.sampling.max_tokens = 3000;
  runs.sampling.ignore_eos = true;
  const auto job = engine->submit({runs});
  ASSERT_TRUE(token_comes(*job));
  follower.read();
  EXPECT_EQ(follower.router().cached(runs.name_space, prompt), 64);
  engine->close_namespace(runs.name_space);
  follower.read();
  EXPECT_TRUE(follower.router().blocks().empty());
  EXPECT_TRUE(engine->dump_events().blocks.empty());

  const int32_t again = engine->open_namespace("tenant");
  run_all(*engine, {logits_of(prompt, again)});
  follower.check({logits_of(prompt)}, {again});
  job->cancel();
  job->wait(-1);
  follower.check({logits_of(prompt)}, {again});
  EXPECT_EQ(follower.router().cached(again, prompt), 64);
}

TEST(EngineEvents, NamesAreTheSameInTwoEnginesAndDifferAcrossNamespaces) {
  std::mt19937 random(61);
  std::vector<RequestSpec> prompts;
  for (int i = 0; i < 20; ++i) prompts.push_back(logits_of(random_prompt(random, prompts)));
  // By tuple, what is stored where all have the same prompts.
  std::vector<std::map<uint64_t, EventRouter::Block>> names[2];
  for (auto& of_engine : names) {
    const auto engine = open_engine(2000, events_of(32));
    const std::vector<int32_t> spaces = open_tuples(*engine, random);
    of_engine.resize(spaces.size());
    std::shuffle(prompts.begin(), prompts.end(), random);
    for (RequestSpec spec : prompts)
      for (const int32_t space : spaces) {
        spec.name_space = space;
        run_all(*engine, {spec});
      }
    for (const CacheEvent& e : engine->dump_events().blocks) {
      const auto tuple = std::find(spaces.begin(), spaces.end(), e.name_space) - spaces.begin();
      of_engine[static_cast<size_t>(tuple)][e.block] = {e.parent, 0, e.position, e.tokens};
    }
  }
  EXPECT_EQ(names[0], names[1]);
  std::set<uint64_t> all;
  size_t count = 0;
  for (const auto& tuple : names[0]) {
    EXPECT_EQ(tuple.size(), names[0][0].size());
    count += tuple.size();
    for (const auto& [name, block] : tuple) all.insert(name);
  }
  EXPECT_EQ(all.size(), count) << "a name in two namespaces";
  EXPECT_GT(count, 40u);
}

// Events and tiers need the weights' hash, which is made behind the
// last weights and ends as they do.
TEST(EngineEvents, ALoadThatNamesTheWeightsCanBeEnded) {
  const TempFolder folder;
  for (const auto& [key, value] : {std::pair<const char*, std::string>("cache_events", "100"),
                                   {"cache_disk", folder.path()}}) {
    SCOPED_TRACE(key);
    Options options;
    options.set(key, value);
    options.set("threads", "1");
    int told = 0;  // that everything is loaded
    const auto load = [&](int most) {
      told = 0;
      Engine::create(tiny_checkpoint().path(), options, [&, most](double fraction) {
        told += fraction == 1;
        return told < most;
      });
    };
    load(1000);
    const int all = told;
    EXPECT_GT(all, 2);
    for (const int at : {2, all}) {
      expect_error(Code::kCancelled, {"before the weights had their name"}, [&] { load(at); });
      EXPECT_EQ(told, at) << "it went on";
    }
  }
}

TEST(EngineEvents, OptionsThatMakeNoSense) {
  expect_error(Code::kOutOfRange, {"33", "multiple"}, [] { open_engine(10, events_of(33)); });
  const auto engine = open_engine(10);
  expect_error(Code::kMisuse, {"cache_events"}, [&] { engine->read_event(0); });
  expect_error(Code::kMisuse, {"cache_events"}, [&] { engine->dump_events(); });
}

}  // namespace
}  // namespace prefix
