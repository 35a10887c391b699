// What the owner of the process may say about the cache: pins, quotas, policies, times to live.
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "engine/engine.h"
#include "support/expect_error.h"
#include "support/manual_clock.h"
#include "support/tiny_engine.h"

namespace prefix {
namespace {

using testing_support::expect_error;
using testing_support::make_engine;
using testing_support::ManualClock;
using testing_support::tiny_checkpoint;
using Tokens = std::vector<int32_t>;
using namespace std::chrono_literals;

// n tokens that share nothing with those of another number.
Tokens text(int32_t number, int32_t n = 64) {
  Tokens tokens(static_cast<size_t>(n), 3);
  tokens[0] = number;
  return tokens;
}

RequestSpec request(const Tokens& tokens, int32_t name_space = 0) {
  RequestSpec spec;
  spec.task = Task::kLogits;
  spec.tokens = tokens;
  spec.logit_ids = {0};
  spec.name_space = name_space;
  return spec;
}

struct CacheControl : testing::Test {
  // Room for `pages` pages of 32 tokens.
  void open(int64_t pages, const char* policy = "lru") {
    page = make_engine(tiny_checkpoint())->info().kv_bytes_per_token * 32;
    engine = make_engine(tiny_checkpoint(),
                         {{"cache_bytes", std::to_string(pages * page)}, {"cache_policy", policy}},
                         clock.now());
  }
  void run(const RequestSpec& spec, Code wanted = Code::kOk) {
    const auto job = engine->submit({spec});
    job->wait(-1);
    ASSERT_EQ(job->result(0).status, wanted) << job->result(0).message;
  }
  void run(const Tokens& tokens, int32_t name_space = 0) { run(request(tokens, name_space)); }
  Tokens generate(const Tokens& prompt, int32_t max_tokens, int64_t cache_ttl_ms = 0) {
    RequestSpec spec = request(prompt);
    spec.task = Task::kGenerate;
    spec.logit_ids.clear();
    spec.sampling.max_tokens = max_tokens;
    spec.sampling.ignore_eos = true;
    spec.cache_ttl_ms = cache_ttl_ms;
    const auto job = engine->submit({spec});
    job->wait(-1);
    EXPECT_EQ(job->result(0).status, Code::kOk) << job->result(0).message;
    Tokens path = prompt;
    path.insert(path.end(), job->result(0).tokens.begin(), job->result(0).tokens.end());
    return path;
  }
  int64_t cached(const Tokens& tokens, int32_t name_space = 0) {
    return engine->cache_lookup(name_space, tokens.data(), tokens.size()).cached_tokens;
  }

