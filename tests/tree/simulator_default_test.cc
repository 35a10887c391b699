// The simulator in default mode beside a naive model, operation by operation: nothing may differ,
// the capacity is never exceeded, and where more is wanted than it holds it is used.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/status.h"
#include "support/cases.h"
#include "support/expect_error.h"
#include "tree/default_model.h"
#include "tree/simulator.h"

namespace prefix {

bool operator==(const SimulatorNode& a, const SimulatorNode& b) {
  return a.path == b.path && a.name_space == b.name_space && a.slots == b.slots &&
         a.length == b.length && a.locks == b.locks && a.hits == b.hits &&
         a.priority == b.priority && a.last_use == b.last_use && a.created == b.created;
}

namespace {

using testing_support::cases;
using testing_support::DefaultModel;
using testing_support::expect_error;
using Tokens = std::vector<int32_t>;

struct Outcome {
  SimulatorResult result;
  Code refused = Code::kOk;

  bool operator==(const Outcome& other) const {
    return refused == other.refused && result.matched == other.result.matched &&
           result.slots == other.result.slots && result.freed == other.result.freed;
  }
};

template <typename Operation>
Outcome outcome_of(const Operation& operation) {
  try {
    return {operation()};
  } catch (const Error& e) {
    return {.refused = e.code()};
  }
}

// Draws operations that meet each other, in lengths that suit the capacity.
class SideBySide {
 public:
  SideBySide(const SimulatorOptions& options, uint32_t seed)
      : options_(options), random_(seed), simulator_(options), model_(options) {
    longest_ = static_cast<int32_t>(std::clamp<int64_t>(options.capacity / 3, 2, 25000));
    longest_ = std::max(longest_, 3 * options.page);
  }

  // What differs after `count` operations, in words; empty: nothing.
  std::string go(int32_t count) {
    for (int32_t i = 0; i < count; ++i) {
      if (const std::string words = step(i % 97 == 0 || i + 1 == count); !words.empty())
        return cat("operation ", i, ": ", words);
    }
    return {};
  }

 private:
  int32_t below(int64_t n) { return static_cast<int32_t>(random_() % static_cast<uint64_t>(n)); }

  Tokens draw() {
    Tokens tokens;
    if (!recent_.empty() && below(10) < 7) {
      tokens = recent_[static_cast<size_t>(below(static_cast<int64_t>(recent_.size())))];
      if (below(2) == 0)
        tokens.resize(static_cast<size_t>(below(static_cast<int64_t>(tokens.size()) + 1)));
      if (below(4) == 0) return tokens;
    }
    // Sometimes more than the whole capacity.
    const int32_t most = below(40) == 0 ? 4 * longest_ : longest_;
    const int32_t alphabet = below(3) == 0 ? 100000 : 2;
    for (int32_t more = below(most + 1); more > 0; --more) tokens.push_back(below(alphabet));
    return tokens;
  }

  std::string step(bool with_dump) {
    static constexpr std::string_view kNames[] = {"", "a", "tenant b"};
    const std::string_view name = kNames[below(8) == 0 ? below(3) : 0];
    const int32_t kind = below(1000);
    Outcome a, b;
    bool inserted = false;
    std::string what;
    if (kind < 600) {
      what = "insert";
      const Tokens tokens = draw();
      const int32_t priority = below(3) == 0 ? below(7) - 3 : 0;
      a = outcome_of([&] { return simulator_.insert(name, tokens, priority); });
      b = outcome_of([&] { return model_.insert(name, tokens, priority, a.result.freed); });
      if (recent_.size() < 16) recent_.emplace_back();
      recent_[static_cast<size_t>(below(static_cast<int64_t>(recent_.size())))] = tokens;
      inserted = true;
    } else if (kind < 680 && options_.policy != Policy::kGdsf) {
      what = "request";
      const Tokens tokens = draw();
      const int64_t prompt = below(static_cast<int64_t>(tokens.size()) + 1);
      a.result.matched = simulator_.request(name, tokens, prompt);
      b.result.matched = model_.request(name, tokens, prompt);
    } else if (kind < 820) {
      what = "match";
      const Tokens tokens = draw();
      a = outcome_of([&] { return simulator_.match(name, tokens); });
      b = outcome_of([&] { return model_.match(name, tokens); });
    } else if (kind < 880 && held_.size() < 3) {
      what = "lock";
      const Tokens tokens = draw();
      a = outcome_of([&] { return simulator_.lock(name, tokens); });
      b = outcome_of([&] { return model_.lock(name, tokens); });
      const int64_t matched = a.result.matched;
      if (matched > 0) {
        held_.emplace_back(name, tokens);
        held_.back().second.resize(static_cast<size_t>(matched + (options_.bigram ? 1 : 0)));
      }
    } else if (kind < 960) {
      what = "unlock";
      std::pair<std::string, Tokens> held(name, Tokens());
      if (!held_.empty() && below(10) > 0) {
        std::swap(held_[static_cast<size_t>(below(static_cast<int64_t>(held_.size())))],
                  held_.back());
        held = std::move(held_.back());
        held_.pop_back();
      } else {
        held.second = draw();  // mostly refused; what it lets go of is no lock any more
      }
      a = outcome_of([&] { return simulator_.unlock(held.first, held.second); });
      b = outcome_of([&] { return model_.unlock(held.first, held.second); });
    } else if (kind < 998) {
      what = "evict";
      const int64_t n = below(std::max<int64_t>(2, options_.capacity / 5));
      a = outcome_of([&] { return simulator_.evict(n); });
      b = outcome_of([&] { return model_.evict(n, a.result.freed); });
    } else {
      what = "reset";
      simulator_.reset();
      model_.reset();
      held_.clear();
    }
    if (!(a == b)) return what + ": the results differ";
    if (simulator_.total() != model_.total()) return what + ": the totals differ";
    if (simulator_.protected_() != model_.protected_()) return what + ": what is held differs";
    if (simulator_.tick() != model_.tick()) return what + ": the clocks differ";
    if (simulator_.evictions() != model_.evictions()) return what + ": the evictions differ";
    if (simulator_.total() > options_.capacity) return what + ": above the capacity";
    if (inserted && !a.result.freed.empty()) {
      if (simulator_.total() <= options_.capacity - options_.page)
        return what + ": a page of the capacity is not used";
      if (options_.capacity >= 10 * options_.page &&
          10 * simulator_.total() < 9 * options_.capacity)
        return what + ": less than 0.9 of the capacity is used";
    }
    if (with_dump) {
      simulator_.check();
      if (simulator_.dump() != model_.dump()) return what + ": the trees differ";
    }
    return {};
  }

