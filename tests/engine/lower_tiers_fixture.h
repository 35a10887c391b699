// Two tiers over a small cache, and a clock that is the test's.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "engine_support.h"
#include "lower_tiers_support.h"

namespace prefix::testing_support {

using namespace std::chrono_literals;
using Kind = FakeTier::Kind;

struct LowerTiersTest : testing::Test {
  LowerTiersTest() { open(1s); }

  void open(std::chrono::milliseconds timeout, size_t read_pages = 100, size_t write_pages = 100,
            int32_t state_pages = 0) {
    LowerTierLimits limits;
    limits.read_bytes = read_pages * cache.layout.page_bytes();
    limits.write_bytes = write_pages * cache.layout.page_bytes();
    limits.lookup_pages = lookup_pages;
    limits.write_pages = waiting_pages;
    limits.now = [this] { return now; };
    limits.wall = [this] { return wall; };
    limits.wait = [this](const Ticket& ticket, std::chrono::nanoseconds time) {
      if (!ticket.done()) wait(time);
    };
    limits.reserved_tokens = [this](int32_t) { return reserved; };
    auto first = std::make_unique<FakeTier>();
    auto second = std::make_unique<FakeTier>();
    near = first.get();
    far = second.get();
    std::vector<LowerTier> list;
    list.push_back({"near", std::move(first)});
    list.push_back({"far", std::move(second)});
    tiers = std::make_unique<LowerTiers>(std::move(list), cache.tree, cache.pool, cache.kv,
                                         cache.keys, timeout, limits, state_pages);
  }

  Tokens prompt(size_t n) { return random_tokens(random, n, 1000); }
  std::shared_ptr<const Fetch> lookup(const Tokens& tokens, bool* own = nullptr,
                                      const AttachOptions& use = {}) {
    bool mine;
    auto fetch = tiers->lookup(cache.root, tokens, cache.tree.match(cache.root, tokens),
                               static_cast<int32_t>(tokens.size()), &mine, use);
    if (own) *own = mine;
    return fetch;
  }
  // Everybody answers all at once until the fetch is done.
  void finish(const std::shared_ptr<const Fetch>& fetch) {
    for (int round = 0; fetch && !fetch->done; ++round) {
      ASSERT_LT(round, 100);
      near->answer();
      far->answer();
      tiers->poll();
    }
  }
  void answer() {
    near->answer();
    far->answer();
  }
  // A token costs a microsecond, as steps have shown that are over.
  void measure_tokens() {
    tiers->computed(1000, 1000000);
    tiers->poll();
  }
  int32_t computed(const Tokens& tokens) const {
    return cache.tree.match(cache.root, tokens).computed;
  }
  void check() const {
    cache.tree.check();
    cache.check_content();
    EXPECT_EQ(cache.tree.held_tokens(), 0);
  }
  // Adds the path, gives its pages to the tiers and lets go of it.
  void add_and_save(const Tokens& tokens) {
    const NodeId id = cache.tree.attach(cache.tree.match(cache.root, tokens), tokens, {});
    cache.compute_all(id);
    tiers->save(id, static_cast<int32_t>(tokens.size()));
    cache.tree.unlock(id, true);
  }

  Clock::time_point now{};
  Clock::time_point wall{};  // of flush(), whose waits take no time but here
  std::function<void(std::chrono::nanoseconds)> wait = [this](std::chrono::nanoseconds time) {
    wall += time;
  };
  int64_t reserved = 0;                              // tokens by which generations will grow
  size_t lookup_pages = 1024, waiting_pages = 4096;  // for open()
  SmallCache cache{64};
  FakeTier* near = nullptr;
  FakeTier* far = nullptr;
  std::unique_ptr<LowerTiers> tiers;
  std::mt19937 random{5};
};

}  // namespace prefix::testing_support