  ManualClock clock;
  std::shared_ptr<Engine> engine;
  int64_t page = 0;
};

TEST_F(CacheControl, APinnedPrefixStaysUntilItIsGivenBack) {
  open(8);
  run(text(1));
  const CachePin pin = engine->cache_pin(0, text(1).data(), 50, 0);
  EXPECT_EQ(pin.tokens, 50);
  for (int32_t i = 2; i < 20; ++i) run(text(i));
  EXPECT_GE(cached(text(1)), 50);
  EXPECT_EQ(cached(text(2)), 0);
  engine->cache_unpin(pin.lease);
  for (int32_t i = 2; i < 20; ++i) run(text(i));
  EXPECT_EQ(cached(text(1)), 0);
  expect_error(Code::kNotFound, {"lease 1"}, [&] { engine->cache_unpin(pin.lease); });
}

// What continues it in the same edge is not pinned, and can be dropped by whoever it belongs to.
TEST_F(CacheControl, APinKeepsNoMoreThanItsPrefix) {
  open(8);
  run(text(1, 128));
  const CachePin pin = engine->cache_pin(0, text(1).data(), 50, 0);
  EXPECT_EQ(pin.tokens, 50);
  EXPECT_EQ(engine->cache_evict(0, text(1).data(), 50), 78);
  EXPECT_EQ(cached(text(1, 128)), 50);
  run(text(1, 128));
  engine->check();
  for (int32_t i = 2; i < 20; ++i) run(text(i));
  EXPECT_EQ(cached(text(1, 128)), 50);
  engine->cache_trim(0);
  EXPECT_EQ(engine->stats().tree_tokens, 50);
  EXPECT_EQ(engine->stats().pages_used, 2);
  engine->cache_unpin(pin.lease);
  engine->check();
}

// An engine that keeps nothing keeps what is pinned, and no longer.
TEST_F(CacheControl, WithoutACacheAPinnedPrefixGoesWithItsPin) {
  engine = make_engine(tiny_checkpoint(), {{"cache", "false"}, {"cache_bytes", "16M"}});
  RequestSpec spec = request(text(1, 100));
  spec.task = Task::kGenerate;
  spec.logit_ids.clear();
  spec.sampling.max_tokens = 3000;
  spec.sampling.ignore_eos = true;
  const auto job = engine->submit({spec});
  ASSERT_TRUE(testing_support::token_comes(*job));
  const CachePin pin = engine->cache_pin(0, spec.tokens.data(), 100, 0);
  job->cancel();
  job->wait(-1);
  EXPECT_EQ(cached(spec.tokens), 100);
  engine->cache_unpin(pin.lease);
  EXPECT_EQ(cached(spec.tokens), 0);
  EXPECT_EQ(engine->stats().tree_tokens, 0);
  engine->check();
}

// The edge of a path that grows is cut between two steps.
TEST_F(CacheControl, APinOfAPromptThatRunsKeepsNoMoreThanItsPrefix) {
  open(64);
  RequestSpec spec = request(text(1, 100));
  spec.task = Task::kGenerate;
  spec.logit_ids.clear();
  spec.sampling.max_tokens = 1000;
  spec.sampling.ignore_eos = true;
  const auto alone = engine->submit({spec});
  alone->wait(-1);
  engine->cache_trim(0);
  const auto job = engine->submit({spec});
  ASSERT_TRUE(testing_support::token_comes(*job));
  for (const size_t n : {70, 50, 60}) {
    const CachePin pin = engine->cache_pin(0, spec.tokens.data(), n, 0);
    EXPECT_EQ(pin.tokens, static_cast<int64_t>(n));
    if (n != 60) engine->cache_unpin(pin.lease);
  }
  job->wait(-1);
  engine->check();
  EXPECT_EQ(job->result(0).tokens, alone->result(0).tokens);
  engine->cache_trim(0);
  EXPECT_EQ(engine->stats().tree_tokens, 60);
}

TEST_F(CacheControl, PinsAddUpAndEndByThemselves) {
  open(8);
  run(text(1));
  const CachePin first = engine->cache_pin(0, text(1).data(), 64, 0);
  const CachePin second = engine->cache_pin(0, text(1).data(), 64, 5000);
  EXPECT_NE(first.lease, second.lease);
  engine->cache_unpin(first.lease);
  const auto press = [&] {
    for (int32_t i = 2; i < 20; ++i) run(text(i));
  };
  clock.advance(4999ms);
  press();
  EXPECT_EQ(cached(text(1)), 64);
  clock.advance(1ms);
  EXPECT_EQ(cached(text(1)), 64) << "it is only let go of";
  press();
  EXPECT_EQ(cached(text(1)), 0);
  expect_error(Code::kNotFound, {"has ended"}, [&] { engine->cache_unpin(second.lease); });
}

TEST_F(CacheControl, APinNeedsSomethingThatIsComputed) {
  open(8);
  expect_error(Code::kNotFound, {"64 tokens"},
               [&] { engine->cache_pin(0, text(1).data(), 64, 0); });
  expect_error(Code::kOutOfRange, {"-1"}, [&] { engine->cache_pin(0, text(1).data(), 64, -1); });
  expect_error(Code::kNotFound, {"namespace 9"},
               [&] { engine->cache_pin(9, text(1).data(), 64, 0); });
}

TEST_F(CacheControl, FullOfPinsIsAnErrorOfTheNextRequest) {
  open(4);
  for (int32_t i = 0; i < 2; ++i) {
    run(text(i));
    engine->cache_pin(0, text(i).data(), 64, 0);
  }
  run(request(text(2)), Code::kCacheFull);
  EXPECT_EQ(cached(text(0)), 64);
}

TEST_F(CacheControl, EvictTakesWhatContinuesAPrefix) {
  open(32);
  Tokens shared = text(1, 40);
  Tokens one = shared, two = shared;
  one.resize(80, 4);
  two.resize(80, 5);
  run(one);
  run(two);
  run(text(2));
  EXPECT_EQ(engine->cache_evict(0, one.data(), 60), 20);
  EXPECT_EQ(cached(one), 60);
  EXPECT_EQ(engine->cache_evict(0, shared.data(), 40), 20 + 40);
  EXPECT_EQ(cached(one), 40);
  EXPECT_EQ(cached(two), 40);
  EXPECT_EQ(engine->cache_evict(0, text(3).data(), 64), 0) << "not there";
  EXPECT_EQ(engine->cache_evict(0, nullptr, 0), 40 + 64);
  EXPECT_EQ(engine->stats().pages_used, 0);
}

TEST_F(CacheControl, ANamespaceStaysWithinItsQuota) {
  open(64);
  const int32_t small = engine->open_namespace("small");
  engine->set_cache_limits(small, 0, 4 * page);
  for (int32_t i = 0; i < 20; ++i) {
    run(text(i), small);
    run(text(i));
    EXPECT_LE(engine->cache_usage(small).tokens, 4 * 32);
  }
  EXPECT_EQ(cached(text(19), small), 64);
  EXPECT_EQ(cached(text(0)), 64) << "the others have room";
  const CacheUsage usage = engine->cache_usage(small);
  EXPECT_EQ(usage.quota_bytes, 4 * page);
  EXPECT_EQ(usage.bytes, usage.tokens * page / 32);
  run(request(text(1, 129), small), Code::kCacheFull);
}

TEST_F(CacheControl, ALowerQuotaHoldsAtOnce) {
  open(64);
  const int32_t small = engine->open_namespace("small");
  for (int32_t i = 0; i < 5; ++i) run(text(i), small);
  run(text(9));
  engine->set_cache_limits(small, 0, 2 * page);
  EXPECT_EQ(engine->cache_usage(small).tokens, 2 * 32);
  EXPECT_EQ(cached(text(4), small), 64) << "the one used last";
  EXPECT_EQ(cached(text(9)), 64);
}

// What was in use or pinned then stays until it is not.
TEST_F(CacheControl, ALowerQuotaHoldsWhatItFoundInUse) {
  open(64);
  const int32_t small = engine->open_namespace("small");
  run(text(1), small);
  const std::vector<int32_t> pinned = text(1);
  const int64_t lease =
      engine->cache_pin(small, pinned.data(), static_cast<int64_t>(pinned.size()), 0).lease;
  engine->set_cache_limits(small, 0, page);
  EXPECT_EQ(engine->cache_usage(small).tokens, 64);
  engine->cache_unpin(lease);
  EXPECT_EQ(engine->cache_usage(small).tokens, 32);
}

TEST_F(CacheControl, DroppingANamespaceLeavesWhatALeaseKeeps) {
  open(64);
  const int32_t space = engine->open_namespace("tenant");
  run(text(1), space);
  run(text(2), space);
  const std::vector<int32_t> pinned = text(1);
  const int64_t lease = engine->cache_pin(space, pinned.data(), pinned.size(), 0).lease;
  EXPECT_EQ(engine->drop_namespace(space), 64);
  EXPECT_EQ(cached(text(1), space), 64);
  engine->cache_unpin(lease);
  EXPECT_EQ(engine->drop_namespace(space), 64);
}

TEST_F(CacheControl, OthersDoNotEvictANamespaceBelowItsFloor) {
  open(8);
  const int32_t kept = engine->open_namespace("kept");
  engine->set_cache_limits(kept, 2 * page, 0);
  run(text(1), kept);
  run(text(2), kept);
  for (int32_t i = 0; i < 20; ++i) run(text(i));
  EXPECT_EQ(cached(text(1), kept), 0);
  EXPECT_EQ(cached(text(2), kept), 64);
  engine->set_cache_limits(kept, 0, 0);
  for (int32_t i = 0; i < 20; ++i) run(text(i));
  EXPECT_EQ(cached(text(2), kept), 0);
}

TEST_F(CacheControl, LimitsThatMakeNoSenseAreRefused) {
  open(8);
  expect_error(Code::kOutOfRange, {"floor_bytes is -1"},
               [&] { engine->set_cache_limits(0, -1, 0); });
  expect_error(Code::kOutOfRange, {"quota_bytes is -5"},
               [&] { engine->set_cache_limits(0, 0, -5); });
  expect_error(Code::kOutOfRange, {"one token takes"}, [&] { engine->set_cache_limits(0, 0, 1); });
  expect_error(Code::kOutOfRange, {"above"},
               [&] { engine->set_cache_limits(0, 3 * page, 2 * page); });
}

TEST_F(CacheControl, LowPrioritiesGoFirst) {
  open(8, "priority");
  RequestSpec important = request(text(1));
  important.cache_priority = 5;
  run(important);
  for (int32_t i = 2; i < 20; ++i) run(text(i));
  EXPECT_EQ(cached(text(1)), 64);
  important.cache_priority = 40000;
  run(important, Code::kOutOfRange);
}

TEST_F(CacheControl, FrequentOnesStayUnderLfu) {
  open(8, "lfu");
  for (int32_t i = 0; i < 3; ++i) run(text(1));
  for (int32_t i = 2; i < 20; ++i) run(text(i));
  EXPECT_EQ(cached(text(1)), 64);
}

TEST_F(CacheControl, WhatIsPastItsTimeToLiveIsGone) {
  open(8);
  RequestSpec brief = request(text(1));
  brief.cache_ttl_ms = 5000;
  run(brief);
  run(text(2));
  clock.advance(4999ms);
  EXPECT_EQ(cached(text(1)), 64);
  clock.advance(1ms);
  EXPECT_EQ(cached(text(1)), 0);
  EXPECT_EQ(cached(text(2)), 64);
  EXPECT_EQ(engine->cache_usage(0).tokens, 64);
  brief.cache_ttl_ms = -1;
  run(brief, Code::kOutOfRange);
}

// No step lets go of it while nothing runs: the first question does.
TEST_F(CacheControl, WhatIsPastItsTimeToLiveIsInNoReport) {
  int64_t next = 0;  // event
  const std::pair<const char*, std::function<bool()>> reports[] = {
      {"stats", [&] { return engine->stats().tree_tokens == 0; }},
      {"tree_json", [&] { return engine->tree_json().starts_with("{\"tokens\":0,"); }},
      {"dump_events", [&] { return engine->dump_events().blocks.empty(); }},
      {"read_event", [&] { return engine->read_event(next).kind != CacheEvent::kStored; }},
  };
  for (const auto& [name, is_told] : reports) {
    engine = make_engine(tiny_checkpoint(), {{"cache_events", "100"}}, clock.now());
    RequestSpec brief = request(text(1));
    brief.cache_ttl_ms = 5000;
    run(brief);
    clock.advance(4999ms);
    EXPECT_EQ(engine->stats().tree_tokens, 64);
    next = engine->dump_events().next;
    clock.advance(1ms);
    EXPECT_TRUE(is_told()) << name;
  }
}

// Of a text with a limit only what a request without one reads loses it.
TEST_F(CacheControl, AnotherRequestLeavesTheRestOfATextItsLimit) {
  open(8);
  RequestSpec brief = request(text(1, 128));
  brief.cache_ttl_ms = 5000;
  run(brief);
  run(text(1, 50));
  clock.advance(4999ms);
  EXPECT_EQ(cached(text(1, 128)), 128);
  clock.advance(1ms);
  EXPECT_EQ(cached(text(1, 128)), 50);
  EXPECT_EQ(engine->cache_usage(0).tokens, 50);
}

// As does one whose own limit is later.
TEST_F(CacheControl, ALaterLimitIsThatOfWhatWasRead) {
  open(8);
  RequestSpec brief = request(text(1, 128));
  brief.cache_ttl_ms = 5000;
  run(brief);
  clock.advance(2000ms);
  brief.tokens.resize(50);
  run(brief);
  clock.advance(3000ms);
  EXPECT_EQ(cached(text(1, 128)), 50);
  clock.advance(2000ms);
  EXPECT_EQ(cached(text(1, 128)), 0);
}

TEST_F(CacheControl, AnAnswerHasTheLimitOfItsRequestAndNotOfItsPrompt) {
  open(16);
  run(text(1, 50));
  const Tokens path = generate(text(1, 50), 20, 5000);
  EXPECT_EQ(cached(path), 69) << "the last token is not read again";
  clock.advance(5000ms);
  EXPECT_EQ(cached(path), 50);

  RequestSpec brief = request(text(2, 50));
  brief.cache_ttl_ms = 5000;
  run(brief);
  const Tokens kept = generate(text(2, 50), 20);
  clock.advance(5000ms);
  EXPECT_EQ(cached(kept), 69);
  EXPECT_EQ(engine->cache_usage(0).tokens, 50 + 69);
}

// The same answer again is one of both, whoever was first.
TEST_F(CacheControl, AnAnswerThatIsFollowedIsUsed) {
  open(16, "priority");
  Tokens path = generate(text(1, 50), 20, 5000);
  EXPECT_EQ(generate(text(1, 50), 10), Tokens(path.begin(), path.begin() + 60));
  clock.advance(5000ms);
  EXPECT_EQ(cached(path), 59) << "as far as the one without a limit went";
  engine->check();
}

// --- two rotations -------------------------------------------------------------------------------

// A model that rotates texts beyond 64 tokens in another way, so that it has their keys apart.
struct TwoRotations : CacheControl {
  TwoRotations() {
    const std::string file = checkpoint.path() + "/config.json";
    nlohmann::json config = nlohmann::json::parse(std::ifstream(file));
    config["original_max_position_embeddings"] = 64;
    config["rope_scaling"] = {{"type", "longrope"},
                              {"short_factor", std::vector<double>(8, 1)},
                              {"long_factor", std::vector<double>(8, 2)}};
    std::ofstream(file) << config.dump();
    engine = make_engine(checkpoint, {}, clock.now());
  }

