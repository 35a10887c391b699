// Out of memory at every allocation of calls that change what an engine has: cache, adapters.
#include <algorithm>
#include <set>

#include "failing_memory.h"
#include "random_adapter.h"

namespace prefix_abi {
namespace {

// Who followed the events from the first one on knows the blocks that are there,
// or sees that some were lost.
void expect_told(prefix_engine* engine) {
  std::set<int64_t> blocks;
  prefix_cache_event event = PREFIX_CACHE_EVENT_INIT;
  int64_t next = 0;
  for (; prefix_cache_next_event(engine, next, &event, nullptr, 0, nullptr, nullptr) == PREFIX_OK;
       ++next) {
    if (event.sequence != next) return;
    if (event.kind == PREFIX_CACHE_STORED) {
      EXPECT_TRUE(blocks.insert(event.block).second);
    }
    if (event.kind == PREFIX_CACHE_REMOVED) {
      EXPECT_EQ(blocks.erase(event.block), 1u);
    }
  }
  const std::string there = text([&](char* b, size_t c, size_t* n, prefix_error* e) {
    return prefix_cache_dump_events(engine, b, c, n, e);
  });
  const std::string end = "{\"next\":" + std::to_string(next) + "}\n";
  if (!there.ends_with(end)) return;
  EXPECT_EQ(static_cast<size_t>(std::ranges::count(there, '\n')), blocks.size() + 1) << there;
}

// What a caller does to the cache finds no memory: it is done or it is not, requests get the same
// values afterwards, and nothing of the cache is lost.
TEST(Memory, ChangingTheCache) {
  const std::string snapshot = testing::TempDir() + "memory_test.snapshot";
  Tokens path(100), branch(70);
  for (size_t i = 0; i < path.size(); ++i) path[i] = static_cast<prefix_token>(i % 7);
  std::copy_n(path.begin(), 50, branch.begin());
  const Settings settings = {{"threads", "1"}, {"cache_events", "64"}};
  int32_t name_space = 0;
  const auto values = [&](prefix_engine* engine, const Tokens& tokens) {
    const Options options = make_options({{"namespace_id", std::to_string(name_space).c_str()}});
    const Batch batch = make_batch(engine);
    add_logits(batch, tokens, {0, 1, 2}, options);
    return values_of(run(engine, batch), 0);
  };
  const auto filled = [&] {
    Engine engine = make_engine(settings);
    EXPECT_EQ(prefix_namespace_open(engine, "n", 1, &name_space, nullptr), PREFIX_OK);
    values(engine, path);
    values(engine, branch);
    return engine;
  };
  std::vector<float> wanted;
  {
    const Engine engine = filled();
    wanted = values(engine, path);
    ASSERT_EQ(
        prefix_snapshot_save(engine, snapshot.c_str(), PREFIX_NUL, nullptr, 0, nullptr, nullptr),
        PREFIX_OK);
  }
  using Change =
      prefix_status (*)(prefix_engine*, int32_t, const Tokens&, const char*, prefix_error*);
  const std::pair<const char*, Change> changes[] = {
      {"evict", [](prefix_engine* g, int32_t n, const Tokens& t, const char*,
                   prefix_error* e) { return prefix_cache_evict(g, n, t.data(), 40, nullptr, e); }},
      {"drop", [](prefix_engine* g, int32_t n, const Tokens&, const char*,
                  prefix_error* e) { return prefix_namespace_drop(g, n, nullptr, e); }},
      {"trim", [](prefix_engine* g, int32_t, const Tokens&, const char*,
                  prefix_error* e) { return prefix_cache_trim(g, 1, nullptr, e); }},
      {"pin",
       [](prefix_engine* g, int32_t n, const Tokens& t, const char*, prefix_error* e) {
         int64_t lease = 0, pinned = 0;
         const prefix_status s = prefix_cache_pin(g, n, t.data(), t.size(), 0, &lease, &pinned, e);
         if (s == PREFIX_OK) prefix_cache_unpin(g, lease, nullptr);
         return s;
       }},
      {"limits",
       [](prefix_engine* g, int32_t n, const Tokens&, const char*, prefix_error* e) {
         const prefix_status s = prefix_cache_set_limits(g, n, 0, 1 << 20, e);
         if (s == PREFIX_OK) prefix_cache_set_limits(g, n, 0, 0, nullptr);
         return s;
       }},
      {"close", [](prefix_engine* g, int32_t n, const Tokens&, const char*,
                   prefix_error* e) { return prefix_namespace_close(g, n, nullptr, e); }},
      {"load", [](prefix_engine* g, int32_t, const Tokens&, const char* file, prefix_error* e) {
         prefix_cache_trim(g, 0, nullptr, nullptr);
         return prefix_snapshot_load(g, file, PREFIX_NUL, nullptr, e);
       }}};
  for (const auto& [name, change] : changes) {
    bool more = true;
    for (int64_t nth = 0; more; nth += quick() ? 7 : 1) {
      SCOPED_TRACE(std::string(name) + ", allocation " + std::to_string(nth));
      const Engine engine = filled();
      Error error;
      prefix_status status = PREFIX_OK;
      more = failing(nth % 2 ? Fail::kOnce : Fail::kFromThenOn, nth,
                     [&] { status = change(engine, name_space, path, snapshot.c_str(), &error); });
      if (status != PREFIX_OK) {
        ASSERT_EQ(status, PREFIX_ERR_OUT_OF_MEMORY) << error.message;
      }
      expect_told(engine);
      // A namespace that is closed is another one when it is opened again.
      ASSERT_EQ(prefix_namespace_open(engine, "n", 1, &name_space, nullptr), PREFIX_OK);
      EXPECT_EQ(values(engine, branch), values(engine, branch));
      EXPECT_EQ(values(engine, path), wanted);
      expect_nothing_left(engine);
      if (HasFailure()) return;
    }
  }
}

// A name that stood for one adapter stands for another, or for none:
// with all that follows, or not at all.
TEST(Memory, ChangingAnAdapter) {
  const prefix::testing_support::TempFolder first, second;
  prefix::tools::write_adapter(first.path(), {}, {});
  prefix::tools::write_adapter(second.path(), {}, {.seed = 2});
  const Options with = make_options({{"adapter", "a"}});
  const auto values = [&](prefix_engine* engine) {
    const Batch batch = make_batch(engine);
    add_logits(batch, {1, 2, 3, 4, 5}, {0, 1, 2}, with);
    return values_of(run(engine, batch), 0);
  };
  const auto load = [](prefix_engine* engine, const std::string& path, prefix_error* e) {
    return prefix_adapter_load(engine, "a", PREFIX_NUL, path.c_str(), PREFIX_NUL, e);
  };
  const auto made = [&](const std::string& path) {
    Engine engine = make_engine({{"threads", "1"}});
    EXPECT_EQ(load(engine, path, nullptr), PREFIX_OK);
    return engine;
  };
  const std::vector<float> before = values(made(first.path())), after = values(made(second.path()));
  ASSERT_NE(before, after);
  const auto changes = [&](prefix_engine* engine, bool loads, prefix_error* e) {
    return loads ? load(engine, second.path(), e)
                 : prefix_adapter_unload(engine, "a", PREFIX_NUL, e);
  };
  for (const bool loads : {true, false}) {
    constexpr int64_t kMany = 1 << 20;
    const Engine whole = made(first.path());
    failing(Fail::kOnce, kMany, [&] { changes(whole, loads, nullptr); });
    const int64_t all = kMany - allocations_left();
    ASSERT_GT(all, 0);
    // What changes the engine comes last.
    for (int64_t nth = 0; nth < all; nth += nth < all - 40 ? 1 + (all - nth) / 16 : 1) {
      SCOPED_TRACE(std::string(loads ? "load" : "unload") + ", allocation " + std::to_string(nth));
      const Engine engine = made(first.path());
      values(engine);
      Error error;
      prefix_status status = PREFIX_OK;
      failing(nth % 2 ? Fail::kOnce : Fail::kFromThenOn, nth,
              [&] { status = changes(engine, loads, &error); });
      if (status == PREFIX_OK) continue;
      ASSERT_EQ(status, PREFIX_ERR_OUT_OF_MEMORY) << error.message;
      EXPECT_EQ(values(engine), before);
      ASSERT_EQ(changes(engine, loads, &error), PREFIX_OK) << error.message;
      if (loads) {
        EXPECT_EQ(values(engine), after);
      }
      expect_nothing_left(engine);
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace prefix_abi
