// Loading: progress, stopping, and that a load that fails leaves the caller's handle alone.
#include <thread>

#include "abi_support.h"

namespace prefix_abi {
namespace {

struct Progress {
  std::vector<double> fractions;
  size_t stop_after = PREFIX_NUL;  // calls
  std::thread::id thread;
};

int32_t on_progress(double fraction, void* user) {
  auto* p = static_cast<Progress*>(user);
  p->fractions.push_back(fraction);
  p->thread = std::this_thread::get_id();
  return p->fractions.size() > p->stop_after ? 1 : 0;
}

prefix_status load(Progress* progress, prefix_engine** out, prefix_error* error) {
  const Options options = make_options({{"cache_bytes", "1M"}, {"threads", "2"}});
  return prefix_engine_create_with_progress(model_path().c_str(), PREFIX_NUL, options, on_progress,
                                            progress, out, error);
}

TEST(Load, ProgressGrowsToOneOnTheCallersThread) {
  Progress progress;
  Engine engine;
  expect(PREFIX_OK, [&](prefix_error* e) { return load(&progress, engine.out(), e); });
  ASSERT_FALSE(progress.fractions.empty());
  double before = 0;
  for (const double fraction : progress.fractions) {
    EXPECT_GE(fraction, before);
    before = fraction;
  }
  EXPECT_EQ(before, 1.0);
  EXPECT_EQ(progress.thread, std::this_thread::get_id());
  expect_works(engine);
}

TEST(Load, AbortIsCancelledWheneverItComes) {
  Progress all;
  Engine engine;
  expect(PREFIX_OK, [&](prefix_error* e) { return load(&all, engine.out(), e); });
  for (size_t calls = 0; calls < all.fractions.size(); ++calls) {
    Progress progress;
    progress.stop_after = calls;
    Engine none;
    expect(PREFIX_ERR_CANCELLED, [&](prefix_error* e) { return load(&progress, none.out(), e); });
    EXPECT_EQ(none, nullptr);
    EXPECT_EQ(progress.fractions.size(), calls + 1) << "no call after the abort";
  }
  expect_works(engine);
}

TEST(Load, TheCallbackMayBeNull) {
  const Options options = make_options({{"cache_bytes", "1M"}});
  Engine engine;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_engine_create_with_progress(model_path().c_str(), PREFIX_NUL, options, nullptr,
                                              nullptr, engine.out(), e);
  });
  expect_works(engine);
}

// A call that fails changes nothing, also not the handle that was there before.
TEST(Load, FailureLeavesTheHandleAlone) {
  Engine engine = make_engine();
  prefix_engine* slot = engine;
  Progress progress;
  progress.stop_after = 0;
  expect(PREFIX_ERR_CANCELLED, [&](prefix_error* e) { return load(&progress, &slot, e); });
  EXPECT_EQ(slot, engine);
  expect(PREFIX_ERR_NOT_FOUND, [&](prefix_error* e) {
    return prefix_engine_create("/nowhere", PREFIX_NUL, nullptr, &slot, e);
  });
  EXPECT_EQ(slot, engine);
}

// The path need not end with a zero, and one file serves several engines.
TEST(Load, ManyEnginesOfOneFile) {
  const std::string path = model_path() + "???";
  std::vector<Engine> engines;
  const Options options = make_options({{"cache_bytes", "1M"}, {"threads", "1"}});
  for (int i = 0; i < 8; ++i) {
    Engine engine;
    expect(PREFIX_OK, [&](prefix_error* e) {
      return prefix_engine_create(path.data(), path.size() - 3, options, engine.out(), e);
    });
    engines.push_back(std::move(engine));
  }
  for (const Engine& engine : engines) expect_works(engine);
}

TEST(Load, TheEstimateIsWhatTheEngineTakes) {
  const Options options = make_options({{"cache_bytes", "8M"}});
  prefix_memory memory{};
  memory.struct_size = sizeof(memory);
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_engine_estimate(model_path().c_str(), PREFIX_NUL, options, &memory, e);
  });
  Engine engine;
  expect(PREFIX_OK, [&](prefix_error* e) {
    return prefix_engine_create(model_path().c_str(), PREFIX_NUL, options, engine.out(), e);
  });
  expect_works(engine);
  prefix_engine_stats stats{};
  stats.struct_size = sizeof(stats);
  expect(PREFIX_OK, [&](prefix_error* e) { return prefix_engine_get_stats(engine, &stats, e); });
  EXPECT_LE(stats.kv_budget_bytes, memory.kv_budget_bytes);
  EXPECT_GE(stats.kv_budget_bytes, memory.kv_budget_bytes * 9 / 10);
  EXPECT_NEAR(static_cast<double>(stats.weight_bytes) / static_cast<double>(memory.weight_bytes), 1,
              0.1);
  EXPECT_GT(stats.load_us, 0);
}

}  // namespace
}  // namespace prefix_abi