  const testing_support::TinyCheckpoint checkpoint{[] {
    tools::CheckpointShape shape;
    shape.architecture = "phi3";
    return shape;
  }()};
};

TEST_F(TwoRotations, ALookUpIsOfTheOneThatARequestWouldHave) {
  run(text(1, 100));
  EXPECT_EQ(cached(text(1, 100)), 100);
  EXPECT_EQ(cached(text(1, 65)), 65);
  EXPECT_EQ(cached(text(1, 64)), 0) << "a request would compute them";
  run(text(1, 40));
  EXPECT_EQ(cached(text(1, 64)), 40);
  EXPECT_EQ(cached(text(1, 100)), 100);
}

TEST_F(TwoRotations, APinIsOfTheOneThatARequestWouldHave) {
  run(text(1, 100));
  expect_error(Code::kNotFound, {"64 tokens"},
               [&] { engine->cache_pin(0, text(1).data(), 64, 0); });
  run(text(1, 40));
  EXPECT_EQ(engine->cache_pin(0, text(1).data(), 64, 0).tokens, 40);
  engine->cache_trim(0);
  EXPECT_EQ(cached(text(1)), 40);
  EXPECT_EQ(cached(text(1, 100)), 0);
}

TEST_F(TwoRotations, AGenerationHasTheOneOfTheLongestTextThatItMayMake) {
  RequestSpec spec = request(text(1, 40));
  spec.task = Task::kGenerate;
  spec.sampling.max_tokens = INT32_MAX;
  spec.sampling.allowed_tokens = spec.sampling.stop_tokens = {5};
  run(spec);
  EXPECT_EQ(cached(text(1, 100)), 40);
  EXPECT_EQ(cached(text(1, 64)), 0);
}

}  // namespace
}  // namespace prefix