  SimulatorOptions options_;
  std::mt19937 random_;
  Simulator simulator_;
  DefaultModel model_;
  int32_t longest_;
  std::vector<Tokens> recent_;
  std::vector<std::pair<std::string, Tokens>> held_;
};

class SimulatorDefault : public testing::TestWithParam<Policy> {};

TEST_P(SimulatorDefault, AgreesWithTheModelAndUsesItsCapacity) {
  struct Size {
    int64_t capacity;
    int32_t operations;
  };
  // 1,049,600 operations over all policies.
  constexpr Size kSizes[] = {{1, 2600},    {7, 2600},    {32, 2600},   {100, 2600},
                             {1000, 2000}, {10000, 600}, {100000, 120}};
  int64_t done = 0;
  for (const int32_t page : {1, 2, 3, 5, 8, 16, 31, 32, 33, 64}) {
    for (const Size& size : kSizes) {
      const uint32_t seed = static_cast<uint32_t>(page * 1000003 + size.capacity);
      const SimulatorOptions options{
          .policy = GetParam(), .page = page, .capacity = size.capacity, .bigram = seed % 5 == 0};
      const int32_t operations = cases(size.operations);
      const std::string words = SideBySide(options, seed).go(operations);
      ASSERT_EQ(words, "") << "page " << page << ", capacity " << size.capacity << ", seed "
                           << seed;
      done += operations;
    }
  }
  RecordProperty("operations", std::to_string(done));
}

INSTANTIATE_TEST_SUITE_P(Policies, SimulatorDefault,
                         testing::Values(Policy::kLru, Policy::kLfu, Policy::kFifo, Policy::kMru,
                                         Policy::kFilo, Policy::kSlru, Policy::kPriority,
                                         Policy::kGdsf),
                         [](const auto& each) { return std::string(policy_name(each.param)); });

Tokens range(int32_t from, int32_t count) {
  Tokens tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), from);
  return tokens;
}

TEST(SimulatorCapacity, CountsTokensWhateverThePage) {
  Simulator pages({.page = 16, .capacity = 1000});
  for (int32_t i = 0; i < 200; ++i) pages.insert("", range(100 * i, 32));
  EXPECT_EQ(pages.total(), 992) << "whole pages: 62 of 16";
  EXPECT_EQ(pages.match("", range(19900, 32)).matched, 32);

  Simulator one({.capacity = 50});
  one.insert("", range(0, 50));
  EXPECT_EQ(one.total(), 50) << "not rounded to pages of the engine";
  EXPECT_EQ(one.insert("", range(100, 3)).freed, (std::vector<int64_t>{47, 48, 49}));
  EXPECT_EQ(one.total(), 50);
}

TEST(SimulatorCapacity, WhatCannotFitChangesNothing) {
  Simulator cache({.page = 4, .capacity = 103});
  cache.insert("", range(0, 40));
  cache.insert("", range(100, 40));
  cache.lock("", range(100, 40));
  const std::vector<SimulatorNode> before = cache.dump();
  expect_error(Code::kCacheFull, {"adds 64 tokens", "capacity of 103", "100", "at most 60"},
               [&] { cache.insert("", range(200, 64)); });
  expect_error(Code::kCacheFull, {"adds 104 tokens"}, [&] { cache.insert("b", range(200, 104)); });
  EXPECT_EQ(cache.dump(), before);
  EXPECT_EQ(cache.insert("", range(200, 60)).freed.size(), 40u);
  EXPECT_EQ(cache.total(), 100);
}

// The rest of an edge that the sequence leaves may go, even when it is all there is.
TEST(SimulatorCapacity, TheRestOfASharedEdgeMayGo) {
  Simulator cache({.capacity = 10});
  cache.insert("", range(0, 10));
  Tokens tokens = range(0, 4);
  tokens.insert(tokens.end(), 6, 99);
  EXPECT_EQ(cache.insert("", tokens).freed, (std::vector<int64_t>{4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(cache.match("", tokens).matched, 10);
}

TEST(SimulatorCapacity, EvictionsGoOnAtAReset) {
  for (const bool compat : {false, true}) {
    Simulator cache({.compat = compat});
    cache.insert("", range(0, 4));
    cache.evict(4);
    EXPECT_EQ(cache.evictions(), 1);
    const int64_t tick = cache.tick();
    cache.reset();
    EXPECT_EQ(cache.evictions(), 1) << "as the clock does";
    EXPECT_GE(cache.tick(), tick);
  }
}

}  // namespace
}  // namespace prefix
