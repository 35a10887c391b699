// What the rest of the cache makes of paths whose front pages were given back: nothing is told,
// kept, saved or announced that is not there.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "event_router.h"
#include "snapshot_support.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace prefix {
namespace {

using namespace testing_support;
using Tokens = std::vector<int32_t>;

constexpr int32_t kWindow = 70;

struct WindowCache : testing::Test {
  std::shared_ptr<Engine> open(int64_t pages, const EngineOptions& more = {}) {
    EngineOptions options = {{"rows", "64"}};
    options.insert(more.begin(), more.end());
    return open_engine(pages, options, checkpoint);
  }
  Tokens text(size_t n) { return random_tokens(random, n, 131); }
  void run(Engine& engine, const Tokens& tokens, int64_t cached) {
    const auto job = run_all(engine, {logits_of(tokens)});
    const RequestResult& got = job->result(0);
    ASSERT_EQ(got.status, Code::kOk) << got.message;
    EXPECT_EQ(got.usage.cached, cached);
    EXPECT_TRUE(same_bits(got, run_all(*cold, {logits_of(tokens)})->result(0)));
    engine.check();
  }
  static Tokens join(Tokens a, const Tokens& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }

  const TinyCheckpoint checkpoint{[] {
    tools::CheckpointShape shape;
    shape.architecture = "mistral";
    shape.windows = "ss";
    shape.window = kWindow;
    return shape;
  }()};
  const std::shared_ptr<Engine> cold = open(200, {{"cache", "false"}});
  std::mt19937 random{11};
};

TEST_F(WindowCache, ALookUpTellsWhatARequestFinds) {
  const auto engine = open(8);
  const Tokens prompt = text(900);
  run(*engine, prompt, 0);
  const auto found = [&](size_t n) {
    return look_up(*engine, first_tokens(prompt, n)).cached_tokens;
  };
  EXPECT_EQ(found(900), 900);
  EXPECT_EQ(found(899), 899);
  EXPECT_EQ(found(700), 0);
  // All that it tells is there, and nothing that is there is kept quiet.
  int64_t first = 900;
  while (found(static_cast<size_t>(first - 1)) == first - 1) --first;
  EXPECT_LT(first, 900);
  EXPECT_EQ(found(static_cast<size_t>(first - 1)), 0);
  run(*engine, join(first_tokens(prompt, static_cast<size_t>(first)), {1, 2, 3}), first);
}

TEST_F(WindowCache, APinKeepsTheWindowThatIsThere) {
  const auto engine = open(16);
  const Tokens prompt = text(900);
  run(*engine, prompt, 0);
  expect_error(Code::kNotFound, {"500 tokens"},
               [&] { engine->cache_pin(0, prompt.data(), 500, 0); });
  const CachePin pin = engine->cache_pin(0, prompt.data(), prompt.size(), 0);
  EXPECT_EQ(pin.tokens, 900);
  for (int i = 0; i < 4; ++i) run(*engine, text(500), 0);
  run(*engine, join(first_tokens(prompt, 600), text(20)), 0);  // cannot have its place
  run(*engine, join(prompt, text(20)), 900);
  engine->cache_unpin(pin.lease);
  engine->cache_trim(0);
  EXPECT_EQ(look_up(*engine, prompt).cached_tokens, 0);
  EXPECT_EQ(engine->stats().pages_used, 0);
}

TEST_F(WindowCache, ASnapshotHasWhatIsThereFromTheBeginning) {
  const auto engine = open(16);
  const Tokens slides = text(900), fits = text(100);
  run(*engine, slides, 0);
  run(*engine, fits, 0);
  const TempFolder folder;
  const SnapshotResult saved = engine->save_snapshot(folder / "snapshot", {});
  EXPECT_EQ(saved.tokens, 100);
  EXPECT_EQ(saved.nodes, 1);
  const auto other = open(16);
  EXPECT_EQ(other->load_snapshot(folder / "snapshot").tokens, 100);
  run(*other, join(fits, {3}), 100);
  run(*other, slides, 0);
}

TEST_F(WindowCache, ATierGetsPagesUpToTheFirstThatIsNotThere) {
  const TempFolder folder;
  const Tokens prompt = text(900), fits = text(100);
  {
    const auto engine = open_over(folder / "pages", 12, {{"rows", "64"}}, checkpoint);
    run(*engine, prompt, 0);
    run(*engine, fits, 0);
    engine->shutdown(0);
  }
  const auto engine = open_over(folder / "pages", 12, {{"rows", "64"}}, checkpoint);
  run(*engine, join(fits, {3}), 96);
  run(*engine, join(prompt, {3}), 0);
}

TEST_F(WindowCache, EventsTellOfPathsAsLongAsTheyCanBeContinued) {
  const auto engine = open(16, {{"cache_events", "10000"}, {"cache_event_tokens", "32"}});
  EventRouter router(32);
  int64_t next = 0;
  const auto read = [&] {
    for (;;) {
      try {
        const CacheEvent event = engine->read_event(next);
        ASSERT_EQ(router.apply(event), "") << "event " << next;
        ++next;
      } catch (const Error& e) {
        ASSERT_EQ(e.code(), Code::kNoEvent);
        return;
      }
    }
  };
  const Tokens prompt = text(900);
  run(*engine, prompt, 0);
  read();
  EXPECT_EQ(router.cached(0, prompt), 896);
  // What a request computes alone is nobody's.
  const CachePin pin = engine->cache_pin(0, prompt.data(), prompt.size(), 0);
  run(*engine, join(first_tokens(prompt, 600), text(20)), 0);
  read();
  EXPECT_EQ(router.cached(0, prompt), 896);
  engine->cache_unpin(pin.lease);
  const Tokens other = join(first_tokens(prompt, 600), text(40));
  run(*engine, other, 0);
  read();
  EXPECT_EQ(router.cached(0, other), 640);
  EXPECT_EQ(router.cached(0, prompt), 600 / 32 * 32);
  engine->cache_trim(0);
  read();
  EXPECT_TRUE(router.blocks().empty());
}

TEST_F(WindowCache, TheTreeCountsThePagesThatAreThere) {
  const auto engine = open(8);
  run(*engine, text(900), 0);
  int64_t pages = 0;
  const auto json = nlohmann::json::parse(engine->tree_json());
  for (const auto& node : json.at("nodes")) pages += node.at("pages").get<int64_t>();
  EXPECT_EQ(pages, engine->stats().pages_used);
  EXPECT_LE(pages, 8);
}

// A model with other layers keeps all pages: these read them.
TEST_F(WindowCache, AMixedModelNeedsMemoryForTheWholePath) {
  tools::CheckpointShape shape;
  shape.architecture = "gemma3_text";
  shape.layers = 3;
  shape.windows = "ssf";
  shape.window = 33;
  const TinyCheckpoint mixed(shape);
  const auto engine = open_engine(8, {}, mixed);
  EXPECT_EQ(run_all(*engine, {logits_of(text(300))})->result(0).status, Code::kCacheFull);
}

}  // namespace
}  // namespace prefix
